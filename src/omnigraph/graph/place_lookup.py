"""What one text says about where to read: a branch, commit, tag, snapshot, version or time.

    main                        a branch, as it is now
    v1.2                        a tag
    01KA8M…, 01KA8M2Q           a commit, or the beginning of its id
    12                          a manifest version of the branch
    2026-11-16T08:30:00Z        the newest commit of the branch at that time
    manifest:main:v12           a snapshot id
    HEAD                        the newest commit of the branch that is worked on
    HEAD~1, v1.2~3, 01KA8M~2    so many commits before that one, along first parents

A name that could mean several of them is refused; `branch:`, `tag:`, `commit:`, `version:`,
`time:` and `snapshot:` before it say which one is meant. `HEAD` is never a name: write
`branch:HEAD` for a branch that is called so.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from omnigraph.errors import BadRequest, CommitNotFound, InputError, NotFoundError
from omnigraph.graph.branch_snapshots import BranchSnapshots, CatalogSnapshot
from omnigraph.graph.place_names import is_whole_id
from omnigraph.identity import BranchName
from omnigraph.storage.manifest import Commit
from omnigraph.storage.names import normalize_branch
from omnigraph.storage.refs import find_ref
from omnigraph.storage.tags import find_tag, normalize_tag, read_tag
from omnigraph.types.temporal import find_epoch_milliseconds

SHORTEST_PREFIX = 6
_COMMIT = re.compile(rf"[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{{{SHORTEST_PREFIX},26}}")
_VERSION = re.compile(r"[0-9]{1,18}")
_WITNESS = "manifest:"
_STEPS = re.compile(r"(?P<start>[^~]+)(?P<steps>(?:~[0-9]{0,9})+)")
HEAD = "HEAD"


@dataclass(frozen=True, slots=True)
class Place:
    """A view, and by which snapshot id it was asked for; none for a branch as it is now."""

    view: CatalogSnapshot
    snapshot: str | None


def find_place(views: BranchSnapshots, text: str, branch: str) -> Place:
    """The place a text names; versions and times are those of `branch`.

    Raises:
        BadRequest: it names several places, or a time before the branch.
        NotFoundError: it names none.
    """
    wanted = text.strip()
    if wanted.startswith(_WITNESS):
        return find_snapshot(views, wanted, branch)
    if _STEPS.fullmatch(wanted):
        return _show_commit(views, find_commit(views, wanted, branch))
    kind, name = _find_meaning(views, wanted, branch)
    if kind is None:
        raise NotFoundError(f"no such branch, tag, commit, version or time: '{wanted}'")
    if kind in _COMMITS:
        return _show_commit(views, _COMMITS[kind](views, name, branch))
    return _STATES[kind](views, name, branch)


def find_commit(views: BranchSnapshots, text: str, branch: str) -> Commit:
    """A commit by its id, the beginning of it, or anything else that names one.

    Its state need not be there any more where its id, a tag or a time names it.

    Raises:
        BadRequest: it names several, or one before the first.
        CommitNotFound: it names none.
    """
    wanted = text.strip()
    stepping = _STEPS.fullmatch(wanted)
    if stepping is not None:
        newest = find_commit(views, stepping["start"], branch)
        return _step_back(views, newest, stepping["steps"], branch)
    if is_whole_id(wanted) and not _is_name(views, wanted, branch):
        return views.commit(wanted.upper(), branch)
    if wanted.startswith(_WITNESS):
        return _find_head(views, find_snapshot(views, wanted, branch), branch)
    kind, name = _find_meaning(views, wanted, branch)
    if kind is None:
        raise CommitNotFound(wanted)
    if kind in _COMMITS:
        return _COMMITS[kind](views, name, branch)
    return _find_head(views, _STATES[kind](views, name, branch), branch)


def find_state(views: BranchSnapshots, text: str, branch: str) -> Place:
    """The state right after the commit that a text names, or that of a snapshot id."""
    if text.strip().startswith(_WITNESS):
        return find_snapshot(views, text.strip(), branch)
    return _show_commit(views, find_commit(views, text, branch))


def find_snapshot(views: BranchSnapshots, snapshot_id: str, branch: str) -> Place:
    """A snapshot id: that of a commit, or the witness of a manifest version."""
    if not snapshot_id.startswith(_WITNESS):
        return Place(views.at_commit(snapshot_id, branch), snapshot_id)
    name, _, version = snapshot_id.removeprefix(_WITNESS).rpartition(":v")
    if not name or not version.isdigit():
        raise BadRequest(f"'{snapshot_id}' is not a snapshot id")
    return Place(views.at_version(int(version), name), snapshot_id)


def find_version(views: BranchSnapshots, version: int, branch: str) -> Place:
    view = views.at_version(version, branch)
    return Place(view, view.snapshot.id)


def _find_meaning(views: BranchSnapshots, wanted: str, branch: str) -> tuple[str | None, str]:
    """What kind of place a text names, and by which name; no kind if it names none."""
    if wanted == HEAD:
        return "branch", branch
    kind, colon, rest = wanted.partition(":")
    if colon and kind in _KINDS:
        return kind, rest
    meanings = [kind for kind, means in _MEANINGS.items() if means(views, wanted, branch)]
    if len(meanings) > 1:
        both = " and a ".join(meanings)
        spelled = " or ".join(f"{kind}:{wanted}" for kind in meanings)
        raise BadRequest(f"'{wanted}' is ambiguous: it is a {both}; write {spelled}")
    return (meanings[0] if meanings else None), wanted


def _show_commit(views: BranchSnapshots, commit: Commit) -> Place:
    return Place(views.of_commit(commit), commit.commit_id)


def _find_head(views: BranchSnapshots, place: Place, branch: str) -> Commit:
    head = place.view.snapshot.head
    assert head is not None, "a graph is created with a commit"
    return views.commit(head, branch)


def _step_back(views: BranchSnapshots, newest: Commit, steps: str, branch: str) -> Commit:
    """The commit so many first parents before another one; `~` is one, `~2~1` three."""
    count = sum(int(digits or 1) for digits in steps.split("~")[1:])
    commits = views.commits_with(newest.commit_id, branch)
    found = newest
    for done in range(count):
        parent = found.parent_commit_id
        if parent is None:
            raise BadRequest(f"commit {newest.commit_id} has {done} commits before it, not {count}")
        found = commits.get(parent) or views.commit(parent, branch)
    return found


# --- one by one -------------------------------------------------------------------------------


def _find_branch(views: BranchSnapshots, name: str, branch: str) -> Place:  # noqa: ARG001
    return Place(views.read_newest(name), None)


def _find_tagged(views: BranchSnapshots, name: str, branch: str) -> Commit:
    tag = read_tag(views.root.store, normalize_tag(name))
    return views.commit(tag.commit_id, branch)


def _find_by_prefix(views: BranchSnapshots, prefix: str, branch: str) -> Commit:
    commit_id = prefix.strip()
    if len(commit_id) == 26 or not _COMMIT.fullmatch(commit_id):
        return views.commit(commit_id, branch)
    found = views.commits_starting(commit_id.upper(), branch)
    if len(found) > 1:
        some = ", ".join(sorted(found)[:3])
        raise BadRequest(f"'{prefix}' is a prefix of {len(found)} commits, such as {some}")
    if not found:
        raise CommitNotFound(commit_id)
    return next(iter(found.values()))


def _find_text_version(views: BranchSnapshots, text: str, branch: str) -> Place:
    if not _VERSION.fullmatch(text):
        raise BadRequest(f"'{text}' is not a version; write a number")
    return find_version(views, int(text), branch)


def _find_by_time(views: BranchSnapshots, text: str, branch: str) -> Commit:
    milliseconds = find_epoch_milliseconds(text)
    if milliseconds is None:
        raise BadRequest(f"'{text}' is not a time; write one such as 2026-11-16T08:30:00Z")
    limit = milliseconds * 1_000 + 999
    commits = views.commits(branch)
    found = next((one for one in commits if one.created_at <= limit), None)
    if found is None:
        raise BadRequest(f"branch '{branch}' has no commit as early as {text}")
    return found


def _find_text_snapshot(views: BranchSnapshots, text: str, branch: str) -> Place:
    return find_snapshot(views, text, branch)


_COMMITS: Mapping[str, Callable[[BranchSnapshots, str, str], Commit]] = {
    "tag": _find_tagged,
    "commit": _find_by_prefix,
    "time": _find_by_time,
}
"""What names a commit, whether or not its state can still be read."""

_STATES: Mapping[str, Callable[[BranchSnapshots, str, str], Place]] = {
    "branch": _find_branch,
    "version": _find_text_version,
    "snapshot": _find_text_snapshot,
}
"""What names a state."""

_KINDS = _COMMITS.keys() | _STATES.keys()


# --- what a bare word may mean ----------------------------------------------------------------


def _is_branch(views: BranchSnapshots, text: str, branch: str) -> bool:  # noqa: ARG001
    name = _try_normalize(normalize_branch, text)
    return name is not None and find_ref(views.root.store, BranchName(name)) is not None


def _is_name(views: BranchSnapshots, text: str, branch: str) -> bool:
    return _is_branch(views, text, branch) or _is_tag(views, text, branch)


def _is_tag(views: BranchSnapshots, text: str, branch: str) -> bool:  # noqa: ARG001
    name = _try_normalize(normalize_tag, text)
    return name is not None and find_tag(views.root.store, name) is not None


def _try_normalize(normalize: Callable[[str], str], text: str) -> str | None:
    try:
        return normalize(text)
    except InputError:
        return None


def _is_commit(views: BranchSnapshots, text: str, branch: str) -> bool:
    if not _COMMIT.fullmatch(text) or _VERSION.fullmatch(text):
        return False
    return bool(views.commits_starting(text.upper(), branch))


def _is_version(views: BranchSnapshots, text: str, branch: str) -> bool:  # noqa: ARG001
    return _VERSION.fullmatch(text) is not None


def _is_time(views: BranchSnapshots, text: str, branch: str) -> bool:  # noqa: ARG001
    return find_epoch_milliseconds(text) is not None


_MEANINGS: Mapping[str, Callable[[BranchSnapshots, str, str], bool]] = {
    "branch": _is_branch,
    "tag": _is_tag,
    "commit": _is_commit,
    "version": _is_version,
    "time": _is_time,
}

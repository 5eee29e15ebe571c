"""What one text says about where to read: a branch, commit, tag, snapshot, version or time.

    main                        a branch, as it is now
    v1.2                        a tag
    01KA8M…, 01KA8M2Q           a commit, or the beginning of its id
    12                          a manifest version of the branch
    2026-11-16T08:30:00Z        the newest commit of the branch at that time
    manifest:main:v12           a snapshot id

A name that could mean several of them is refused; `branch:`, `tag:`, `commit:`, `version:`,
`time:` and `snapshot:` before it say which one is meant.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from omnigraph.errors import BadRequest, InputError, NotFoundError
from omnigraph.graph.branch_snapshots import BranchSnapshots, CatalogSnapshot
from omnigraph.identity import BranchName, CommitId
from omnigraph.storage.manifest import Commit
from omnigraph.storage.names import normalize_branch
from omnigraph.storage.refs import find_ref
from omnigraph.storage.tags import find_tag, normalize_tag, read_tag
from omnigraph.types.temporal import find_epoch_milliseconds

SHORTEST_PREFIX = 6
_COMMIT = re.compile(rf"[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{{{SHORTEST_PREFIX},26}}")
_VERSION = re.compile(r"[0-9]{1,18}")
_WITNESS = "manifest:"


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
    kind, colon, rest = wanted.partition(":")
    if colon and kind in _EXPLICIT:
        return _EXPLICIT[kind](views, rest, branch)
    meanings = [kind for kind, means in _MEANINGS.items() if means(views, wanted, branch)]
    if not meanings:
        raise NotFoundError(f"no such branch, tag, commit, version or time: '{wanted}'")
    if len(meanings) > 1:
        both = " and a ".join(meanings)
        spelled = " or ".join(f"{kind}:{wanted}" for kind in meanings)
        raise BadRequest(f"'{wanted}' is ambiguous: it is a {both}; write {spelled}")
    return _EXPLICIT[meanings[0]](views, wanted, branch)


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


def find_commit(views: BranchSnapshots, text: str, branch: str) -> Commit:
    """A commit by its id, the beginning of it, or anything else that names one."""
    wanted = text.strip()
    is_whole_id = len(wanted) == 26 and _COMMIT.fullmatch(wanted) is not None
    is_name = is_whole_id and (_is_branch(views, wanted, branch) or _is_tag(views, wanted, branch))
    if is_whole_id and not is_name:  # its state need not be there any more
        return views.commit(wanted, branch)
    head = find_place(views, wanted, branch).view.snapshot.head
    assert head is not None, "a graph is created with a commit"
    return views.commit(head, branch)


# --- one by one -------------------------------------------------------------------------------


def _find_branch(views: BranchSnapshots, name: str, branch: str) -> Place:  # noqa: ARG001
    return Place(views.read_newest(name), None)


def _find_tag(views: BranchSnapshots, name: str, branch: str) -> Place:
    tag = read_tag(views.root.store, normalize_tag(name))
    return Place(views.at_commit(tag.commit_id, branch), tag.commit_id)


def _find_commit(views: BranchSnapshots, prefix: str, branch: str) -> Place:
    commit_id = prefix.strip()
    if len(commit_id) < 26 and _COMMIT.fullmatch(commit_id):
        commit_id = _require_one(prefix, views.commits_starting(commit_id.upper(), branch))
    return Place(views.at_commit(commit_id, branch), commit_id)


def _require_one(prefix: str, commits: Mapping[CommitId, Commit]) -> str:
    if len(commits) > 1:
        some = ", ".join(sorted(commits)[:3])
        raise BadRequest(f"'{prefix}' is a prefix of {len(commits)} commits, such as {some}")
    return next(iter(commits), prefix)


def _find_text_version(views: BranchSnapshots, text: str, branch: str) -> Place:
    if not _VERSION.fullmatch(text):
        raise BadRequest(f"'{text}' is not a version; write a number")
    return find_version(views, int(text), branch)


def _find_time(views: BranchSnapshots, text: str, branch: str) -> Place:
    milliseconds = find_epoch_milliseconds(text)
    if milliseconds is None:
        raise BadRequest(f"'{text}' is not a time; write one such as 2026-11-16T08:30:00Z")
    limit = milliseconds * 1_000 + 999
    commits = views.commits(branch)
    found = next((one for one in commits if one.created_at <= limit), None)
    if found is None:
        raise BadRequest(f"branch '{branch}' has no commit as early as {text}")
    return Place(views.at_commit(found.commit_id, branch), found.commit_id)


def _find_text_snapshot(views: BranchSnapshots, text: str, branch: str) -> Place:
    return find_snapshot(views, text, branch)


_EXPLICIT: Mapping[str, Callable[[BranchSnapshots, str, str], Place]] = {
    "branch": _find_branch,
    "tag": _find_tag,
    "commit": _find_commit,
    "version": _find_text_version,
    "time": _find_time,
    "snapshot": _find_text_snapshot,
}


# --- what a bare word may mean ----------------------------------------------------------------


def _is_branch(views: BranchSnapshots, text: str, branch: str) -> bool:  # noqa: ARG001
    name = _try_normalize(normalize_branch, text)
    return name is not None and find_ref(views.root.store, BranchName(name)) is not None


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

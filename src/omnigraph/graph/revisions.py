"""Name, resolve and list revisions: branches, commits, tags, snapshots, versions, times."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeAlias

from omnigraph.errors import (
    BadOptions,
    BadRequest,
    CommitNotFound,
    InputError,
    NotFoundError,
    TypeNotFound,
)
from omnigraph.graph.branch_snapshots import BranchSnapshots, CatalogSnapshot
from omnigraph.identity import BranchName
from omnigraph.storage.layout import normalize_branch
from omnigraph.storage.manifest import CommitRecord
from omnigraph.storage.refs import TAG_RECORDS, find_ref, normalize_tag, read_tag
from omnigraph.types.temporal import find_epoch_milliseconds

_WHOLE_ID = re.compile(r"[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{26}")


class NamesRevision(Protocol):
    """An object with a revision of its own: a commit, a tag, a branch or a view."""

    @property
    def revision(self) -> str: ...


RevisionLike: TypeAlias = str | NamesRevision | datetime.datetime
"""Anything that names a revision."""


def format_revision(revision: RevisionLike) -> str:
    """Return the text of a revision.

    >>> format_revision("main~1")
    'main~1'

    Raises:
        BadRequest: the object has no revision.
    """
    if isinstance(revision, str):
        return revision
    if isinstance(revision, datetime.datetime):
        if revision.tzinfo is None:
            raise BadRequest(f"the time {revision} has no time zone; give one, such as UTC")
        return f"time:{revision.astimezone(datetime.UTC).isoformat()}"
    named = getattr(revision, "revision", None)
    if isinstance(named, str):
        return named
    raise BadRequest(
        f"a commit is named by a text, a time, or a Commit, Tag, Branch or view, "
        f"not by a {type(revision).__name__}"
    )


def is_full_id(text: str) -> bool:
    """Return whether a text has the form of a full commit id."""
    return _WHOLE_ID.fullmatch(text) is not None


def format_optional_revision(revision: RevisionLike | None) -> str | None:
    """Return the text of an optional revision."""
    return None if revision is None else format_revision(revision)


SHORTEST_PREFIX = 6
_COMMIT = re.compile(rf"[0-9A-HJKMNP-TV-Za-hjkmnp-tv-z]{{{SHORTEST_PREFIX},26}}")
_VERSION = re.compile(r"[0-9]{1,18}")
_WITNESS = "manifest:"
_STEPS = re.compile(r"(?P<start>[^~]+)(?P<steps>(?:~[0-9]{0,9})+)")
HEAD = "HEAD"


@dataclass(frozen=True, slots=True)
class Revision:
    """A resolved view, and the snapshot id that was requested, if any."""

    view: CatalogSnapshot
    snapshot: str | None


def resolve_revision(views: BranchSnapshots, text: str, branch: str) -> Revision:
    """Resolve a revision to a view; versions and times are those of `branch`.

    Raises:
        BadRequest: it is ambiguous, or a time before the first commit of the branch.
        NotFoundError: it names nothing.
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


def find_commit(views: BranchSnapshots, text: str, branch: str) -> CommitRecord:
    """Resolve a revision to a commit.

    If an id, a tag or a time names it, its state may have been reclaimed.

    Raises:
        BadRequest: it is ambiguous, or names a commit before the first.
        CommitNotFound: it names no commit.
    """
    wanted = text.strip()
    stepping = _STEPS.fullmatch(wanted)
    if stepping is not None:
        newest = find_commit(views, stepping["start"], branch)
        return _step_back(views, newest, stepping["steps"], branch)
    if is_full_id(wanted) and not _is_name(views, wanted, branch):
        return views.commit(wanted.upper(), branch)
    if wanted.startswith(_WITNESS):
        return _find_head(views, find_snapshot(views, wanted, branch), branch)
    kind, name = _find_meaning(views, wanted, branch)
    if kind is None:
        raise CommitNotFound(wanted)
    if kind in _COMMITS:
        return _COMMITS[kind](views, name, branch)
    return _find_head(views, _STATES[kind](views, name, branch), branch)


def find_state(views: BranchSnapshots, text: str, branch: str) -> Revision:
    """Return the state at the commit that a text names, or that of a snapshot id."""
    if text.strip().startswith(_WITNESS):
        return find_snapshot(views, text.strip(), branch)
    return _show_commit(views, find_commit(views, text, branch))


def find_snapshot(views: BranchSnapshots, snapshot_id: str, branch: str) -> Revision:
    """Resolve a snapshot id: a commit id, or the id of a manifest version."""
    if not snapshot_id.startswith(_WITNESS):
        return Revision(views.at_commit(snapshot_id, branch), snapshot_id)
    name, _, version = snapshot_id.removeprefix(_WITNESS).rpartition(":v")
    if not name or not version.isdigit():
        raise BadRequest(f"'{snapshot_id}' is not a snapshot id")
    return Revision(views.at_version(int(version), name), snapshot_id)


def find_version(views: BranchSnapshots, version: int, branch: str) -> Revision:
    view = views.at_version(version, branch)
    return Revision(view, view.snapshot.id)


def _find_meaning(views: BranchSnapshots, wanted: str, branch: str) -> tuple[str | None, str]:
    """Return the kind of a revision and the name within it; None if it names nothing."""
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


def _show_commit(views: BranchSnapshots, commit: CommitRecord) -> Revision:
    return Revision(views.of_commit(commit), commit.commit_id)


def _find_head(views: BranchSnapshots, revision: Revision, branch: str) -> CommitRecord:
    head = revision.view.snapshot.head
    assert head is not None, "a graph is created with a commit"
    return views.commit(head, branch)


def _step_back(
    views: BranchSnapshots, newest: CommitRecord, steps: str, branch: str
) -> CommitRecord:
    """Return the n-th first-parent ancestor; `~` is one step, `~2~1` are three."""
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


def _find_branch(views: BranchSnapshots, name: str, branch: str) -> Revision:  # noqa: ARG001
    return Revision(views.read_newest(name), None)


def _find_tagged(views: BranchSnapshots, name: str, branch: str) -> CommitRecord:
    tag = read_tag(views.root.store, normalize_tag(name))
    return views.commit(tag.commit_id, branch)


def _find_by_prefix(views: BranchSnapshots, prefix: str, branch: str) -> CommitRecord:
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


def _find_text_version(views: BranchSnapshots, text: str, branch: str) -> Revision:
    if not _VERSION.fullmatch(text):
        raise BadRequest(f"'{text}' is not a version; write a number")
    return find_version(views, int(text), branch)


def _find_by_time(views: BranchSnapshots, text: str, branch: str) -> CommitRecord:
    milliseconds = find_epoch_milliseconds(text)
    if milliseconds is None:
        raise BadRequest(f"'{text}' is not a time; write one such as 2026-11-16T08:30:00Z")
    limit = milliseconds * 1_000 + 999
    commits = views.commits(branch)
    found = next((one for one in commits if one.created_at <= limit), None)
    if found is None:
        raise BadRequest(f"branch '{branch}' has no commit as early as {text}")
    return found


def _find_text_snapshot(views: BranchSnapshots, text: str, branch: str) -> Revision:
    return find_snapshot(views, text, branch)


_COMMITS: Mapping[str, Callable[[BranchSnapshots, str, str], CommitRecord]] = {
    "tag": _find_tagged,
    "commit": _find_by_prefix,
    "time": _find_by_time,
}
"""Kinds of revisions that name a commit, even if its state was reclaimed."""

_STATES: Mapping[str, Callable[[BranchSnapshots, str, str], Revision]] = {
    "branch": _find_branch,
    "version": _find_text_version,
    "snapshot": _find_text_snapshot,
}
"""Kinds of revisions that name a state."""

_KINDS = _COMMITS.keys() | _STATES.keys()


# --- what a bare word may mean ----------------------------------------------------------------


def _is_branch(views: BranchSnapshots, text: str, branch: str) -> bool:  # noqa: ARG001
    name = _try_normalize(normalize_branch, text)
    return name is not None and find_ref(views.root.store, BranchName(name)) is not None


def _is_name(views: BranchSnapshots, text: str, branch: str) -> bool:
    return _is_branch(views, text, branch) or _is_tag(views, text, branch)


def _is_tag(views: BranchSnapshots, text: str, branch: str) -> bool:  # noqa: ARG001
    name = _try_normalize(normalize_tag, text)
    return name is not None and TAG_RECORDS.find(views.root.store, name) is not None


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


@dataclass(frozen=True, slots=True)
class CommitRange:
    """The filters and the limit of a commit list."""

    limit: int | None = None
    before: str | None = None
    """Only commits older than this one, or made up to this time."""
    after: str | None = None
    """Only commits newer than this one, or made after this time."""
    types: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_countable(self.limit)


def require_countable(limit: int | None) -> None:
    """Raise if the limit of a commit list is negative."""
    if limit is not None and limit < 0:
        raise BadOptions(f"{limit} commits cannot be listed")


def list_commits(
    views: BranchSnapshots, branch: str, asked: CommitRange
) -> tuple[CommitRecord, ...]:
    """List the commits of a branch that match, newest first.

    Raises:
        BadRequest: `before` or `after` names a commit that the branch does not have.
        TypeNotFound: a type that neither the schema nor any commit knows.
    """
    every = views.commits(branch)
    found: Sequence[CommitRecord] = every
    if asked.before is not None:
        found = _keep_older(views, found, asked.before, branch)
    if asked.after is not None:
        found = _keep_newer(views, found, asked.after, branch)
    if asked.types:
        _check_types(views, every, branch, asked.types)
        found = [commit for commit in found if _may_concern(commit, asked.types)]
    if asked.kinds:
        found = [commit for commit in found if commit.kind in asked.kinds]
    return tuple(found[: asked.limit])


def _keep_older(
    views: BranchSnapshots, commits: Sequence[CommitRecord], limit: str, branch: str
) -> Sequence[CommitRecord]:
    time = _find_time_limit(limit)
    if time is not None:
        return [commit for commit in commits if commit.created_at <= time]
    return commits[_find_index(views, commits, limit, branch) + 1 :]


def _keep_newer(
    views: BranchSnapshots, commits: Sequence[CommitRecord], limit: str, branch: str
) -> Sequence[CommitRecord]:
    time = _find_time_limit(limit)
    if time is not None:
        return [commit for commit in commits if commit.created_at > time]
    known = views.commits(branch)
    older = {one.commit_id for one in known[_find_index(views, known, limit, branch) :]}
    return [commit for commit in commits if commit.commit_id not in older]


def _find_time_limit(limit: str) -> int | None:
    """Return the last microsecond of a time; None if the text is not a time."""
    milliseconds = find_epoch_milliseconds(limit.strip().removeprefix("time:"))
    return None if milliseconds is None else milliseconds * 1_000 + 999


def _find_index(
    views: BranchSnapshots, commits: Sequence[CommitRecord], limit: str, branch: str
) -> int:
    wanted = find_commit(views, limit, branch)
    for index, commit in enumerate(commits):
        if commit.commit_id == wanted.commit_id:
            return index
    raise BadRequest(f"'{limit}' is not a commit of branch '{branch}'")


def _check_types(
    views: BranchSnapshots, commits: Sequence[CommitRecord], branch: str, types: Sequence[str]
) -> None:
    known = {type_.name for type_ in views.read_newest(branch).catalog.by_table_key.values()}
    known |= {one.type_name for commit in commits for one in commit.tables}
    for name in types:
        if name not in known:
            raise TypeNotFound(name)


def _may_concern(commit: CommitRecord, types: Sequence[str]) -> bool:
    """Return whether a commit may have changed rows of the types; true if unrecorded."""
    return commit.kind is None or any(one.type_name in types for one in commit.tables)

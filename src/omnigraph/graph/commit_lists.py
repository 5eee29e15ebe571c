"""Which commits of a branch are listed: a part of it, or those that changed a type."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.errors import BadOptions, BadRequest, TypeNotFound
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.place_lookup import find_commit
from omnigraph.storage.manifest import Commit
from omnigraph.types.temporal import find_epoch_milliseconds


@dataclass(frozen=True, slots=True)
class CommitRange:
    """What is asked of a list of commits."""

    limit: int | None = None
    before: str | None = None
    """Only those that come after this one in the list, or that were made up to this time."""
    after: str | None = None
    """Only those that come before this one in the list, or that were made after this time."""
    types: tuple[str, ...] = ()
    kinds: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_countable(self.limit)


def require_countable(limit: int | None) -> None:
    """Raise unless so many commits can be asked for."""
    if limit is not None and limit < 0:
        raise BadOptions(f"{limit} commits cannot be listed")


def list_commits(views: BranchSnapshots, branch: str, asked: CommitRange) -> tuple[Commit, ...]:
    """The commits of a branch that are asked for, newest first.

    Raises:
        BadRequest: a limit is a commit that the branch does not have.
        TypeNotFound: a type that neither the schema nor any commit knows.
    """
    every = views.commits(branch)
    found: Sequence[Commit] = every
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
    views: BranchSnapshots, commits: Sequence[Commit], limit: str, branch: str
) -> Sequence[Commit]:
    time = _find_time(limit)
    if time is not None:
        return [commit for commit in commits if commit.created_at <= time]
    return commits[_find_index(views, commits, limit, branch) + 1 :]


def _keep_newer(
    views: BranchSnapshots, commits: Sequence[Commit], limit: str, branch: str
) -> Sequence[Commit]:
    time = _find_time(limit)
    if time is not None:
        return [commit for commit in commits if commit.created_at > time]
    known = views.commits(branch)
    older = {one.commit_id for one in known[_find_index(views, known, limit, branch) :]}
    return [commit for commit in commits if commit.commit_id not in older]


def _find_time(limit: str) -> int | None:
    """The last microsecond of a time; None if the text is none."""
    milliseconds = find_epoch_milliseconds(limit.strip().removeprefix("time:"))
    return None if milliseconds is None else milliseconds * 1_000 + 999


def _find_index(views: BranchSnapshots, commits: Sequence[Commit], limit: str, branch: str) -> int:
    wanted = find_commit(views, limit, branch)
    for index, commit in enumerate(commits):
        if commit.commit_id == wanted.commit_id:
            return index
    raise BadRequest(f"'{limit}' is not a commit of branch '{branch}'")


def _check_types(
    views: BranchSnapshots, commits: Sequence[Commit], branch: str, types: Sequence[str]
) -> None:
    known = {type_.name for type_ in views.read_newest(branch).catalog.by_table_key.values()}
    known |= {one.type_name for commit in commits for one in commit.tables}
    for name in types:
        if name not in known:
            raise TypeNotFound(name)


def _may_concern(commit: Commit, types: Sequence[str]) -> bool:
    """Whether a commit changed rows of the types; one that does not say what it did may have."""
    return commit.kind is None or any(one.type_name in types for one in commit.tables)

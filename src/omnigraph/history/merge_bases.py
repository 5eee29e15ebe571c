"""Where two histories parted: pure functions of the commits and their parents."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.errors import BadRequest
from omnigraph.identity import CommitId
from omnigraph.storage.manifest import Commit

Commits = Mapping[CommitId, Commit]


class MergeOutcome(StrEnum):
    """What merging one head into another comes to."""

    ALREADY_UP_TO_DATE = "already_up_to_date"
    FAST_FORWARD = "fast_forward"
    MERGED = "merged"


@dataclass(frozen=True, slots=True)
class Relation:
    """How two heads stand to each other."""

    outcome: MergeOutcome
    bases: tuple[CommitId, ...]
    """The newest commits both come from, none of them an ancestor of another, latest first."""


def find_relation(commits: Commits, source: CommitId, target: CommitId) -> Relation:
    """The relation of two heads.

    Raises:
        BadRequest: they have no commit in common.
    """
    common = list_ancestors(commits, source) & list_ancestors(commits, target)
    if not common:
        raise BadRequest(f"commits {source} and {target} have no common ancestor to merge from")
    if source in common:
        return Relation(MergeOutcome.ALREADY_UP_TO_DATE, (source,))
    if target in common:
        return Relation(MergeOutcome.FAST_FORWARD, (target,))
    return Relation(MergeOutcome.MERGED, find_newest(commits, common))


def find_newest(commits: Commits, common: set[CommitId]) -> tuple[CommitId, ...]:
    """Those that are an ancestor of no other, latest first; `common` has all their ancestors."""
    # So whatever is the parent of one of them is not among the newest.
    older = {parent for one in common for parent in _list_parents(commits, one)}
    return tuple(sorted(common - older, key=lambda one: _order(commits, one), reverse=True))


def list_ancestors(commits: Commits, head: CommitId) -> set[CommitId]:
    """The head and everything it came from."""
    found, waiting = {head}, [head]
    while waiting:
        fresh = [parent for parent in _list_parents(commits, waiting.pop()) if parent not in found]
        found.update(fresh)
        waiting.extend(fresh)
    return found


def _list_parents(commits: Commits, one: CommitId) -> tuple[CommitId, ...]:
    commit = commits.get(one)
    return commit.parents if commit is not None else ()


def _order(commits: Commits, one: CommitId) -> tuple[int, str]:
    commit = commits.get(one)
    return (commit.created_at if commit is not None else -1, one)

"""The latest changes of entities on two sides, compared for the conflict rule `newest`."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import MergeBaseUnavailable
from omnigraph.history.ancestry import PastState, PastStates, list_ancestors, open_kept
from omnigraph.history.equality import compare_entities
from omnigraph.history.table_sides import LocatedRows, Mask, find_rows
from omnigraph.identity import CommitId, TableKey
from omnigraph.storage.manifest import sort_newest_first
from omnigraph.storage.snapshot import Snapshot

Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Step:
    """The nearest readable ancestors of a commit, and the earliest possible time of a change."""

    parents: tuple[CommitId, ...]
    earliest: int


@dataclass(frozen=True)
class LatestChange:
    """Compares the last changes of two sides, each given by its newest commit."""

    past: PastStates
    snapshot: Snapshot
    source: CommitId
    target: CommitId
    _found: dict[tuple[TableKey, CommitId], LocatedRows] = field(default_factory=dict, repr=False)

    def source_is_newer(self, key: TableKey, ids: pa.Array, column: str | None = None) -> Mask:
        """Mask the entities that the source changed last, or one property of them.

        Raises:
            MergeBaseUnavailable: cleanup removed the commits that would decide.
        """
        self._found.clear()
        theirs = self._find_last_change(key, ids, column, self.source)
        ours = self._find_last_change(key, ids, column, self.target)
        newer: Mask = theirs.earliest > ours.latest
        if not (newer | (ours.earliest >= theirs.latest)).all():
            raise MergeBaseUnavailable(self._unreadable)
        return newer

    @cached_property
    def _ranks(self) -> dict[CommitId, int]:
        commits = self.past.commits.values()
        order = sorted(commits, key=lambda commit: (commit.created_at, commit.commit_id))
        return {commit.commit_id: rank for rank, commit in enumerate(order)}

    @cached_property
    def _common(self) -> set[CommitId]:
        commits = self.past.commits
        return list_ancestors(commits, self.source) & list_ancestors(commits, self.target)

    @property
    def _unreadable(self) -> CommitId:
        every = (list_ancestors(self.past.commits, side) for side in (self.source, self.target))
        newest = sorted(set().union(*every) - self._common, key=self._ranks.__getitem__)
        return next(id for id in newest if self.past.find(id) is None)

    def _find_last_change(
        self, key: TableKey, ids: pa.Array, column: str | None, head: CommitId
    ) -> _LastChange:
        found = _LastChange(np.full(len(ids), -1), np.full(len(ids), -1))
        asked = {head: np.ones(len(ids), np.bool_)}
        known = self.past.commits
        for commit in sort_newest_first({id: known[id] for id in list_ancestors(known, head)}):
            commit_id = commit.commit_id
            if commit_id not in asked:
                continue
            offsets, step = np.flatnonzero(asked.pop(commit_id)), self._find_step(commit_id)
            made_here = np.ones(len(offsets), np.bool_)
            for parent in step.parents:
                alike = self._compare(key, ids, column, commit_id, parent, offsets)
                made_here &= ~alike
                if alike.any():
                    asked.setdefault(parent, np.zeros(len(ids), np.bool_))[offsets[alike]] = True
            found.note(offsets[made_here], step.earliest, self._ranks[commit_id])
        return found

    def _find_step(self, commit_id: CommitId) -> _Step:
        """Find the commits to compare next; none before the common ancestors."""
        if commit_id in self._common:
            return _Step((), self._ranks[commit_id])
        earliest, readable = self._ranks[commit_id], dict[CommitId, None]()
        waiting = list(self.past.list_parents(commit_id))
        while waiting:
            parent = waiting.pop()
            if self.past.find(parent) is not None:
                readable[parent] = None
                continue
            earliest = min(earliest, self._ranks[parent])
            waiting += self.past.list_parents(parent)
        return _Step(tuple(readable), earliest)

    def _compare(
        self,
        key: TableKey,
        ids: pa.Array,
        column: str | None,
        one: CommitId,
        other: CommitId,
        offsets: Ranks,
    ) -> Mask:
        states = [self.past.read(id) for id in (one, other)]
        if states[0].entries.get(key) == states[1].entries.get(key):
            return np.ones(len(offsets), np.bool_)
        left, right = (self._find_rows(key, ids, state) for state in states)
        rows, columns = pa.array(offsets), None if column is None else (column,)
        return compare_entities(
            left.table,
            left.addresses.take(rows),
            right.table,
            right.addresses.take(rows),
            columns,
        )

    def _find_rows(self, key: TableKey, ids: pa.Array, state: PastState) -> LocatedRows:
        known = self._found.get((key, state.commit_id))
        if known is None:
            table = open_kept(self.snapshot, state.entries[key], state)
            known = self._found[key, state.commit_id] = find_rows(table, ids)
        return known


@dataclass(frozen=True, slots=True)
class _LastChange:
    """The range of commits that may have changed each entity last, by rank."""

    earliest: Ranks
    latest: Ranks

    def note(self, offsets: Ranks, earliest: int, latest: int) -> None:
        """Record a range; of several histories, the latest change counts."""
        self.earliest[offsets] = np.maximum(self.earliest[offsets], earliest)
        self.latest[offsets] = np.maximum(self.latest[offsets], latest)

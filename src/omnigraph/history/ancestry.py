"""Common history of two heads: merge bases, tables at a commit, and latest changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from omnigraph.errors import (
    BadRequest,
    HistoricalVersionReclaimed,
    MergeBaseUnavailable,
    StorageFailure,
    StorageKind,
)
from omnigraph.history.equality import compare_entities
from omnigraph.history.table_sides import LocatedRows, Mask, find_rows
from omnigraph.identity import CommitId, TableKey
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest import (
    CommitRecord,
    ManifestSnapshot,
    ManifestState,
    MergedState,
    TableEntry,
    sort_newest_first,
)
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table
from omnigraph.wire.merge_results import MergeOutcome

Commits = Mapping[CommitId, CommitRecord]


@dataclass(frozen=True, slots=True)
class Relation:
    """The relation of two heads of branches."""

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


Entries = Mapping[TableKey, TableEntry]


@dataclass(frozen=True, slots=True)
class PastState:
    """The tables of the graph as they were at a commit."""

    commit_id: CommitId
    entries: Entries
    is_head: bool = False
    """True for a branch as it was just seen: should cleanup take it, there is a newer one."""


class PastStates:
    """The states at the commits of one or two branches, each looked for once."""

    def __init__(
        self,
        root: GraphRoot,
        commits: Mapping[CommitId, CommitRecord],
        refs: Iterable[BranchRef],
        now: ManifestState,
    ) -> None:
        self.commits = commits
        self._root, self._refs, self._now = root, tuple(refs), now
        self._known: dict[CommitId, PastState | None] = {}

    def list_parents(self, commit_id: CommitId) -> tuple[CommitId, ...]:
        commit = self.commits.get(commit_id)
        return () if commit is None else commit.parents

    def read(self, commit_id: CommitId) -> PastState:
        """Return the state at a commit.

        Raises:
            MergeBaseUnavailable: nothing keeps it any more.
        """
        found = self.find(commit_id)
        if found is None:
            raise MergeBaseUnavailable(commit_id)
        return found

    def find(self, commit_id: CommitId) -> PastState | None:
        """Return the state at a commit; None if nothing keeps it any more.

        A branch keeps the state it started from, the branch a commit was made on those that
        cleanup left, and a merge what it brought in, even after that branch is gone.
        """
        if commit_id not in self._known:
            entries = self._find_entries(commit_id)
            self._known[commit_id] = None if entries is None else PastState(commit_id, entries)
        return self._known[commit_id]

    def _find_entries(self, commit_id: CommitId) -> Entries | None:
        commit = self.commits[commit_id]
        places = [(r.incarnation, r.fork_version) for r in self._refs if r.fork_head == commit_id]
        places.append((commit.incarnation, commit.manifest_version))
        for incarnation, version in places:
            manifest = _read_manifest(self._root, incarnation, version)
            if manifest is not None and _is_showing(manifest, commit_id):
                return manifest.state.entries
        for merge in self.commits.values():
            if merge.merged_parent_commit_id == commit_id and merge.merged is not None:
                return _restore_entries(merge.merged, self._now)
        return None


def open_kept(snapshot: Snapshot, entry: TableEntry, state: PastState) -> Table:
    """A table of a state; the snapshot is any of the same graph.

    Raises:
        MergeBaseUnavailable: cleanup removed it.
    """
    if state.is_head:
        return snapshot.open_entry(entry)
    try:
        return snapshot.open_entry(entry)
    except HistoricalVersionReclaimed as error:
        raise MergeBaseUnavailable(state.commit_id) from error
    except StorageFailure as failure:
        if failure.kind is StorageKind.NOT_FOUND:
            raise MergeBaseUnavailable(state.commit_id) from failure
        raise


@contextmanager
def translate_reclaimed(tables: Sequence[Table], states: Sequence[PastState]) -> Iterator[None]:
    """Tell a state that cleanup removed while it was read from other outdated ones."""
    try:
        yield
    except HistoricalVersionReclaimed as error:
        for table, state in zip(tables, states, strict=True):
            if not state.is_head and not table.is_there():
                raise MergeBaseUnavailable(state.commit_id) from error
        raise


def _read_manifest(
    root: GraphRoot, incarnation: str | None, version: int
) -> ManifestSnapshot | None:
    try:
        return root.manifests.read(root.manifest(incarnation), version)
    except HistoricalVersionReclaimed:
        return None
    except StorageFailure as failure:
        if failure.kind in (StorageKind.NOT_FOUND, StorageKind.PERMANENT):
            return None
        raise


def _is_showing(manifest: ManifestSnapshot, commit_id: CommitId) -> bool:
    """Return whether the commit is the newest one of this state."""
    return any(head.commit_id == commit_id for head in manifest.state.heads.values())


def _restore_entries(merged: MergedState, now: ManifestState) -> Entries:
    identities = {entry.path: entry.identity for entry in now.entries.values()}
    return {
        TableKey(one.table_key): TableEntry(
            identities[one.path],
            TableKey(one.table_key),
            one.path,
            one.version,
            one.branch,
            one.row_count,
            one.owner,
        )
        for one in merged.tables
        if one.path in identities
    }


Ranks = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class _Step:
    """The nearest commits before one whose states can be read, and how early a change may be."""

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
        """For each entity whether the source changed it, or one property of it, last.

        Raises:
            MergeBaseUnavailable: cleanup removed the commits that would tell.
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
            places, step = np.flatnonzero(asked.pop(commit_id)), self._find_step(commit_id)
            made_here = np.ones(len(places), np.bool_)
            for parent in step.parents:
                alike = self._compare(key, ids, column, commit_id, parent, places)
                made_here &= ~alike
                if alike.any():
                    asked.setdefault(parent, np.zeros(len(ids), np.bool_))[places[alike]] = True
            found.note(places[made_here], step.earliest, self._ranks[commit_id])
        return found

    def _find_step(self, commit_id: CommitId) -> _Step:
        """Find the commits to compare next; none behind those that both sides have."""
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
        places: Ranks,
    ) -> Mask:
        states = [self.past.read(id) for id in (one, other)]
        if states[0].entries.get(key) == states[1].entries.get(key):
            return np.ones(len(places), np.bool_)
        left, right = (self._find_rows(key, ids, state) for state in states)
        rows, columns = pa.array(places), None if column is None else (column,)
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
    """For each entity the ranks of the earliest and the latest commit that may have made it."""

    earliest: Ranks
    latest: Ranks

    def note(self, places: Ranks, earliest: int, latest: int) -> None:
        """An entity that came in several ways was changed by the last of them."""
        self.earliest[places] = np.maximum(self.earliest[places], earliest)
        self.latest[places] = np.maximum(self.latest[places], latest)

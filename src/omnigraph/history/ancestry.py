"""Common history of two heads: merge bases, tables at a commit, and latest changes."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.errors import (
    BadRequest,
    HistoricalVersionReclaimed,
    MergeBaseUnavailable,
    StorageFailure,
    StorageKind,
)
from omnigraph.identity import CommitId, TableKey
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest import (
    CommitRecord,
    ManifestSnapshot,
    ManifestState,
    MergedState,
    TableEntry,
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
    """The newest common ancestors, none of them an ancestor of another, latest first."""


def find_relation(commits: Commits, source: CommitId, target: CommitId) -> Relation:
    """Return the relation of two heads.

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
    """Return those that are no ancestor of another, latest first; `common` has all ancestors."""
    # So whatever is the parent of one of them is not among the newest.
    older = {parent for one in common for parent in _list_parents(commits, one)}
    return tuple(sorted(common - older, key=lambda one: _order(commits, one), reverse=True))


def list_ancestors(commits: Commits, head: CommitId) -> set[CommitId]:
    """Return the head and all of its ancestors."""
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
    """True for the head of a branch: if cleanup removes it, a newer one exists."""


class PastStates:
    """The states at the commits of one or two branches, each resolved once."""

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
            MergeBaseUnavailable: no version retains it.
        """
        found = self.find(commit_id)
        if found is None:
            raise MergeBaseUnavailable(commit_id)
        return found

    def find(self, commit_id: CommitId) -> PastState | None:
        """Return the state at a commit; None if no version retains it.

        A state is retained by branches that start at it, by its own branch until cleanup runs,
        and by a merge that brought it in, even after its branch was deleted.
        """
        if commit_id not in self._known:
            entries = self._find_entries(commit_id)
            self._known[commit_id] = None if entries is None else PastState(commit_id, entries)
        return self._known[commit_id]

    def _find_entries(self, commit_id: CommitId) -> Entries | None:
        commit = self.commits[commit_id]
        manifests = [
            (r.incarnation, r.fork_version) for r in self._refs if r.fork_head == commit_id
        ]
        manifests.append((commit.incarnation, commit.manifest_version))
        for incarnation, version in manifests:
            manifest = _read_manifest(self._root, incarnation, version)
            if manifest is not None and _is_showing(manifest, commit_id):
                return manifest.state.entries
        for merge in self.commits.values():
            if merge.merged_parent_commit_id == commit_id and merge.merged is not None:
                return _restore_entries(merge.merged, self._now)
        return None


def open_kept(snapshot: Snapshot, entry: TableEntry, state: PastState) -> Table:
    """Open a table of a state; the snapshot is any of the same graph.

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
    """Raise MergeBaseUnavailable for a state that cleanup removed during the read."""
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

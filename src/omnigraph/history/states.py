"""The tables of a graph as they were at a commit, for as long as anything keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from omnigraph.errors import (
    HistoricalVersionReclaimed,
    MergeBaseUnavailable,
    StorageFailure,
    StorageKind,
)
from omnigraph.identity import CommitId, TableKey
from omnigraph.storage.manifest import (
    Commit,
    ManifestSnapshot,
    ManifestState,
    MergedState,
    TableEntry,
)
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table

Entries = Mapping[TableKey, TableEntry]


@dataclass(frozen=True, slots=True)
class KnownState:
    """The tables of the graph as they were at a commit."""

    commit_id: CommitId
    entries: Entries
    is_head: bool = False
    """Whether it is a branch as it was just seen: should cleanup take it, there is a newer one."""


class PastStates:
    """The states at the commits of one or two branches, each looked for once."""

    def __init__(
        self,
        root: GraphRoot,
        commits: Mapping[CommitId, Commit],
        refs: Iterable[BranchRef],
        now: ManifestState,
    ) -> None:
        self.commits = commits
        self._root, self._refs, self._now = root, tuple(refs), now
        self._known: dict[CommitId, KnownState | None] = {}

    def list_parents(self, commit_id: CommitId) -> tuple[CommitId, ...]:
        commit = self.commits.get(commit_id)
        return () if commit is None else commit.parents

    def read(self, commit_id: CommitId) -> KnownState:
        """The state at a commit.

        Raises:
            MergeBaseUnavailable: nothing keeps it any more.
        """
        found = self.find(commit_id)
        if found is None:
            raise MergeBaseUnavailable(commit_id)
        return found

    def find(self, commit_id: CommitId) -> KnownState | None:
        """The same; None if nothing keeps it any more.

        A branch keeps the state it started from, the branch a commit was made on those that
        cleanup left, and a merge what it brought in, even after that branch is gone.
        """
        if commit_id not in self._known:
            entries = self._find_entries(commit_id)
            self._known[commit_id] = None if entries is None else KnownState(commit_id, entries)
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


def open_kept(snapshot: Snapshot, entry: TableEntry, state: KnownState) -> Table:
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
def translate_reclaimed(tables: Sequence[Table], states: Sequence[KnownState]) -> Iterator[None]:
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
    """Whether the commit is the newest thing that happened to this state."""
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

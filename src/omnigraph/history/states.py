"""The tables of a graph as they were at a commit, for as long as anything keeps them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from omnigraph.errors import (
    HistoricalVersionReclaimed,
    MergeBaseUnavailable,
    StorageFailure,
    StorageKind,
)
from omnigraph.identity import CommitId, TableKey
from omnigraph.storage.manifest.commits import Commit, MergedState
from omnigraph.storage.manifest.read import ManifestSnapshot, read_manifest
from omnigraph.storage.manifest.state import ManifestState, TableEntry
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.table import Table

Entries = Mapping[TableKey, TableEntry]


def read_entries_at(
    root: GraphRoot,
    commit_id: CommitId,
    commits: Mapping[CommitId, Commit],
    refs: Iterable[BranchRef],
    now: ManifestState,
) -> Entries:
    """The tables at a commit.

    A branch keeps the state it started from, the branch a commit was made on those that cleanup
    left, and a merge what it brought in, even after that branch is gone.

    Raises:
        MergeBaseUnavailable: nothing keeps it any more.
    """
    commit = commits[commit_id]
    places = [(r.incarnation, r.fork_version) for r in refs if r.fork_head == commit_id]
    places.append((commit.incarnation, commit.manifest_version))
    for incarnation, version in places:
        manifest = _read_manifest(root, incarnation, version)
        if manifest is not None and _is_showing(manifest, commit_id):
            return manifest.state.entries
    for merge in commits.values():
        if merge.merged_parent_commit_id == commit_id and merge.merged is not None:
            return _restore_entries(merge.merged, now)
    raise MergeBaseUnavailable(commit_id)


def open_kept(snapshot: Snapshot, entry: TableEntry, commit_id: CommitId) -> Table:
    """A table of the state at a commit; the snapshot is any of the same graph.

    Raises:
        MergeBaseUnavailable: cleanup took it.
    """
    try:
        return snapshot.open_entry(entry)
    except HistoricalVersionReclaimed as error:
        raise MergeBaseUnavailable(commit_id) from error
    except StorageFailure as failure:
        if failure.kind is StorageKind.NOT_FOUND:
            raise MergeBaseUnavailable(commit_id) from failure
        raise


@contextmanager
def translate_reclaimed(tables: Sequence[Table], commit_ids: Sequence[CommitId]) -> Iterator[None]:
    """Tell a base that cleanup took while it was read from anything else that was outdated."""
    try:
        yield
    except HistoricalVersionReclaimed as error:
        for table, commit_id in zip(tables, commit_ids, strict=True):
            if not table.is_there():
                raise MergeBaseUnavailable(commit_id) from error
        raise


def _read_manifest(
    root: GraphRoot, incarnation: str | None, version: int
) -> ManifestSnapshot | None:
    try:
        return read_manifest(root.manifest(incarnation), version)
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

"""A snapshot: one immutable state of a branch, the base of every read and write."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from omnigraph.errors import ManifestCorrupt, TypeNotFound
from omnigraph.identity import BranchName, CommitId, TableKey
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest.manifest_reader import ManifestSnapshot
from omnigraph.storage.manifest.manifest_state import (
    ManifestState,
    SchemaContract,
    TableEntry,
    TableVersion,
)
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.table import Table


@dataclass(frozen=True)
class Snapshot:
    """A manifest version of a branch; opening one reads nothing more."""

    root: GraphRoot
    ref: BranchRef
    manifest: ManifestSnapshot

    @property
    def branch(self) -> BranchName:
        return self.ref.name

    @property
    def state(self) -> ManifestState:
        return self.manifest.state

    @property
    def manifest_version(self) -> int:
        return self.manifest.version

    @property
    def entries(self) -> Mapping[TableKey, TableEntry]:
        return self.state.entries

    @property
    def contract(self) -> SchemaContract:
        contract = self.state.contract
        if contract is None:
            raise ManifestCorrupt(f"version {self.manifest_version} of the manifest has no schema")
        return contract

    @property
    def own_head(self) -> CommitId | None:
        """The newest commit authored on this branch; None on a fresh fork."""
        head = self.state.head_of(self.ref.name, self.ref.incarnation)
        return head.commit_id if head else None

    @property
    def head(self) -> CommitId | None:
        """The newest commit visible here: the branch's own, or its fork point."""
        return self.own_head or self.ref.fork_head

    @property
    def id(self) -> str:
        """The id of the newest commit if it is known, else the id of the manifest version."""
        return self.head or f"manifest:{self.branch}:v{self.manifest_version}"

    def entry(self, key: TableKey) -> TableEntry:
        found = self.entries.get(key)
        if found is None:
            raise TypeNotFound(key, f"{key} does not exist at this snapshot")
        return found

    def location(self, entry: TableEntry) -> TableLocation:
        """Return the location of a table of this snapshot."""
        known, key = self.manifest.locations, (entry.path, entry.owner_branch)
        found = known.get(key)
        if found is None:
            found = known[key] = self.root.location(*key, self.manifest.generation)
        return found

    def open_entry(self, entry: TableEntry) -> Table:
        """Open a table at exactly the version in the manifest."""
        return self.root.handles.open(self.location(entry), entry.version)

    def table(self, key: TableKey) -> Table:
        return self.open_entry(self.entry(key))

    def show_versions(self, entries: Iterable[TableEntry]) -> Snapshot:
        """Return a snapshot with other, unpublished versions of some tables."""
        versions = {
            e.identity: TableVersion(e.identity, e.version, e.owner_branch, e.row_count, e.owner)
            for e in entries
        }
        state = replace(self.state, versions={**self.state.versions, **versions})
        return replace(self, manifest=replace(self.manifest, state=state))

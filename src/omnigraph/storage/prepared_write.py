"""Preparation of a write outside the fence: ids, forks, staged and created tables."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

from omnigraph.errors import AlreadyExists, OmniError
from omnigraph.identity import ID_COLUMN, CommitId, OperationId
from omnigraph.storage.graph_lifecycle import NewTable
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest.commit_records import CommitRecord, MergedState, MergedTable
from omnigraph.storage.manifest.manifest_changes import SetVersion
from omnigraph.storage.manifest.manifest_state import TableEntry
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.stage_table import StagedTransaction, stage_create
from omnigraph.storage.tables.table import Table, open_table
from omnigraph.storage.tables.table_branches import create_branch, delete_branch
from omnigraph.storage.tables.table_commit import commit_exact
from omnigraph.storage.write_plan import OPERATION_PROPERTY, TableMove, WritePlan

if TYPE_CHECKING:
    from omnigraph.storage.staging_heartbeat import Heartbeat


@dataclass(frozen=True, slots=True)
class Ticket:
    """The ids of one write, minted before its first file is written."""

    operation_id: OperationId
    commit_id: CommitId
    rollback_commit_id: CommitId
    created_at: int
    heartbeat: Heartbeat | None = None
    """Protects the files of a long write from cleanup; those of a short one are young enough."""

    @property
    def properties(self) -> dict[str, str]:
        """Return the properties of every table transaction, by which recovery finds them."""
        return {OPERATION_PROPERTY: self.operation_id}


def mint_ticket(snapshot: Snapshot, heartbeat: Heartbeat | None = None) -> Ticket:
    """Mint the ids of a write; `heartbeat` was started before its first file was written."""
    operation, commit, rollback = snapshot.root.ids.take(3)
    now = snapshot.root.now_us()
    return Ticket(OperationId(operation), CommitId(commit), CommitId(rollback), now, heartbeat)


@dataclass(frozen=True, slots=True)
class Writable:
    """A table a branch may write: its own, or a fresh fork of an inherited one."""

    entry: TableEntry
    table: Table
    is_fork: bool


@dataclass(frozen=True, slots=True)
class StagedTable:
    """One table of a write: its base version, and its staged transaction."""

    writable: Writable
    transaction: StagedTransaction

    @property
    def entry(self) -> TableEntry:
        return self.writable.entry

    @property
    def is_fork(self) -> bool:
        return self.writable.is_fork

    @property
    def move(self) -> TableMove:
        """The move of the table in the plan of the write."""
        entry, transaction = self.entry, self.transaction
        return TableMove(
            identity=entry.identity,
            table_key=entry.table_key,
            path=entry.path,
            branch=transaction.location.branch,
            base_version=transaction.read_version,
            transaction=transaction.uuid,
            is_fork=self.is_fork,
        )

    @property
    def planned_rows(self) -> int:
        """Return the number of rows the table will have."""
        transaction = self.transaction
        return self.entry.row_count + transaction.inserted - transaction.deleted


@dataclass(frozen=True, slots=True)
class Merging:
    """The source of a merge, pinned."""

    source: Snapshot
    history: tuple[CommitRecord, ...]
    """The commits of the source that are not visible on the target."""

    @property
    def state(self) -> MergedState:
        tables = (
            MergedTable(e.table_key, e.path, e.owner_branch, e.version, e.owner, e.row_count)
            for e in self.source.entries.values()
        )
        return MergedState(self.source.ref.incarnation, tuple(tables))


@dataclass(frozen=True, slots=True)
class PreparedWrite:
    """A write plan with its state in this process, which is not stored."""

    plan: WritePlan
    snapshot: Snapshot
    """The snapshot the write was prepared on."""
    staged: tuple[StagedTable, ...] = ()
    """The transactions of the tables that the plan moves, in the order of the plan."""
    heartbeat: Heartbeat | None = None
    """Protects the files of a slow write."""


def open_writable(snapshot: Snapshot, entry: TableEntry) -> Writable:
    """Open a table at its pinned version; fork it first if the branch inherited it.

    A fork has a fresh name that nothing refers to until the write is published, so one that a
    crash leaves behind is harmless garbage.
    """
    if entry.owner == snapshot.ref.incarnation:
        return Writable(entry, snapshot.open_entry(entry), is_fork=False)
    location = snapshot.location(entry).on_branch(None)
    name = snapshot.root.ids.next()
    try:
        forked = create_branch(location, name, entry.owner_branch, entry.version)
    except AlreadyExists:
        # The name is fresh: if it is there already, we made it and only the answer was lost.
        forked = open_table(location.on_branch(name), entry.version)
    return Writable(entry, forked, is_fork=True)


def drop_fork(writable: Writable) -> None:
    """Remove a fork of a write that ended before it was announced; ignore a failure."""
    location = writable.table.location
    if writable.is_fork and location.branch is not None:
        try:
            delete_branch(location.on_branch(None), location.branch)
        except OmniError:
            return  # nothing refers to it, so it is garbage and harmless


@contextmanager
def drop_forks_on_failure(tables: Iterable[StagedTable]) -> Iterator[None]:
    """Remove the forks of a write that fails before it is announced."""
    try:
        yield
    except OmniError:
        for table in tables:
            drop_fork(table.writable)
        raise


def create_table(root: GraphRoot, table: NewTable, ticket: Ticket) -> SetVersion:
    """Create an empty table at a fresh path, which nothing refers to until it is published.

    Raises:
        AlreadyExists: there is a table at the path.
    """
    staged = stage_create(
        root.location(table.path),
        mark_primary_key(table.schema, ID_COLUMN),
        properties=ticket.properties,
    )
    committed = commit_exact(staged)
    return SetVersion(table.identity, table.table_key, committed.version, None, 0)

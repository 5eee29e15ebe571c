"""Create and rewrite tables for another schema: retyped, filled, mutated and purged columns."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.constraints.table_changes import TableChange
from omnigraph.errors import ReadSetChanged
from omnigraph.evolution.column_fill import ColumnPlan, Entity, Filling, collect_expressions
from omnigraph.execution.stored_rows import (
    build_logical_schema,
    build_table_schema,
    convert_from_table_rows,
    make_empty_rows,
)
from omnigraph.storage.graph_lifecycle import GENESIS_VERSION, NewTable
from omnigraph.storage.manifest import SetVersion, TableEntry
from omnigraph.storage.prepared_write import (
    StagedTable,
    Ticket,
    Writable,
    create_table,
    drop_fork,
    open_writable,
)
from omnigraph.storage.recovery import drop_created
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import (
    Column,
    ColumnJob,
    EmptyColumn,
    RetainedColumn,
    Table,
    WrittenColumns,
    carry_out,
    commit_exact,
    find_changed_keys,
    find_outdated_fragments,
    is_blob,
    make_blob_array,
    open_noting_failures,
    quote_identifier,
    read_computed,
    read_rows_at_addresses,
    stage_rewrite,
    write_groups,
)
from omnigraph.storage.write_plan import WriterKind
from omnigraph.writer.change import CatalogSnapshot, Change, PlanContent


class ColumnWriters(Protocol):
    """Computes columns of fragments in parallel, one order for each."""

    def write(self, orders: Sequence[ColumnJob]) -> Sequence[WrittenColumns]: ...


@dataclass(frozen=True, slots=True)
class Threads:
    """Computes columns in this process, several fragments at a time.

    Lance processes one fragment with several threads of its own, so more fragments than cores
    would only compete.
    """

    count: int = field(default_factory=lambda: os.cpu_count() or 1)

    def write(self, orders: Sequence[ColumnJob]) -> Sequence[WrittenColumns]:
        if len(orders) <= 1:
            return [carry_out(order) for order in orders]
        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(carry_out, orders))


_BLOB_ROWS = 64
"""Rows with blobs in memory at a time."""


@contextmanager
def open_rewritten_rows(table: Table, columns: ColumnPlan) -> Iterator[pa.RecordBatchReader]:
    """Open a reader of every row of a table with its new columns.

    Raises:
        BadExpression: an expression has no valid value for a row.
    """
    schema = pa.schema([column.field for column in columns.columns])
    with open_noting_failures(_rewrite_batches(table, columns, schema), schema) as reader:
        yield reader


def _rewrite_batches(
    table: Table, columns: ColumnPlan, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    fillings = {filling.field.name: filling for filling in columns.fillings}
    kept = [column.source for column in columns.columns if isinstance(column, RetainedColumn)]
    read = {name: quote_identifier(name) for name in kept} | collect_expressions(columns.fillings)
    has_blobs = any(is_blob(table.schema.field(name)) for name in kept)
    batch_rows = _BLOB_ROWS if has_blobs else None
    for batch in read_computed(table, read, blob_bytes=True, batch_rows=batch_rows):
        values = [_compute_values(batch, column, fillings) for column in columns.columns]
        yield pa.record_batch(values, schema=schema)


def _compute_values(
    batch: pa.RecordBatch, column: Column, fillings: dict[str, Filling]
) -> pa.Array:
    match column:
        case RetainedColumn(source=source) if is_blob(column.field):
            return make_blob_array(batch.column(source))
        case RetainedColumn(source=source):
            return batch.column(source).cast(column.field.type)
        case EmptyColumn():
            return _make_nulls(batch.num_rows, column.field)
        case _:
            return fillings[column.field.name].fill(batch)


def _make_nulls(rows: int, field: pa.Field) -> pa.Array:
    if is_blob(field):
        return make_blob_array(pa.nulls(rows, pa.large_binary()))
    return pa.nulls(rows, field.type)


class NamedChange(Change, Protocol):
    """A change with a name, for the record of a commit."""

    @property
    def name(self) -> str: ...


@contextmanager
def run_mutations(
    view: CatalogSnapshot, mutations: Sequence[Change], ticket: Ticket
) -> Iterator[Snapshot]:
    """Yield the snapshot of a view after these mutations; discard them at the end."""
    if not mutations:
        yield view.snapshot
        return
    forks: list[Writable] = []
    try:
        yield _commit_all(view, mutations, ticket, forks)
    finally:
        for fork in forks:
            drop_fork(fork)


def _commit_all(
    view: CatalogSnapshot, mutations: Sequence[Change], ticket: Ticket, forks: list[Writable]
) -> Snapshot:
    # With an incarnation of its own it owns no table, so each one it writes is forked first.
    snapshot = view.snapshot
    ref = replace(snapshot.ref, incarnation=snapshot.root.ids.next())
    private = replace(snapshot, ref=ref)
    for mutation in mutations:
        prepared = mutation.prepare(CatalogSnapshot(private, view.catalog), ticket)
        staged = prepared.staged if prepared is not None else ()
        forks += [table.writable for table in staged if table.is_fork]
        for table in staged:
            private = _commit_privately(private, table)
    return replace(private, ref=snapshot.ref)


def _commit_privately(private: Snapshot, table: StagedTable) -> Snapshot:
    committed = commit_exact(table.transaction)
    shown = replace(
        table.entry,
        version=committed.version,
        owner_branch=table.transaction.location.branch,
        row_count=committed.row_count,
        owner=private.ref.incarnation,
    )
    return private.show_versions([shown])


def find_mutated(before: Table, after: Table, type_: NodeType | EdgeType) -> TableChange:
    """Return all changes of mutations to a table, as one."""
    keys = find_changed_keys(before, after)
    is_gone = pc.is_null(keys.after)
    names = build_logical_schema(type_).names
    left = keys.after.filter(pc.invert(is_gone))
    parts = read_rows_at_addresses(after, left, names, blob_bytes=True)
    rows = [convert_from_table_rows(part, type_) for part in parts]
    deleted = keys.ids.filter(is_gone)
    return TableChange(type_, pa.concat_tables([make_empty_rows(type_), *rows]), deleted)


class CreatedTables:
    """Tables that a preparation has created or opened; all can be undone."""

    def __init__(self, snapshot: Snapshot, ticket: Ticket) -> None:
        self.ticket, self.snapshot = ticket, snapshot
        self._created: list[tuple[NewTable, SetVersion]] = []
        self._shared: list[tuple[NewTable, SetVersion]] = []
        self._opened: list[Writable] = []

    def create(self, type_: Entity) -> None:
        new = NewTable(type_.identity, type_.table_key, build_table_schema(type_))
        self._created.append((new, create_table(self.snapshot.root, new, self.ticket)))

    def share(self, type_: Entity, owner: Snapshot) -> None:
        """Show the table of another branch as created, without rows."""
        new = NewTable(type_.identity, type_.table_key, build_table_schema(type_))
        owner.root.handles.open(owner.root.location(new.path), GENESIS_VERSION)
        first = SetVersion(new.identity, new.table_key, GENESIS_VERSION, None, 0)
        self._shared.append((new, first))

    @property
    def tables(self) -> list[tuple[NewTable, SetVersion]]:
        return [*self._created, *self._shared]

    def open(self, entry: TableEntry) -> Writable:
        writable = open_writable(self.snapshot, entry)
        self._opened.append(writable)
        return writable

    def watch(self, writable: Writable) -> None:
        """Include a table that was opened elsewhere in the undo."""
        self._opened.append(writable)

    def undo(self) -> None:
        for new, _ in self._created:
            drop_created(self.snapshot.root, new.path, self.ticket.operation_id)
        for writable in self._opened:
            drop_fork(writable)
        self._created, self._opened = [], []

    @contextmanager
    def undo_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.undo()
            raise


class ForgetColumns:
    """Rewrites fragments that still hold values of dropped columns; no row changes.

    Inherited tables are left to their owner.
    """

    kind = WriterKind.OPTIMIZE
    is_costly = True

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        snapshot = view.snapshot
        owned = [e for e in snapshot.entries.values() if e.owner == snapshot.ref.incarnation]
        found = [_list_rewritten(snapshot, entry, ticket) for entry in owned]
        staged = tuple(table for table in found if table is not None)
        # A commit of its own: cleanup keeps the newest one, which must not be the one before.
        return PlanContent(staged) if staged else None

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        return True


def _list_rewritten(snapshot: Snapshot, entry: TableEntry, ticket: Ticket) -> StagedTable | None:
    table = snapshot.open_entry(entry)
    outdated = find_outdated_fragments(table)
    if not outdated:
        return None
    written = write_groups(table, [(fragment,) for fragment in outdated])
    staged = stage_rewrite(table, written, properties=ticket.properties)
    if staged is None:
        raise ReadSetChanged(f"table:{entry.table_key}", str(entry.version), None)
    return StagedTable(Writable(entry, table, is_fork=False), staged)

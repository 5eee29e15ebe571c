"""Stage the rows that a merge takes over on the tables of the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.stored_rows import (
    build_logical_schema,
    build_table_schema,
    convert_from_table_rows,
    convert_to_table_rows,
)
from omnigraph.history.merge_plan import StatePlan, TableMergePlan
from omnigraph.history.property_merge import CombinedRows
from omnigraph.history.table_sides import Entities
from omnigraph.identity import ID_COLUMN
from omnigraph.storage.prepared_write import StagedTable, Ticket, Writable, drop_fork, open_writable
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import (
    ADDRESSES_PER_READ,
    ROW_ADDRESS,
    Rows,
    StagedTransaction,
    Table,
    read_rows_at_addresses,
    stage_fragments,
    write_fragments,
)
from omnigraph.types.arrow import BLOB

_BLOB_ROWS = 64
"""The number of rows with blobs in memory at a time."""


def stage_merge(plan: StatePlan, snapshot: Snapshot, ticket: Ticket) -> tuple[StagedTable, ...]:
    """Stage a transaction for each table that changes; drop unused forks."""
    staged: list[StagedTable] = []
    try:
        for table in plan.tables:
            if table.adopted is None and not table.is_empty:
                one = _stage_table(table, open_writable(snapshot, table.entry), ticket)
                if one is not None:
                    staged.append(one)
    except BaseException:
        for one in staged:
            drop_fork(one.writable)
        raise
    return tuple(staged)


def _stage_table(table: TableMergePlan, writable: Writable, ticket: Ticket) -> StagedTable | None:
    try:
        transaction = _stage_rows(table, writable, ticket)
    except BaseException:
        drop_fork(writable)
        raise
    if transaction is None:
        drop_fork(writable)
        return None
    return StagedTable(writable, transaction)


def _stage_rows(
    table: TableMergePlan, writable: Writable, ticket: Ticket
) -> StagedTransaction | None:
    target, rows, written = writable.table, table.resolved.rows, table.written
    decided = _find_decided(table, target)
    fragments: list[str] = []
    if len(written) or rows.num_rows or table.combined:
        pieces = [written, *table.combined, rows]
        fragments = write_fragments(target, _convert_to_stored(table, pieces))
    # The addresses of rows that are taken or combined are known from comparing them, and a fork
    # has them there too.
    gone = [
        table.taken.target.drop_null(),
        *(combined.entities.target for combined in table.combined),
        decided.column(ROW_ADDRESS).combine_chunks(),
    ]
    is_written = pc.is_in(decided.column(ID_COLUMN), value_set=rows.column(ID_COLUMN))
    replaced = int(written.has("target").sum()) + int(is_written.to_numpy().sum())
    replaced += table.rows_combined
    return stage_fragments(
        target,
        fragments,
        removed_addresses=pa.concat_arrays(gone),
        replaced=replaced,
        properties=ticket.properties,
    )


Piece: TypeAlias = Entities | CombinedRows | pa.Table


def _find_decided(table: TableMergePlan, target: Table) -> pa.Table:
    """Look up the ids and addresses, in the target, of rows given by decisions."""
    resolved = table.resolved
    ids = pa.concat_arrays([resolved.rows.column(ID_COLUMN).combine_chunks(), resolved.deleted])
    if not len(ids):
        return pa.table({ID_COLUMN: ids, ROW_ADDRESS: pa.array([], pa.uint64())})
    return target.lookup(ID_COLUMN, ids, [ID_COLUMN, ROW_ADDRESS])


def _convert_to_stored(table: TableMergePlan, pieces: Sequence[Piece]) -> Rows:
    """Convert the rows to stored form: in one piece if they are few, else as a stream."""
    schema = build_table_schema(table.type)
    parts = _iterate_parts(table, pieces)
    if sum(len(piece) for piece in pieces) <= _batch_rows(table):
        return pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()
    batches = (batch for part in parts for batch in part.to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


def _batch_rows(table: TableMergePlan) -> int:
    has_blobs = any(field.type == BLOB for field in build_logical_schema(table.type))
    return _BLOB_ROWS if has_blobs else ADDRESSES_PER_READ


def _iterate_parts(table: TableMergePlan, pieces: Sequence[Piece]) -> Iterator[pa.Table]:
    for piece in filter(len, pieces):
        if isinstance(piece, pa.Table):
            yield convert_to_table_rows(piece, table.type)
            continue
        for part in _read_piece(table, piece):
            yield convert_to_table_rows(convert_from_table_rows(part, table.type), table.type)


def _read_piece(table: TableMergePlan, piece: Entities | CombinedRows) -> Iterator[pa.Table]:
    names, rows = build_logical_schema(table.type).names, _batch_rows(table)
    if isinstance(piece, CombinedRows):
        return piece.read(names, batch_rows=rows, blob_bytes=True)
    return read_rows_at_addresses(
        table.sides.source, piece.source, names, batch_rows=rows, blob_bytes=True
    )

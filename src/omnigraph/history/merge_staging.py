"""Writing what a merge takes over onto the tables of the target."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from uuid import uuid4

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.stored_rows import (
    build_logical_schema,
    build_table_schema,
    convert_from_table_rows,
    convert_to_table_rows,
)
from omnigraph.history.merge import StatePlan, TableMergePlan
from omnigraph.history.three_way import Entities
from omnigraph.identity import ID_COLUMN
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import StagedTable, Ticket, Writable, drop_fork, open_writable
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
"""How many rows with blobs are in memory at a time."""


def stage_merge(plan: StatePlan, snapshot: Snapshot, ticket: Ticket) -> tuple[StagedTable, ...]:
    """One transaction for each table that is written; forks that are not needed are removed."""
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
    target, rows, written = writable.table, table.settled.rows, table.written
    settled = _find_settled(table, target)
    fragments: list[str] = []
    if len(written) or rows.num_rows:
        fragments = write_fragments(target, _convert_to_stored(table, [written, rows]))
    # Where the rows are that are taken is known from comparing them; a fork has them there too.
    gone = [table.taken.target.drop_null(), settled.column(ROW_ADDRESS).combine_chunks()]
    is_written = pc.is_in(settled.column(ID_COLUMN), value_set=rows.column(ID_COLUMN))
    replaced = int(written.has("target").sum()) + int(is_written.to_numpy().sum())
    return stage_fragments(
        target,
        fragments,
        removed_addresses=pa.concat_arrays(gone),
        replaced=replaced,
        uuid=str(uuid4()),
        properties=ticket.properties,
    )


def _find_settled(table: TableMergePlan, target: Table) -> pa.Table:
    """The rows of the target that conflicts were settled about: their ids and where they are."""
    settled = table.settled
    ids = pa.concat_arrays([settled.rows.column(ID_COLUMN).combine_chunks(), settled.deleted])
    if not len(ids):
        return pa.table({ID_COLUMN: ids, ROW_ADDRESS: pa.array([], pa.uint64())})
    return target.lookup(ID_COLUMN, ids, [ID_COLUMN, ROW_ADDRESS])


def _convert_to_stored(table: TableMergePlan, pieces: Sequence[Entities | pa.Table]) -> Rows:
    """The rows as the table keeps them; in one piece if they are few, else as a stream."""
    schema = build_table_schema(table.type)
    parts = _iterate_parts(table, pieces)
    if sum(len(piece) for piece in pieces) <= _batch_rows(table):
        return pa.concat_tables([schema.empty_table(), *parts]).combine_chunks()
    batches = (batch for part in parts for batch in part.to_batches())
    return pa.RecordBatchReader.from_batches(schema, batches)


def _batch_rows(table: TableMergePlan) -> int:
    has_blobs = any(field.type == BLOB for field in build_logical_schema(table.type))
    return _BLOB_ROWS if has_blobs else ADDRESSES_PER_READ


def _iterate_parts(
    table: TableMergePlan, pieces: Sequence[Entities | pa.Table]
) -> Iterator[pa.Table]:
    names, rows = build_logical_schema(table.type).names, _batch_rows(table)
    for piece in filter(len, pieces):
        if not isinstance(piece, Entities):
            yield convert_to_table_rows(piece, table.type)
            continue
        for part in read_rows_at_addresses(
            table.sides.source, piece.source, names, batch_rows=rows, blob_bytes=True
        ):
            yield convert_to_table_rows(convert_from_table_rows(part, table.type), table.type)

"""Rows with other columns, read from one table to be written as a whole to another."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pyarrow as pa

from omnigraph.evolution.column_plan import ColumnPlan
from omnigraph.evolution.fillings import Filling, collect_expressions
from omnigraph.storage.tables import (
    Column,
    EmptyColumn,
    KeptColumn,
    Table,
    is_blob,
    make_blob_array,
    open_noting_failures,
    quote_identifier,
    read_computed,
)

_BLOB_ROWS = 64
"""So many rows with blobs are in memory at a time."""


@contextmanager
def open_rewritten_rows(table: Table, columns: ColumnPlan) -> Iterator[pa.RecordBatchReader]:
    """Every row of a table with the columns that it shall have, to be read within the block.

    Raises:
        BadExpression: an expression gives a row something that is not a value.
    """
    schema = pa.schema([column.field for column in columns.columns])
    with open_noting_failures(_rewrite_batches(table, columns, schema), schema) as reader:
        yield reader


def _rewrite_batches(
    table: Table, columns: ColumnPlan, schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    fillings = {filling.field.name: filling for filling in columns.fillings}
    kept = [column.source for column in columns.columns if isinstance(column, KeptColumn)]
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
        case KeptColumn(source=source) if is_blob(column.field):
            return make_blob_array(batch.column(source))
        case KeptColumn(source=source):
            return batch.column(source).cast(column.field.type)
        case EmptyColumn():
            return _make_nulls(batch.num_rows, column.field)
        case _:
            return fillings[column.field.name].fill(batch)


def _make_nulls(rows: int, field: pa.Field) -> pa.Array:
    if is_blob(field):
        return make_blob_array(pa.nulls(rows, pa.large_binary()))
    return pa.nulls(rows, field.type)

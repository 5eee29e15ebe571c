"""Rows as the engine sees them and rows as a table keeps them; only blobs differ."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cache import Cache
from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import ExternalBlobPolicy
from omnigraph.execution.read.arrays import Longs
from omnigraph.storage.tables import ROW_ID, Table, make_blob_array, make_blob_field, read_blobs
from omnigraph.types.arrow import BLOB, build_entity_schema

EntityTypes = NodeType | EdgeType

_T = TypeVar("_T")

_ROWS_PER_TAKE = 100_000
"""More at once would only raise the peak of memory."""


def _keep_for_type(make: Callable[[EntityTypes], _T]) -> Callable[[EntityTypes], _T]:
    """Make it once for each type, which is known by being the same object.

    A type may have hundreds of properties, and comparing them all costs more than a small write.
    """
    kept: Cache[int, tuple[EntityTypes, _T]] = Cache(1024)

    @wraps(make)
    def find(type_: EntityTypes) -> _T:
        known = kept.find(id(type_))
        if known is None:
            # Kept with the type, so that its number cannot become that of another one.
            known = type_, make(type_)
            kept.keep(id(type_), known)
        return known[1]

    return find


@_keep_for_type
def build_logical_schema(type_: EntityTypes) -> pa.Schema:
    """The columns rows have while they are checked and changed."""
    return build_entity_schema(type_.kind, type_.properties)


@_keep_for_type
def make_empty_rows(type_: EntityTypes) -> pa.Table:
    return build_logical_schema(type_).empty_table()


@_keep_for_type
def build_table_schema(type_: EntityTypes) -> pa.Schema:
    """The columns of the stored table."""
    return pa.schema([_to_stored_field(field) for field in build_logical_schema(type_)])


def _to_stored_field(field: pa.Field) -> pa.Field:
    if field.type != BLOB:
        return field
    metadata = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
    return make_blob_field(field.name, nullable=field.nullable, metadata=metadata)


def convert_to_table_rows(rows: pa.Table, type_: EntityTypes) -> pa.Table:
    """Rows ready to be written.

    Raises:
        ExternalBlobPolicy: a blob is given as an address; no address is allowed.
    """
    stored = build_table_schema(type_)
    if rows.schema.equals(stored):
        return rows  # no blobs
    columns = []
    for field in build_logical_schema(type_):
        values = rows.column(field.name)
        columns.append(_to_stored_blobs(values) if field.type == BLOB else values)
    return pa.table(columns, schema=stored)


def _to_stored_blobs(values: pa.ChunkedArray) -> pa.Array:
    cells = values.combine_chunks() if values.num_chunks else pa.array([], BLOB)
    uris = pc.struct_field(cells, "uri").drop_null()
    if len(uris):
        raise ExternalBlobPolicy(uris[0].as_py(), "no address is on the graph's list")
    return make_blob_array(pc.struct_field(cells, "data"))


def convert_from_table_rows(rows: pa.Table, type_: EntityTypes) -> pa.Table:
    """Rows read from a table with `blob_bytes`, in the engine's form and order."""
    wanted = build_logical_schema(type_)
    columns = []
    for field in wanted:
        values = rows.column(field.name)
        if field.type == BLOB:
            values = _read_blobs(values)
        elif values.type != field.type:
            values = values.cast(field.type)
        columns.append(values)
    return pa.table(columns, schema=wanted)


def _read_blobs(values: pa.ChunkedArray) -> pa.Array:
    data = values.combine_chunks() if values.num_chunks else pa.array([], pa.large_binary())
    data = data.cast(pa.large_binary())
    parts = [data, pa.nulls(len(data), pa.string())]
    return pa.StructArray.from_arrays(parts, fields=list(BLOB), mask=pc.is_null(data))


def read_by_id(table: Table, ids: pa.Array, type_: EntityTypes) -> pa.Table:
    """The whole rows with these ids, blobs included."""
    return _with_blobs(table, table.lookup("id", ids, _list_columns_to_read(type_)), type_)


def read_by_row_id(table: Table, row_ids: Longs, type_: EntityTypes) -> pa.Table:
    """The same by row ids, which costs no look-up."""
    names = _list_columns_to_read(type_)
    starts = range(0, max(len(row_ids), 1), _ROWS_PER_TAKE)
    pieces = (pa.array(row_ids[start : start + _ROWS_PER_TAKE], pa.uint64()) for start in starts)
    parts = [table.take_row_ids(piece, names) for piece in pieces]
    return _with_blobs(table, pa.concat_tables(parts), type_)


def _list_columns_to_read(type_: EntityTypes) -> list[str]:
    """All but the blobs, and what is needed to find them."""
    wanted = build_logical_schema(type_)
    plain = [field.name for field in wanted if field.type != BLOB]
    return plain if len(plain) == len(wanted) else [*plain, ROW_ID]


def _with_blobs(table: Table, found: pa.Table, type_: EntityTypes) -> pa.Table:
    for field in build_logical_schema(type_):
        if field.type == BLOB:
            values = read_blobs(table, field.name, found.column(ROW_ID).to_pylist())
            found = found.append_column(field.name, pa.array(values, pa.large_binary()))
    return convert_from_table_rows(found, type_)


def read_all(table: Table, type_: EntityTypes) -> pa.Table:
    """Every row, blobs included."""
    return convert_from_table_rows(table.scan(blob_bytes=True), type_)


def read_batches(table: Table, type_: EntityTypes) -> Iterator[pa.RecordBatch]:
    """The same, a batch at a time."""
    for batch in table.batches(blob_bytes=True):
        yield from convert_from_table_rows(pa.Table.from_batches([batch]), type_).to_batches()

"""Columns of large binary values, kept apart from the other columns and read by range."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import pyarrow as pa
import pyarrow.compute as pc
from lance.blob import BlobType

from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.table import Table


def make_blob_field(
    name: str, *, nullable: bool = True, metadata: Mapping[str, str] | None = None
) -> pa.Field:
    return pa.field(name, BlobType(), nullable=nullable, metadata=dict(metadata or {}) or None)


def is_blob(field: pa.Field) -> bool:
    return isinstance(field.type, BlobType)


def make_blob_array(values: pa.Array | pa.ChunkedArray | Sequence[bytes | None]) -> pa.Array:
    """Bytes as values of a blob column; null and empty stay apart."""
    data = values if isinstance(values, pa.Array | pa.ChunkedArray) else pa.array(list(values))
    data = data.cast(pa.large_binary())
    if isinstance(data, pa.ChunkedArray):
        data = data.combine_chunks()
    fields = list(BlobType().storage_type)
    rest = [pa.nulls(len(data), field.type) for field in fields[1:]]
    storage = pa.StructArray.from_arrays([data, *rest], fields=fields, mask=pc.is_null(data))
    return pa.ExtensionArray.from_storage(BlobType(), storage)


def read_blobs(table: Table, column: str, row_ids: Sequence[int]) -> list[bytes | None]:
    """The whole values at these row ids, in that order; every id must be live."""
    if not row_ids:
        return []
    with translate_errors(f"reading blobs of {table!r}"):
        found = table.native.read_blobs(column, ids=list(row_ids), preserve_order=True)
    return [value for _, value in found]


def read_blobs_at(table: Table, column: str, addresses: pa.Array) -> list[bytes | None]:
    """The whole values at these row addresses, in that order; every row must be there."""
    if not len(addresses):
        return []
    with translate_errors(f"reading blobs of {table!r}"):
        found = table.native.read_blobs(column, addresses=addresses, preserve_order=True)
    return [value for _, value in found]


def read_blob_range(table: Table, column: str, row_id: int, start: int, length: int) -> bytes:
    """Part of one value; the range must lie within it."""
    with translate_errors(f"reading a blob of {table!r}"):
        found = table.native.read_blob_ranges(column, [(row_id, start, length)], selector="ids")
    value = found[0][2]
    assert value is not None, f"row {row_id} has no {column}"
    return value

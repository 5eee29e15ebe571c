"""Writing a few plain rows into one file, for half of what the general way costs.

The general way cuts streams of any length into files and knows every type. A small commit needs
none of that, so it gives its rows straight to the writer of files, which makes the same file.
"""

from __future__ import annotations

import os

import pyarrow as pa
from lance.file import LanceFileWriter
from lance.fragment import DataFile, FragmentMetadata

from omnigraph.storage.tables.table import Table

MOST_BYTES = 1 << 20
STORAGE_VERSION = "2.2"

_PLAIN_TYPES = frozenset(
    kind.id
    for kind in (
        *(pa.bool_(), pa.string(), pa.large_string(), pa.binary(), pa.large_binary()),
        *(pa.int8(), pa.int16(), pa.int32(), pa.int64(), pa.float32(), pa.float64()),
        *(pa.uint8(), pa.uint16(), pa.uint32(), pa.uint64(), pa.date32(), pa.timestamp("us")),
    )
)
_MAJOR, _MINOR = (int(part) for part in STORAGE_VERSION.split("."))


def write_small(table: Table, rows: pa.Table, most_rows: int) -> FragmentMetadata | None:
    """A fragment of the rows that no version refers to; None where the general way must be gone.

    That is on object stores, for many or large rows, and for columns made of others.
    """
    folder = table.location.local_folder
    is_small = 0 < rows.num_rows <= most_rows and rows.get_total_buffer_size() <= MOST_BYTES
    if folder is None or not is_small or not _has_only_plain_columns(table.schema, rows.schema):
        return None
    name = f"{os.urandom(16).hex()}.lance"
    writer = LanceFileWriter(f"{folder}/data/{name}", rows.schema, version=STORAGE_VERSION)
    writer.write_batch(rows)
    written = writer.close()
    assert written == rows.num_rows, "the writer counts what it was given"
    ids = table.columns.ids
    file = DataFile(
        name,
        fields=[ids[column] for column in rows.schema.names],
        column_indices=list(range(rows.num_columns)),
        file_major_version=_MAJOR,
        file_minor_version=_MINOR,
        file_size_bytes=writer.size_bytes,
    )
    return FragmentMetadata(0, [file], rows.num_rows)


def _has_only_plain_columns(table: pa.Schema, rows: pa.Schema) -> bool:
    """Whether the rows fit the table without a second look, and have no columns within columns."""
    if not rows.equals(table) and not _are_part_of(table, rows):
        return False
    return all(field.type.id in _PLAIN_TYPES for field in rows)


def _are_part_of(table: pa.Schema, rows: pa.Schema) -> bool:
    """Whether the rows have columns of the table and leave out only such as may be null."""
    given = dict(zip(rows.names, rows, strict=True))
    for field in table:
        one = given.pop(field.name, None)
        fits = field.nullable if one is None else one.equals(field)
        if not fits:
            return False
    return not given

"""Writing rows into files that no version refers to yet."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import TypeAlias

import pyarrow as pa
from lance.fragment import DataFile, FragmentMetadata
from lance.fragment import write_fragments as write_native_fragments

from omnigraph.storage.tables.blob_files import (
    BLOB_FILES,
    LongBlobs,
    add_blob_files,
    attach_blob_files,
)
from omnigraph.storage.tables.effects import report_native_write
from omnigraph.storage.tables.file_integrity import require_complete_rows
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.lance_session import open_shared_session
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.parts import note_rows
from omnigraph.storage.tables.small_writes import STORAGE_VERSION, write_small
from omnigraph.storage.tables.table import Table

ROWS_PER_FILE = 1 << 20
SMALL_WRITE_ROWS = 1_024
BYTES_PER_FILE = 8 << 30

Rows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader

# The substrate makes a class whenever it asks for the path of a file, several in every commit, and
# each costs more than opening a file. One of them does for all.
_PathText = type(DataFile("", []).path)
DataFile.path = property(lambda file: _PathText(file._path))  # type: ignore[method-assign,assignment]


def write_fragments(
    target: Table | TableLocation,
    rows: Rows,
    *,
    rows_per_file: int = ROWS_PER_FILE,
    bytes_per_file: int = BYTES_PER_FILE,
) -> list[str]:
    """Fragments holding the rows, as JSON to hand to `stage_fragments`; works on any machine.

    `target` is the table the rows are for, or the place where one will be created.
    """
    written = write_uncommitted(
        target, rows, rows_per_file=rows_per_file, bytes_per_file=bytes_per_file
    )
    return [json.dumps(fragment.to_json()) for fragment in written]


def write_uncommitted(
    target: Table | TableLocation,
    rows: Rows,
    *,
    rows_per_file: int = ROWS_PER_FILE,
    bytes_per_file: int = BYTES_PER_FILE,
    mode: str = "append",
) -> list[FragmentMetadata]:
    """Like `write_fragments`, for use in the same process.

    The mode stays "append" even for rows that will replace a whole table: "overwrite" numbers
    the fields afresh, and after a dropped column the values would be read as null.
    """
    if isinstance(rows, pa.RecordBatch):
        rows = pa.Table.from_batches([rows])
    measured = _Measured(rows)
    location = target if isinstance(target, TableLocation) else target.location
    with translate_errors(f"writing rows for {location}"):
        with report_native_write("write_fragments", location):
            small = None
            if isinstance(target, Table) and isinstance(rows, pa.Table) and mode == "append":
                small = write_small(target, rows, min(rows_per_file, SMALL_WRITE_ROWS))
            if small is not None:
                written = [small]
            else:
                written = _write_any(target, measured.rows, mode, rows_per_file, bytes_per_file)
        long_blobs = measured.long_blobs
        if long_blobs.bytes:
            # Listed before they are measured: what is measured as whole was listed as whole.
            written = add_blob_files(location, written)
        require_complete_rows(location, written, long_blobs)
        note_rows(location, written, may_have_blobs=long_blobs.bytes > 0)
    return written


def _write_any(
    target: Table | TableLocation,
    rows: pa.Table | pa.RecordBatchReader,
    mode: str,
    rows_per_file: int,
    bytes_per_file: int,
) -> list[FragmentMetadata]:
    is_new = isinstance(target, TableLocation)
    location = target if isinstance(target, TableLocation) else target.location
    written = write_native_fragments(
        rows,
        target.native_uri if isinstance(target, TableLocation) else target.native,
        schema=rows.schema,
        mode="create" if is_new else mode,
        max_rows_per_file=rows_per_file,
        max_bytes_per_file=bytes_per_file,
        data_storage_version=STORAGE_VERSION,
        storage_options=location.native_options,
        session=open_shared_session(location) if is_new else None,
    )
    assert isinstance(written, list)
    return written


class _Measured:
    """Rows, and what of them goes to blob files, known once the rows were read."""

    def __init__(self, rows: pa.Table | pa.RecordBatchReader) -> None:
        self.long_blobs = LongBlobs()
        self.rows = rows
        if isinstance(rows, pa.RecordBatchReader):
            self.rows = pa.RecordBatchReader.from_batches(rows.schema, self._measure(rows))
        else:
            self.long_blobs.add(rows)

    def _measure(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            self.long_blobs.add(batch)
            yield batch


def parse_fragments(fragments: Iterable[str]) -> list[FragmentMetadata]:
    with translate_errors("reading fragments handed over"):
        return [_parse_fragment(text) for text in fragments]


def _parse_fragment(text: str) -> FragmentMetadata:
    fragment = FragmentMetadata.from_json(text)
    if f'"{BLOB_FILES}"' not in text:
        return fragment
    return attach_blob_files(fragment, json.loads(text)[BLOB_FILES])

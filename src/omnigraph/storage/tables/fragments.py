"""Write rows into fragments no version refers to yet, and verify that their files are whole."""

from __future__ import annotations

import json
import os
import struct
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
from lance.blob import BlobType
from lance.file import LanceFileSession, LanceFileWriter
from lance.fragment import DataFile, FragmentMetadata
from lance.fragment import write_fragments as write_native_fragments

from omnigraph.errors import ReadSetChanged, StorageFailure, StorageKind
from omnigraph.storage.objects.local_store import read_small_file
from omnigraph.storage.tables.checksums import Checksum, record_checksums
from omnigraph.storage.tables.file_probes import (
    list_files_in,
    name_version_file,
    report_native_write,
)
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.location import TableLocation, open_shared_session
from omnigraph.storage.tables.table import Table

INLINE_BLOB_BYTES = 1 << 16
"""Longer values are stored in files of their own, whose sizes no metadata records."""
SHARED_BLOB_BYTES = 4 << 20
"""Values up to this length share a file; each that is longer has one to itself."""
BLOB_FILES = "blob_files"

_DATA_SUFFIX, _BLOB_SUFFIX = ".lance", ".blob"


@dataclass(slots=True)
class LongBlobs:
    """The number and size of the values of some rows that go to blob files."""

    bytes: int = 0
    alone: int = 0
    """How many values have a file to themselves."""
    shared: int = 0
    """How many values share files."""

    def add(self, rows: pa.Table | pa.RecordBatch) -> None:
        for at, kind in enumerate(rows.schema.types):
            if not isinstance(kind, BlobType):
                continue
            column = rows.column(at)
            for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
                lengths = pc.binary_length(pc.struct_field(chunk.storage, 0))
                long = lengths.filter(pc.greater(lengths, INLINE_BLOB_BYTES))
                alone = long.filter(pc.greater(long, SHARED_BLOB_BYTES))
                self.bytes += pc.sum(long).as_py() or 0
                self.shared += len(long) - len(alone)
                self.alone += len(alone)

    @property
    def min_files(self) -> int:
        """Least number of blob files; large values and several data files need more."""
        return self.alone + (1 if self.shared else 0)


@dataclass
class FragmentWithBlobs(FragmentMetadata):
    """A fragment that was just written, and its blob files below the folder of its branch."""

    blob_files: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        return {**super().to_json(), BLOB_FILES: list(self.blob_files)}


def add_blob_files(
    location: TableLocation, written: Iterable[FragmentMetadata]
) -> list[FragmentMetadata]:
    """Fragments that were just written, with the blob files that are there."""
    return [attach_blob_files(one, _list_blob_files(location, one)) for one in written]


def attach_blob_files(fragment: FragmentMetadata, names: Iterable[str]) -> FragmentMetadata:
    blob_files = tuple(names)
    if not blob_files:
        return fragment
    given = {field.name: getattr(fragment, field.name) for field in fields(FragmentMetadata)}
    return FragmentWithBlobs(**given, blob_files=blob_files)


def get_blob_files(fragment: FragmentMetadata) -> tuple[str, ...]:
    """Return the blob files of a staged fragment; unknown for a committed one."""
    return fragment.blob_files if isinstance(fragment, FragmentWithBlobs) else ()


def has_blob_columns(schema: pa.Schema) -> bool:
    return any(isinstance(kind, BlobType) for kind in schema.types)


def _list_blob_files(location: TableLocation, fragment: FragmentMetadata) -> list[str]:
    own = [str(file.path) for file in fragment.files if file.base_id is None]
    folders = [f"data/{name.removesuffix(_DATA_SUFFIX)}" for name in own]
    listed = [name for folder in folders for name in _list_folder(location, folder)]
    return sorted(name for name in listed if name.endswith(_BLOB_SUFFIX))


def _list_folder(location: TableLocation, folder: str) -> list[str]:
    root = location.local_folder
    if root is None:
        files = LanceFileSession(location.native_uri, storage_options=location.native_options)
        return [str(name) for name in files.list(folder)]
    missing = suppress(FileNotFoundError, NotADirectoryError)
    with missing, os.scandir(f"{root}/{folder}") as entries:
        return [f"{folder}/{entry.name}" for entry in entries]
    return []


MAX_SMALL_BYTES = 1 << 20
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
    """Write few plain rows as one fragment; None if `write_fragments` must be used.

    It must be on object stores, for many or large rows, and for nested columns.
    """
    folder = table.location.local_folder
    is_small = 0 < rows.num_rows <= most_rows and rows.get_total_buffer_size() <= MAX_SMALL_BYTES
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
    """Return whether the rows fit the table as they are, without nested columns."""
    if not rows.equals(table) and not _are_part_of(table, rows):
        return False
    return all(field.type.id in _PLAIN_TYPES for field in rows)


def _are_part_of(table: pa.Schema, rows: pa.Schema) -> bool:
    """Return whether the rows have columns of the table and omit only nullable ones."""
    given = dict(zip(rows.names, rows, strict=True))
    for field in table:
        one = given.pop(field.name, None)
        fits = field.nullable if one is None else one.equals(field)
        if not fits:
            return False
    return not given


STAGED_FILES = "staged_files"
"""A concurrent cleanup removed files of a slow write. No row changed, so any write may retry."""

_LENGTH = struct.Struct("<I")
_FOOTER = struct.Struct("<QHH4s")
_MAGIC = b"LANC"
_READ_VERSION_TAG, _UUID_TAG = b"\x08", b"\x12"

_PLAIN_BITMAP, _RUN_BITMAP = 12346, 12347
_OFFSETS_FROM = 4
_ARRAY_LIMIT, _BITS_BYTES = 4096, 8192


def require_complete_rows(
    location: TableLocation,
    written: Sequence[FragmentMetadata],
    long_blobs: LongBlobs | None = None,
) -> None:
    """Raise unless the data files of these fragments have the lengths in their metadata.

    Their blob files must all have been listed, and hold `long_blobs` bytes where that is known.
    """
    if long_blobs is not None and long_blobs.bytes:
        _require_blob_files(location, written, long_blobs.min_files)
    root = location.local_folder
    if root is None:
        return
    found, blob_bytes = 0, None if long_blobs is None else long_blobs.bytes
    for fragment in written:
        for file in fragment.files:
            if file.base_id is not None:
                continue  # it belongs to the parent of this branch
            path = f"{root}/data/{file.path}"
            if file.file_size_bytes is not None:
                _require_size(path, file.file_size_bytes)
            found += _measure_blobs(path) if blob_bytes else 0
    if blob_bytes is not None and found != blob_bytes:
        raise _make_truncated_error(
            f"{root}/data", f"its new blob files hold {found} bytes", blob_bytes
        )


def _require_blob_files(
    location: TableLocation, written: Iterable[FragmentMetadata], fewest: int
) -> None:
    """Raise if a blob file was removed before it was listed."""
    found = sum(len(get_blob_files(fragment)) for fragment in written)
    if found < fewest:
        raise _make_taken(f"{fewest - found} of {fewest} blob files in {location}/data")


def require_complete_deletions(
    location: TableLocation, changed: Iterable[FragmentMetadata]
) -> list[Checksum]:
    """Raise unless the deletion files of these fragments are complete; return their checksums."""
    root, sums = location.local_folder, list[Checksum]()
    if root is None:
        return sums
    for fragment in changed:
        file = fragment.deletion_file
        if file is None or file.base_id is not None:
            continue
        name = file.path(fragment.id)
        content = _read_deletions(f"{root}/{name}")
        found = _count_deletions(name, content)
        if found != file.num_deleted_rows:
            raise _make_truncated_error(
                f"{root}/{name}", f"it names {found} rows", file.num_deleted_rows
            )
        sums.append(Checksum.of(name, content))
    return sums


def sum_complete_version(
    location: TableLocation, version: int, uuid: str, read_version: int
) -> Checksum | None:
    """Compute the checksum of a version file if it is complete and of this transaction.

    Several times cheaper than opening the version. None is inconclusive: the file may be on an
    object store, or have another layout.
    """
    root, name = location.local_folder, name_version_file(version)
    if root is None:
        return None
    try:
        content = read_small_file(f"{root}/{name}")
        is_ours = _has_valid_footer(content) and _has_transaction(content, uuid, read_version)
    except (OSError, struct.error):
        return None
    return Checksum.of(name, content, version) if is_ours else None


def _has_valid_footer(content: bytes) -> bool:
    """Return whether the last part of the file ends where the footer starts."""
    footer_at = len(content) - _FOOTER.size
    if footer_at < 0:
        return False
    start, _, _, magic = _FOOTER.unpack_from(content, footer_at)
    if magic != _MAGIC or start >= footer_at:
        return False
    (length,) = _LENGTH.unpack_from(content, start)
    return bool(start + _LENGTH.size + length == footer_at)


def _has_transaction(content: bytes, uuid: str, read_version: int) -> bool:
    """Return whether the first part of the file is a transaction of this identity."""
    name = uuid.encode()
    base = _READ_VERSION_TAG + _encode_varint(read_version) if read_version else b""
    return content.startswith(base + _UUID_TAG + _encode_varint(len(name)) + name, _LENGTH.size)


def _encode_varint(number: int) -> bytes:
    parts = bytearray()
    while number >= 1 << 7:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)


def require_complete_indices(location: TableLocation, sizes: Mapping[str, int]) -> None:
    """Raise unless the files of each index segment, by its uuid, have this many bytes in all."""
    root = location.local_folder
    if root is None:
        return
    for uuid, expected in sizes.items():
        path = f"{root}/_indices/{uuid}"
        found = _measure_folder(path)
        if found != expected:
            raise _make_truncated_error(path, f"its files have {found} bytes", expected)


def _measure_blobs(data_file: str) -> int:
    """The bytes in blob files of a data file, which lie in a folder of its name."""
    return _measure_folder(os.path.splitext(data_file)[0], ".blob")


def _measure_folder(folder: str, suffix: str = "") -> int:
    """Sum the sizes of files in a folder whose names have the suffix; 0 for an absent folder."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        files = [e for e in entries if e.name.endswith(suffix) and e.is_file()]
        return sum(file.stat().st_size for file in files)
    return 0


def _require_size(path: str, expected: int) -> None:
    try:
        size = os.stat(path).st_size
    except FileNotFoundError as error:
        raise _make_taken(path) from error
    if size != expected:
        raise _make_truncated_error(path, f"it has {size} bytes", expected)


def _make_taken(path: str) -> ReadSetChanged:
    """Return the error for a complete file that cleanup removed; the write starts over."""
    return ReadSetChanged(STAGED_FILES, path, None)


def _read_deletions(path: str) -> bytes:
    try:
        return read_small_file(path)
    except FileNotFoundError as error:
        raise _make_taken(path) from error
    except OSError:
        return b""


def _count_deletions(name: str, content: bytes) -> int:
    """Count the rows a deletion file names; 0 for a truncated one."""
    try:
        if not name.endswith(".arrow"):
            return _count_bitmap(content)
        batches = pa.ipc.open_file(pa.py_buffer(content))
        return sum(batches.get_batch(at).num_rows for at in range(batches.num_record_batches))
    except (OSError, pa.ArrowInvalid, IndexError):
        return 0


def _count_bitmap(data: bytes) -> int:
    """Return the member count of a roaring bitmap, exactly as long as its header says."""
    cookie = _decode_number(data, 0, 4)
    has_runs = cookie & 0xFFFF == _RUN_BITMAP
    if not has_runs and cookie != _PLAIN_BITMAP:
        return 0
    containers = (cookie >> 16) + 1 if has_runs else _decode_number(data, 4, 4)
    run_bytes = (containers + 7) // 8 if has_runs else 0
    header = 4 + run_bytes if has_runs else 8
    at = header + 4 * containers
    at += 4 * containers if not has_runs or containers >= _OFFSETS_FROM else 0
    members = 0
    for container in range(containers):
        cardinality = _decode_number(data, header + 4 * container + 2, 2) + 1
        members += cardinality
        if has_runs and data[4 + container // 8] >> container % 8 & 1:
            at += 2 + 4 * _decode_number(data, at, 2)
        else:
            at += 2 * cardinality if cardinality <= _ARRAY_LIMIT else _BITS_BYTES
    return members if at == len(data) else 0


def _decode_number(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + size], "little")


def _make_truncated_error(path: str, found: str, expected: int) -> StorageFailure:
    return StorageFailure(
        StorageKind.CONFIGURATION,
        f"{path} was truncated while it was written: {found} instead of {expected}; "
        "no space left on the device?",
        is_disk_full=True,
    )


ROWS_PER_FILE = 1 << 20
SMALL_WRITE_ROWS = 1_024
BYTES_PER_FILE = 8 << 30

Rows: TypeAlias = pa.Table | pa.RecordBatch | pa.RecordBatchReader

# Lance creates a class whenever it asks for the path of a file, several times in every commit, and
# each costs more than opening a file. One is enough.
_PathText = type(DataFile("", []).path)
DataFile.path = property(lambda file: _PathText(file._path))  # type: ignore[method-assign,assignment]


def write_fragments(
    target: Table | TableLocation,
    rows: Rows,
    *,
    rows_per_file: int = ROWS_PER_FILE,
    bytes_per_file: int = BYTES_PER_FILE,
) -> list[str]:
    """Write rows as fragments, in JSON for `stage_fragments`; works on any machine.

    `target` is the table, or the location where one will be created.
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
    """Write rows as `write_fragments` does, for use in this process.

    The mode is "append" even for rows that replace the whole table: "overwrite" assigns new field
    ids, and after a dropped column the values would be read as null.
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
            # Listed before they are measured, so that every file measured was also listed.
            written = add_blob_files(location, written)
        require_complete_rows(location, written, long_blobs)
        record_rows(location, written, may_have_blobs=long_blobs.bytes > 0)
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
    """Rows, with the size of their blob values once they were read."""

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


def record_rows(
    location: TableLocation, written: Iterable[FragmentMetadata], *, may_have_blobs: bool = True
) -> None:
    """Record the data files of fragments that were just written, with their blob files."""
    folder = location.local_folder
    if folder is None:
        return
    files = [f"data/{file.path}" for one in written for file in one.files if file.base_id is None]
    if may_have_blobs:
        folders = [name.removesuffix(_DATA_SUFFIX) for name in files]
        files += [blob for name in folders for blob in list_files_in(folder, name)]
    record_checksums(folder, files)

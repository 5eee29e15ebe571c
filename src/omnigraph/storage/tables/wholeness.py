"""Looking whether files that were just written are all there.

On a local disk the substrate writes files behind its own back and loses the error of the last
write: on a full disk a file may be cut short while the call succeeds, and committing it would
lose rows. So whatever was written is measured before anything refers to it. Object stores take a
file whole or not at all and are not asked.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
from lance.blob import BlobType
from lance.fragment import FragmentMetadata

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.storage.tables.location import TableLocation

INLINE_BLOB_BYTES = 1 << 16
"""Longer values go to files of their own, whose sizes no metadata records."""

_PLAIN_BITMAP, _RUN_BITMAP = 12346, 12347
_OFFSETS_FROM = 4
_ARRAY_LIMIT, _BITS_BYTES = 4096, 8192


def long_blob_bytes(rows: pa.Table | pa.RecordBatch) -> int:
    """How many bytes of these rows go to blob files."""
    total = 0
    for column in rows.columns:
        if not isinstance(column.type, BlobType):
            continue
        for chunk in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
            lengths = pc.binary_length(pc.struct_field(chunk.storage, 0))
            long = lengths.filter(pc.greater(lengths, INLINE_BLOB_BYTES))
            total += pc.sum(long).as_py() or 0
    return total


def require_whole_rows(
    location: TableLocation, written: Iterable[FragmentMetadata], blob_bytes: int | None = None
) -> None:
    """Raise unless the data files of these fragments are as long as their metadata says.

    Their blob files must hold `blob_bytes` in all, where that is known.
    """
    root = _local_folder(location)
    if root is None:
        return
    found = 0
    for fragment in written:
        for file in fragment.files:
            if file.base_id is not None:
                continue  # it belongs to the parent of this branch
            # `path` of the substrate makes a class at every call.
            place = root / "data" / file._path
            if file.file_size_bytes is not None:
                _require_size(place, file.file_size_bytes)
            found += sum(_size(blob) for blob in _blob_files(place))
    if blob_bytes is not None and found != blob_bytes:
        raise _cut_short(root / "data", f"its new blob files hold {found} bytes", blob_bytes)


def require_whole_deletions(location: TableLocation, changed: Iterable[FragmentMetadata]) -> None:
    """Raise unless the deletion files of these fragments can be read to their end."""
    root = _local_folder(location)
    if root is None:
        return
    for fragment in changed:
        file = fragment.deletion_file
        if file is None or file.base_id is not None:
            continue
        place = root / file.path(fragment.id)
        found = _count_deletions(place)
        if found != file.num_deleted_rows:
            raise _cut_short(place, f"it names {found} rows", file.num_deleted_rows)


def require_whole_indices(location: TableLocation, sizes: Mapping[str, int]) -> None:
    """Raise unless the files of each index segment, by its uuid, have so many bytes in all."""
    root = _local_folder(location)
    if root is None:
        return
    for uuid, expected in sizes.items():
        place = root / "_indices" / uuid
        found = sum(_size(file) for file in place.glob("*") if file.is_file())
        if found != expected:
            raise _cut_short(place, f"its files have {found} bytes", expected)


def _local_folder(location: TableLocation) -> Path | None:
    folder = location.local_folder
    return None if folder is None else Path(folder)


def _blob_files(data_file: Path) -> Iterator[Path]:
    folder = data_file.with_suffix("")
    return folder.glob("*.blob") if folder.is_dir() else iter(())


def _require_size(place: Path, expected: int) -> None:
    size = _size(place)
    if size != expected:
        raise _cut_short(place, f"it has {size} bytes", expected)


def _size(place: Path) -> int:
    try:
        return place.stat().st_size
    except FileNotFoundError:
        return 0


def _count_deletions(place: Path) -> int:
    """How many rows a deletion file names; 0 for one that ends too early."""
    try:
        data = place.read_bytes()
        if place.suffix == ".arrow":
            return int(pa.ipc.open_file(pa.py_buffer(data)).read_all().num_rows)
        return _bitmap_cardinality(data)
    except (OSError, pa.ArrowInvalid, IndexError):
        return 0


def _bitmap_cardinality(data: bytes) -> int:
    """The members of a serialized roaring bitmap that is exactly as long as its header says."""
    cookie = _number(data, 0, 4)
    has_runs = cookie & 0xFFFF == _RUN_BITMAP
    if not has_runs and cookie != _PLAIN_BITMAP:
        return 0
    containers = (cookie >> 16) + 1 if has_runs else _number(data, 4, 4)
    run_bytes = (containers + 7) // 8 if has_runs else 0
    header = 4 + run_bytes if has_runs else 8
    at = header + 4 * containers
    at += 4 * containers if not has_runs or containers >= _OFFSETS_FROM else 0
    members = 0
    for container in range(containers):
        cardinality = _number(data, header + 4 * container + 2, 2) + 1
        members += cardinality
        if has_runs and data[4 + container // 8] >> container % 8 & 1:
            at += 2 + 4 * _number(data, at, 2)
        else:
            at += 2 * cardinality if cardinality <= _ARRAY_LIMIT else _BITS_BYTES
    return members if at == len(data) else 0


def _number(data: bytes, at: int, size: int) -> int:
    if at + size > len(data):
        raise IndexError(at)
    return int.from_bytes(data[at : at + size], "little")


def _cut_short(place: Path, found: str, expected: int) -> StorageFailure:
    return StorageFailure(
        StorageKind.CONFIGURATION,
        f"{place} was cut short while it was written: {found} instead of {expected}; "
        "no space left on the device?",
    )

"""Looking whether files that were just written are all there.

On a local disk the substrate writes files behind its own back and loses the error of the last
write: on a full disk a file may be cut short while the call succeeds, and committing it would
lose rows. So whatever was written is measured before anything refers to it. Object stores take a
file whole or not at all and are not asked.

Every commit passes here, so places are plain text: path objects cost more than looking.
"""

from __future__ import annotations

import os
import struct
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

import pyarrow as pa
from lance.fragment import FragmentMetadata

from omnigraph.errors import ReadSetChanged, StorageFailure, StorageKind
from omnigraph.storage.objects.small_files import read_small_file
from omnigraph.storage.tables.blob_files import LongBlobs, get_blob_files
from omnigraph.storage.tables.checksums import Checksum
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.probes import name_version_file

STAGED_FILES = "staged_files"
"""What changed when cleanup took the files of a slow write. No row did: any write may be redone."""

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
    """Raise unless the data files of these fragments are as long as their metadata says.

    Their blob files must all have been listed and hold `long_blobs`, where these are known.
    """
    if long_blobs is not None and long_blobs.bytes:
        _require_blob_files(location, written, long_blobs.fewest_files)
    root = location.local_folder
    if root is None:
        return
    found, blob_bytes = 0, None if long_blobs is None else long_blobs.bytes
    for fragment in written:
        for file in fragment.files:
            if file.base_id is not None:
                continue  # it belongs to the parent of this branch
            place = f"{root}/data/{file.path}"
            if file.file_size_bytes is not None:
                _require_size(place, file.file_size_bytes)
            found += _measure_blobs(place) if blob_bytes else 0
    if blob_bytes is not None and found != blob_bytes:
        raise _make_truncated_error(
            f"{root}/data", f"its new blob files hold {found} bytes", blob_bytes
        )


def _require_blob_files(
    location: TableLocation, written: Iterable[FragmentMetadata], fewest: int
) -> None:
    """Raise if a blob file was gone before it could be listed."""
    found = sum(len(get_blob_files(fragment)) for fragment in written)
    if found < fewest:
        raise _make_taken(f"{fewest - found} of {fewest} blob files in {location}/data")


def require_complete_deletions(
    location: TableLocation, changed: Iterable[FragmentMetadata]
) -> list[Checksum]:
    """Raise unless the deletion files of these fragments can be read to their end.

    Gives their checksums, since they are read anyway.
    """
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
    """The checksum of the file of a version, if it is whole and holds this very transaction.

    It costs a fraction of opening the version for that. None says nothing: the file may be on an
    object store, or laid out in another way.
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
    """Whether the last part of the file reaches exactly to the footer that says where it starts."""
    footer_at = len(content) - _FOOTER.size
    if footer_at < 0:
        return False
    start, _, _, magic = _FOOTER.unpack_from(content, footer_at)
    if magic != _MAGIC or start >= footer_at:
        return False
    (length,) = _LENGTH.unpack_from(content, start)
    return bool(start + _LENGTH.size + length == footer_at)


def _has_transaction(content: bytes, uuid: str, read_version: int) -> bool:
    """Whether the first part of the file is a transaction of this identity."""
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
        place = f"{root}/_indices/{uuid}"
        found = _measure_folder(place)
        if found != expected:
            raise _make_truncated_error(place, f"its files have {found} bytes", expected)


def _measure_blobs(data_file: str) -> int:
    """The bytes in blob files of a data file, which lie in a folder of its name."""
    return _measure_folder(os.path.splitext(data_file)[0], ".blob")


def _measure_folder(folder: str, suffix: str = "") -> int:
    """The bytes in files of a folder whose names end so; 0 where there is no such folder."""
    with suppress(FileNotFoundError, NotADirectoryError), os.scandir(folder) as entries:
        files = [e for e in entries if e.name.endswith(suffix) and e.is_file()]
        return sum(file.stat().st_size for file in files)
    return 0


def _require_size(place: str, expected: int) -> None:
    try:
        size = os.stat(place).st_size
    except FileNotFoundError as error:
        raise _make_taken(place) from error
    if size != expected:
        raise _make_truncated_error(place, f"it has {size} bytes", expected)


def _make_taken(place: str) -> ReadSetChanged:
    """A whole file that is gone was taken by a cleanup, and the write starts over."""
    return ReadSetChanged(STAGED_FILES, place, None)


def _read_deletions(place: str) -> bytes:
    try:
        return read_small_file(place)
    except FileNotFoundError as error:
        raise _make_taken(place) from error
    except OSError:
        return b""


def _count_deletions(name: str, content: bytes) -> int:
    """How many rows a deletion file names; 0 for one that ends too early."""
    try:
        if not name.endswith(".arrow"):
            return _count_bitmap(content)
        batches = pa.ipc.open_file(pa.py_buffer(content))
        return sum(batches.get_batch(at).num_rows for at in range(batches.num_record_batches))
    except (OSError, pa.ArrowInvalid, IndexError):
        return 0


def _count_bitmap(data: bytes) -> int:
    """The members of a serialized roaring bitmap that is exactly as long as its header says."""
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


def _make_truncated_error(place: str, found: str, expected: int) -> StorageFailure:
    return StorageFailure(
        StorageKind.CONFIGURATION,
        f"{place} was truncated while it was written: {found} instead of {expected}; "
        "no space left on the device?",
        is_disk_full=True,
    )

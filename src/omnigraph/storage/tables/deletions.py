"""Which rows of a fragment are marked as deleted, read from its deletion file.

Asking the substrate would cost a pass over the fragment; the file names the deleted rows alone.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from lance.fragment import FragmentMetadata

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.probes import read_file
from omnigraph.storage.tables.table import Table

Offsets = npt.NDArray[np.uint32]

_PLAIN_BITMAP, _RUN_BITMAP = 12346, 12347
_OFFSETS_FROM = 4
_ARRAY_LIMIT = 4096
_BITS_BYTES = 8192
_MOST_CONTAINERS = 1 << 16


def read_deleted_offsets(table: Table, fragment: FragmentMetadata) -> Offsets:
    """The offsets of the deleted rows of one of the table's fragments, ascending.

    Raises:
        StorageFailure: the file is damaged.
    """
    file = fragment.deletion_file
    if file is None:
        return np.empty(0, np.uint32)
    path = file.path(fragment.id)
    data = read_file(_find_owner(table, file.base_id), path)
    try:
        found = _from_arrow(data) if path.endswith(".arrow") else decode_bitmap(data)
    except (ValueError, IndexError, OSError) as error:
        raise StorageFailure(
            StorageKind.PERMANENT, f"{path} of {table!r} is not a list of deleted rows: {error}"
        ) from error
    if len(found) != file.num_deleted_rows:
        raise StorageFailure(
            StorageKind.PERMANENT,
            f"{path} of {table!r} names {len(found)} rows instead of {file.num_deleted_rows}",
        )
    return found


def _find_owner(table: Table, base_id: int | None) -> TableLocation:
    """The place the file is below: the table itself, or what it was forked from."""
    if base_id is None:
        return table.location
    base = table.native.base_paths()[base_id]
    return TableLocation(base.path, storage_options=table.location.storage_options)


def _from_arrow(data: bytes) -> Offsets:
    rows = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    return np.sort(rows.column(0).to_numpy().astype(np.uint32))


def decode_bitmap(data: bytes) -> Offsets:
    """The members of a roaring bitmap in its portable form, ascending.

    Raises:
        ValueError: the data is not one.
    """
    cookie = int.from_bytes(data[:4], "little")
    has_runs = cookie & 0xFFFF == _RUN_BITMAP
    if not has_runs and cookie != _PLAIN_BITMAP:
        raise ValueError(f"no bitmap starts with {cookie}")
    containers = (cookie >> 16) + 1 if has_runs else int.from_bytes(data[4:8], "little")
    if containers > _MOST_CONTAINERS:
        raise ValueError(f"no bitmap has {containers} containers")
    is_run = np.zeros(containers, np.bool_)
    header = 8
    if has_runs:
        flags = np.frombuffer(data, np.uint8, (containers + 7) // 8, 4)
        is_run = np.unpackbits(flags, bitorder="little")[:containers].astype(np.bool_)
        header = 4 + len(flags)
    keys = np.frombuffer(data, "<u2", 2 * containers, header).reshape(containers, 2)
    at = header + 4 * containers
    at += 4 * containers if not has_runs or containers >= _OFFSETS_FROM else 0
    parts: list[Offsets] = []
    for (high, last), runs in zip(keys.tolist(), is_run.tolist(), strict=True):
        low, at = _decode_container(data, at, last + 1, is_run=runs)
        parts.append(low.astype(np.uint32) | np.uint32(high << 16))
    return np.concatenate(parts) if parts else np.empty(0, np.uint32)


def _decode_container(
    data: bytes, at: int, members: int, *, is_run: bool
) -> tuple[npt.NDArray[np.integer], int]:
    """The lower halves of the members of one container, and where the next one starts."""
    if is_run:
        count = int.from_bytes(data[at : at + 2], "little")
        runs = np.frombuffer(data, "<u2", 2 * count, at + 2).astype(np.int64).reshape(count, 2)
        spans = [np.arange(start, start + length + 1) for start, length in runs.tolist()]
        return np.concatenate(spans), at + 2 + 4 * count
    if members <= _ARRAY_LIMIT:
        return np.frombuffer(data, "<u2", members, at), at + 2 * members
    bits = np.frombuffer(data, np.uint8, _BITS_BYTES, at)
    return np.flatnonzero(np.unpackbits(bits, bitorder="little")), at + _BITS_BYTES

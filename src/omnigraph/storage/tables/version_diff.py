"""Find the rows in which two versions of a table differ, from the fragments they do not share."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.identity import ID_COLUMN
from omnigraph.storage.tables.file_probes import read_file
from omnigraph.storage.tables.lance_errors import translate_errors
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.table import ROW_ADDRESS, ROW_ID, UPDATED_AT, Table
from omnigraph.storage.tables.table_branches import find_common_version
from omnigraph.storage.tables.table_columns import is_blob

Offsets = npt.NDArray[np.uint32]

_PLAIN_BITMAP, _RUN_BITMAP = 12346, 12347
_OFFSETS_FROM = 4
_ARRAY_LIMIT = 4096
_BITS_BYTES = 8192
_MAX_CONTAINERS = 1 << 16


def read_deleted_offsets(table: Table, fragment: FragmentMetadata) -> Offsets:
    """Read the offsets of the deleted rows of a fragment, ascending.

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
    """Return the table whose folder holds a file: this one, or one it was forked from."""
    if base_id is None:
        return table.location
    base = table.native.base_paths()[base_id]
    return TableLocation(base.path, storage_options=table.location.storage_options)


def _from_arrow(data: bytes) -> Offsets:
    rows = pa.ipc.open_file(pa.py_buffer(data)).read_all()
    return np.sort(rows.column(0).to_numpy().astype(np.uint32))


def decode_bitmap(data: bytes) -> Offsets:
    """Decode a roaring bitmap in its portable form, ascending.

    Raises:
        ValueError: the data is no such bitmap.
    """
    cookie = int.from_bytes(data[:4], "little")
    has_runs = cookie & 0xFFFF == _RUN_BITMAP
    if not has_runs and cookie != _PLAIN_BITMAP:
        raise ValueError(f"no bitmap starts with {cookie}")
    containers = (cookie >> 16) + 1 if has_runs else int.from_bytes(data[4:8], "little")
    if containers > _MAX_CONTAINERS:
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


ADDRESSES_PER_READ = 8_192
"""Rows per request; longer lists cost more to plan."""
_DENSE_SHARE = 8
"""A fragment is scanned if at least one in this many of its rows is requested."""
FEW_ROWS = 64
"""Up to this many rows are not checked for moves."""
_MAX_TAKEN_ROWS, _FEW_FRAGMENTS = 16_384, 4
"""Up to this many rows of this few fragments are taken by position, at a tenth of the cost of a
scan."""
_INDEXED_FRAGMENTS = 64
"""The fragments of a table are remembered with it if there are no more than these."""
_OFFSET_BITS = np.uint64(32)
_OFFSET_MASK = np.uint64((1 << 32) - 1)

Addresses = npt.NDArray[np.uint64]
_NONE: Addresses = np.empty(0, np.uint64)


@dataclass(frozen=True, slots=True)
class ChangedKeys:
    """Ids of rows that may differ between two versions of a table, each once, ascending."""

    ids: pa.Array
    before: pa.Array
    """The address of the row in the old version; null where the id is absent there."""
    after: pa.Array
    """The address of the row in the new version; null where the id is absent there."""

    def __len__(self) -> int:
        return len(self.ids)

    def slice(self, start: int, length: int) -> ChangedKeys:
        return ChangedKeys(
            self.ids.slice(start, length),
            self.before.slice(start, length),
            self.after.slice(start, length),
        )

    def filter(self, mask: pa.Array) -> ChangedKeys:
        return ChangedKeys(self.ids.filter(mask), self.before.filter(mask), self.after.filter(mask))


def find_changed_keys(
    before: Table | None, after: Table | None, *, ids_only: bool = False
) -> ChangedKeys:
    """Find the ids whose rows may differ; None is a table without rows.

    Rows listed with both addresses may still be equal: a write may have stored the same values
    again. Rows not listed are equal. Tables that remember rows read them whole, unless `ids_only`
    says that few of them will be read.
    """
    unshared = _find_unshared(before, after)
    gone, come = unshared.gone, unshared.come
    # For a few rows, comparing values is cheaper than finding out which only moved.
    is_worth_it = len(gone) + len(come) > FEW_ROWS
    if before is not None and after is not None and len(gone) and len(come) and is_worth_it:
        gone, come = _drop_moved(before, gone, after, come)
    old, new = np.concatenate([gone, unshared.lost]), np.concatenate([come, unshared.won])
    return _join_keys(
        _read_keys(before, old, ids_only=ids_only), _read_keys(after, new, ids_only=ids_only)
    )


def estimate_changed_rows(before: Table | None, after: Table | None) -> int:
    """Roughly how many rows differ, from metadata alone; those that only moved count too."""
    old, new = _index_by_files(before), _index_by_files(after)
    alone = [old[files] for files in old.keys() - new.keys()]
    alone += [new[files] for files in new.keys() - old.keys()]
    rows = sum(one.physical_rows - one.num_deletions for one in alone)
    shared = ((old[files], new[files]) for files in old.keys() & new.keys())
    return rows + sum(abs(was.num_deletions - now.num_deletions) for was, now in shared)


# --- fragments ------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Unshared:
    """Rows that are not at the same address in both versions."""

    gone: Addresses
    """Of the old version: in fragments that the new one lacks."""
    come: Addresses
    """Of the new version: in fragments that the old one lacks."""
    lost: Addresses
    """Rows of the old version that the new one deleted from a fragment that it still has. None of
    them moved: moving rows removes the whole fragment."""
    won: Addresses
    """Likewise, with the versions exchanged."""


def _find_unshared(before: Table | None, after: Table | None) -> _Unshared:
    old, new = _index_by_files(before), _index_by_files(after)
    gone = _list_live(before, [old[files] for files in old.keys() - new.keys()])
    come = _list_live(after, [new[files] for files in new.keys() - old.keys()])
    lost, won = [_NONE], [_NONE]
    if before is not None and after is not None:
        for files in old.keys() & new.keys():
            if _get_deletion_id(old[files]) == _get_deletion_id(new[files]):
                continue
            was, now = (
                read_deleted_offsets(before, old[files]),
                read_deleted_offsets(after, new[files]),
            )
            lost.append(_compute_addresses(old[files], np.setdiff1d(now, was, assume_unique=True)))
            won.append(_compute_addresses(new[files], np.setdiff1d(was, now, assume_unique=True)))
    return _Unshared(gone, come, np.concatenate(lost), np.concatenate(won))


def _index_by_files(table: Table | None) -> Mapping[tuple[str, ...], FragmentMetadata]:
    """Index the fragments by the names of their data files, which are never reused."""
    if table is None:
        return {}
    owner = table.shared or table
    if owner.fragments_by_files is not None:
        return owner.fragments_by_files
    with translate_errors(f"listing the fragments of {table!r}"):
        found = [fragment.metadata for fragment in table.native.get_fragments()]
    indexed = {tuple(file.path for file in one.files): one for one in found}
    if len(indexed) <= _INDEXED_FRAGMENTS:
        # The version after one commit is the version before the next.
        owner.fragments_by_files = indexed
    return indexed


def _get_deletion_id(fragment: FragmentMetadata) -> tuple[int, int] | None:
    """Return the identity of a deletion file; its number is random."""
    file = fragment.deletion_file
    return None if file is None else (file.read_version, file.id)


def _list_live(table: Table | None, fragments: Sequence[FragmentMetadata]) -> Addresses:
    """The addresses of all rows that the fragments still have."""
    if table is None or not fragments:
        return _NONE
    parts = []
    for fragment in fragments:
        offsets = np.arange(fragment.physical_rows, dtype=np.uint32)
        if fragment.deletion_file is not None:
            offsets = np.delete(offsets, read_deleted_offsets(table, fragment))
        parts.append(_compute_addresses(fragment, offsets))
    return np.concatenate(parts)


def _compute_addresses(fragment: FragmentMetadata, offsets: npt.NDArray[np.uint32]) -> Addresses:
    return offsets.astype(np.uint64) | (np.uint64(fragment.id) << _OFFSET_BITS)


# --- rows that only moved -------------------------------------------------------------------------


def _drop_moved(
    before: Table, old: Addresses, after: Table, new: Addresses
) -> tuple[Addresses, Addresses]:
    """Drop rows that are in both, unchanged since before the histories diverged."""
    common = find_common_version(before, after)
    if not common:
        return old, new
    was, now = _read_stamps(before, old, common), _read_stamps(after, new, common)
    moved = np.intersect1d(was.stamps, now.stamps, assume_unique=True)
    if not len(moved):
        return old, new
    return was.without(moved), now.without(moved)


@dataclass(frozen=True, slots=True)
class _Stamped:
    """Rows with their creation and update versions, which identify a row until it is rewritten."""

    addresses: Addresses
    stamps: npt.NDArray[np.void]
    """Row id and version of the last write, of those rows written in the common history."""
    is_common: npt.NDArray[np.bool_]

    def without(self, moved: npt.NDArray[np.void]) -> Addresses:
        kept = ~self.is_common
        kept[np.flatnonzero(self.is_common)] = ~np.isin(self.stamps, moved, assume_unique=True)
        return self.addresses[kept]


_STAMP = np.dtype([("row", np.uint64), ("version", np.uint64)])


def _read_stamps(table: Table, addresses: Addresses, common: int) -> _Stamped:
    read = _read(table, addresses, [ROW_ID, UPDATED_AT])
    versions = read.column(UPDATED_AT).to_numpy()
    is_common = versions <= common
    stamps = np.empty(int(is_common.sum()), _STAMP)
    stamps["row"] = read.column(ROW_ID).to_numpy()[is_common]
    stamps["version"] = versions[is_common]
    return _Stamped(read.column(ROW_ADDRESS).to_numpy(), stamps, is_common)


# --- rows -----------------------------------------------------------------------------------------


def read_rows_at_addresses(
    table: Table,
    addresses: pa.Array,
    columns: Sequence[str],
    *,
    batch_rows: int = ADDRESSES_PER_READ,
    blob_bytes: bool = False,
) -> Iterator[pa.Table]:
    """Read the rows at these addresses of this version in order, in batches.

    Blob columns are returned as descriptors unless `blob_bytes` is set. Every address must be of an
    existing row. At least one table is returned, for its columns.
    """
    absent = table.widening.values if table.widening else {}
    names = list(dict.fromkeys([*(c for c in columns if c not in absent), ROW_ADDRESS]))
    for start in range(0, max(len(addresses), 1), batch_rows):
        wanted = addresses.slice(start, batch_rows)
        found = _recall(table, wanted.to_numpy(), names)
        if found is None:
            found = _take_rows(table, wanted.to_numpy(), names)
            if found is None:
                given = {"filter": _render_addresses(wanted)} if len(wanted) else {"limit": 0}
                found = table.scan(names, **given, blob_bytes=blob_bytes)
            positions = pc.index_in(wanted, value_set=found.column(ROW_ADDRESS).combine_chunks())
            assert not positions.null_count, f"{positions.null_count} rows are not in {table!r}"
            found = found.take(positions)
        yield _widen_rows(table, found, columns, blob_bytes=blob_bytes)


def find_unmoved(before: Table, after: Table, addresses: pa.Array) -> npt.NDArray[np.bool_]:
    """Mask the rows that both versions have at one address, unless one deleted them."""
    old, new = _index_by_files(before), _index_by_files(after)
    shared = [old[f].id for f in old.keys() & new.keys() if old[f].id == new[f].id]
    found: npt.NDArray[np.bool_] = np.isin(addresses.to_numpy() >> _OFFSET_BITS, shared)
    return found


def _recall(table: Table, addresses: Addresses, names: list[str]) -> pa.Table | None:
    """The rows in that order, if all of them were read with these columns just before."""
    for kept in table.cached_rows:
        found = kept.find(addresses, names)
        if found is not None:
            return found
    return None


def _take_rows(table: Table, addresses: Addresses, names: list[str]) -> pa.Table | None:
    """Take rows by position, in any order; None if that is not possible.

    Neither blob columns nor system columns can be read this way.
    """
    if len(addresses) > _MAX_TAKEN_ROWS:
        return None
    own = [name for name in names if name != ROW_ADDRESS]
    fields = [table.schema.field(name) for name in own if name in table.schema.names]
    if not own or len(fields) < len(own) or any(map(is_blob, fields)):
        return None
    if not len(addresses):
        return pa.schema([*fields, pa.field(ROW_ADDRESS, pa.uint64())]).empty_table().select(names)
    wanted = np.sort(addresses)
    owners = wanted >> _OFFSET_BITS
    fragments = np.unique(owners)
    if len(fragments) > _FEW_FRAGMENTS:
        return None
    parts = [_take(table, int(one), wanted[owners == one], own) for one in fragments]
    found = pa.concat_tables(parts)
    table.cache_rows(wanted, found)
    return found.select(names)


def _take(table: Table, fragment: int, addresses: Addresses, names: Sequence[str]) -> pa.Table:
    """Take rows of one fragment, by position among those that are not deleted."""
    offsets = (addresses & _OFFSET_MASK).astype(np.uint32)
    metadata = table.fragment_metadata(fragment)
    deleted = read_deleted_offsets(table, metadata)
    assert not np.isin(offsets, deleted).any(), f"rows of fragment {fragment} are not in {table!r}"
    ranks = offsets - np.searchsorted(deleted, offsets)
    taken = table.take_ranks(fragment, ranks.tolist(), names)
    return taken.append_column(ROW_ADDRESS, pa.array(addresses))


def _widen_rows(
    table: Table, rows: pa.Table, columns: Sequence[str], *, blob_bytes: bool
) -> pa.Table:
    """Project rows to these columns; those the table lacks are filled in."""
    if table.widening is not None:
        absent = [name for name in columns if name in table.widening.values]
        like = table.widening.like.scan(absent, limit=0, blob_bytes=blob_bytes).schema
        for name in absent:
            value = pa.scalar(table.widening.values[name], like.field(name).type)
            rows = rows.append_column(like.field(name), pa.repeat(value, rows.num_rows))
    return rows.select(list(columns))


def _render_addresses(addresses: pa.Array) -> str:
    return f"{ROW_ADDRESS} IN ({','.join(map(str, addresses.to_pylist()))})"


def _read(table: Table, addresses: Addresses, columns: Sequence[str]) -> pa.Table:
    """Read a few columns of all these rows with their addresses, in no particular order.

    Fragments of which most rows are requested are scanned.
    """
    names = [*columns, ROW_ADDRESS]
    taken = _take_rows(table, addresses, names)
    if taken is not None:
        return taken
    owners = (addresses >> _OFFSET_BITS).astype(np.int64)
    fragments, counts = np.unique(owners, return_counts=True)
    sizes = table.fragment_sizes()
    dense = [
        int(fragment)
        for fragment, count in zip(fragments, counts, strict=True)
        if count * _DENSE_SHARE >= sizes[int(fragment)]
    ]
    in_dense = np.isin(owners, dense)
    parts = []
    if dense:
        scanned = table.scan(names, fragments=dense)
        wanted = np.isin(scanned.column(ROW_ADDRESS).to_numpy(), addresses[in_dense])
        parts.append(scanned.filter(pa.array(wanted)))
    if not in_dense.all() or not parts:
        parts.extend(read_rows_at_addresses(table, pa.array(addresses[~in_dense]), names))
    return pa.concat_tables(parts)


@dataclass(frozen=True, slots=True)
class _Keyed:
    """Ids of rows, and where the rows are."""

    ids: pa.Array
    addresses: pa.Array


def _read_keys(table: Table | None, addresses: Addresses, *, ids_only: bool) -> _Keyed:
    if table is None or not len(addresses):
        return _Keyed(pa.array([], pa.string()), pa.array([], pa.uint64()))
    read = None if ids_only else _read_whole(table, addresses)
    if read is None:
        read = _read(table, addresses, [ID_COLUMN])
    ids, positions = (
        read.column(ID_COLUMN).combine_chunks(),
        read.column(ROW_ADDRESS).combine_chunks(),
    )
    return _Keyed(ids, positions)


def _read_whole(table: Table, addresses: Addresses) -> pa.Table | None:
    """Read whole rows, so that comparing them need not read them again.

    None if they may be too large or too many to keep.
    """
    absent = table.widening.values if table.widening else {}
    fields = [field for field in table.schema if field.name not in absent]
    is_bulky = any(is_blob(f) or pa.types.is_fixed_size_list(f.type) for f in fields)
    if is_bulky or len(addresses) > table.max_cached_rows:
        return None
    names = [*(field.name for field in fields), ROW_ADDRESS]
    found = _recall(table, addresses, names)
    if found is None:
        found = _take_rows(table, addresses, names)
    if found is None:
        found = _read(table, addresses, names[:-1])
        order = np.argsort(found.column(ROW_ADDRESS).to_numpy())
        table.cache_rows(np.sort(addresses), found.take(pa.array(order)))
    return found


def _join_keys(old: _Keyed, new: _Keyed) -> ChangedKeys:
    ids = pc.unique(pa.concat_arrays([old.ids, new.ids]))
    ids = ids.take(pc.sort_indices(ids))
    return ChangedKeys(ids, _find_addresses(old, ids), _find_addresses(new, ids))


def _find_addresses(side: _Keyed, ids: pa.Array) -> pa.Array:
    """The address of each id on one side, null where it is not there."""
    return side.addresses.take(pc.index_in(ids, value_set=side.ids))

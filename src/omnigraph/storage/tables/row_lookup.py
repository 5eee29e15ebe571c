"""Look rows up by id or key: filters, the row directory of small fragments, and cached rows."""

from __future__ import annotations

import math
import threading
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime
from functools import lru_cache
from typing import Protocol, TypeAlias

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
from lance.fragment import FragmentMetadata, RowIdSequence

from omnigraph.identity import ID_COLUMN

Literal: TypeAlias = str | bool | int | float | date | datetime | None


def quote_identifier(name: str) -> str:
    """Quote a column name."""
    assert "`" not in name, f"a column name cannot contain a backtick: {name!r}"
    return f"`{name}`"


def quote_literal(value: Literal) -> str:
    """Format a value as a literal of a filter; within a string only the single quote is special."""
    match value:
        case None:
            return "NULL"
        case bool():
            return "TRUE" if value else "FALSE"
        case str():
            return "'" + value.replace("'", "''") + "'"
        case datetime():
            return f"TIMESTAMP '{value.isoformat(sep=' ')}'"
        case date():
            return f"DATE '{value.isoformat()}'"
        case float() if not math.isfinite(value):
            return f"CAST('{value}' AS DOUBLE)"
        case _:
            return repr(value)


def build_in_list(column: str, keys: pa.Array | pa.ChunkedArray) -> str:
    """Build the condition that a column is one of these strings or integers."""
    if not len(keys):
        return "FALSE"
    return f"{quote_identifier(column)} IN ({', '.join(map(quote_literal, keys.to_pylist()))})"


def can_be_listed(kind: pa.DataType) -> bool:
    """Return whether `build_in_list` can write values of this type."""
    return bool(pa.types.is_string(kind) or pa.types.is_integer(kind))


_KEYS_PER_LIST = 5_000
"""Longer lists cost more to plan than the index saves."""
_LIST_SHARE = 0.01
"""Above this share of the rows, one scan of the key column beats the index."""
_FEW_KEYS = 10
"""Up to this many keys are listed, whatever the size of the table."""
_ROWS_PER_SLAB = 1 << 20
_ROWS_PER_KEY = 8
"""Rows per key from which a hash table of the keys pays off."""


def are_few_keys(keys: int, rows: int) -> bool:
    """Return whether this many keys are found faster by lists than by a scan of this many rows."""
    return keys <= max(_FEW_KEYS, int(rows * _LIST_SHARE))


def build_key_filters(column: str, keys: pa.Array) -> list[str]:
    """Build filters that together select the rows with these keys; at least one."""
    starts = range(0, max(len(keys), 1), _KEYS_PER_LIST)
    return [build_in_list(column, keys.slice(start, _KEYS_PER_LIST)) for start in starts]


def drop_duplicate_keys(keys: pa.Array | pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    """Return the distinct keys, in the type of the column and without nulls."""
    if len(keys) == 1 and keys.type == kind and not keys.null_count:
        # The case of a small write; each step below would cost more than the lookup.
        return keys.combine_chunks() if isinstance(keys, pa.ChunkedArray) else keys
    return pc.unique(keys.cast(kind)).drop_null()


def select_keys(rows: pa.Table, column: str, keys: pa.Array) -> pa.Table:
    """Select the rows whose `column` is one of `keys`."""
    if not pa.types.is_string(keys.type):
        return rows.filter(pc.is_in(rows.column(column), value_set=keys))
    # A second hash table, five times as fast for texts.
    return rows.join(pa.table({column: keys}), column, join_type="left semi", use_threads=False)


def split_slabs(batches: Iterator[pa.RecordBatch], *, keys: int) -> Iterator[pa.Table]:
    """Yield the batches as tables of a million rows, or up to four million for many keys.

    Each lookup of keys builds a hash table of them, which is too slow for every batch.
    """
    wanted = max(_ROWS_PER_SLAB, min(_ROWS_PER_KEY * keys, 4 * _ROWS_PER_SLAB))
    waiting: list[pa.RecordBatch] = []
    rows = 0
    for batch in batches:
        waiting.append(batch)
        rows += batch.num_rows
        if rows >= wanted:
            yield pa.Table.from_batches(waiting)
            waiting, rows = [], 0
    if waiting:
        yield pa.Table.from_batches(waiting)


@dataclass(frozen=True, slots=True)
class CachedRows:
    """Rows of one version, ascending by address."""

    addresses: npt.NDArray[np.uint64]
    rows: pa.Table

    def find(self, wanted: npt.NDArray[np.uint64], names: Sequence[str]) -> pa.Table | None:
        """Return some of the rows, in order; None unless all are cached with these columns."""
        if not len(wanted) or not set(names) <= set(self.rows.column_names):
            return None
        if np.array_equal(wanted, self.addresses):
            return self.rows.select(names)
        locations = np.searchsorted(self.addresses, wanted)
        if locations.max() >= len(self.addresses) or (self.addresses[locations] != wanted).any():
            return None
        return self.rows.select(names).take(pa.array(locations))


MAX_LOOKUP_KEYS = 1_000
"""A lookup of more keys than this is no small write, and scans."""
SMALL_FRAGMENT_ROWS = 4_096
MAX_DIRECTORY_ROWS = 50_000
"""Rows remembered per table: some fifteen megabytes."""

FEW_FRAGMENTS = 4
"""Rows of up to this many fragments are taken by position, of more by one scan."""

_ROW_ID, _ROW_ADDRESS = "_rowid", "_rowaddr"
_NUMBERS = {name: pa.field(name, pa.uint64()) for name in (_ROW_ID, _ROW_ADDRESS)}
_KNOWN_COLUMNS = frozenset({ID_COLUMN, *_NUMBERS})
_OFFSET_BITS = 32
_OFFSET_MASK = (1 << _OFFSET_BITS) - 1


class ReadTable(Protocol):
    """The part of a table that a directory uses; the table module imports this one."""

    version: int

    @property
    def schema(self) -> pa.Schema: ...
    def fragment_sizes(self) -> Mapping[int, int]: ...
    def fragment_ids(self) -> Collection[int]: ...
    def newest_fragment(self) -> FragmentMetadata | None: ...
    def take_ranks(
        self, fragment: int, ranks: Sequence[int], columns: Sequence[str]
    ) -> pa.Table: ...
    def scan(
        self,
        columns: Sequence[str] | None = None,
        filter: str | None = None,
        *,
        limit: int | None = None,
        fragments: Sequence[int] | None = None,
    ) -> pa.Table: ...


class SmallChange(Protocol):
    """The interface it needs of a transaction: its base version, keys added and removed."""

    @property
    def read_version(self) -> int: ...
    @property
    def added_keys(self) -> pa.Array | None: ...
    @property
    def removed_keys(self) -> pa.Array | None: ...


@dataclass(frozen=True, slots=True)
class RowLocation:
    """The stable id of a row, and its fragment and offset."""

    row_id: int
    address: int

    @property
    def fragment(self) -> int:
        return self.address >> _OFFSET_BITS

    @property
    def offset(self) -> int:
        return self.address & _OFFSET_MASK


@dataclass(frozen=True, slots=True)
class _Hits:
    """The requested rows found, and the fragments that may have the others."""

    locations: Mapping[str, RowLocation]
    ranks: Mapping[int, Sequence[int]]
    """The rows found by fragment, as positions among its rows that are not deleted."""
    large: tuple[int, ...]


class RowDirectory:
    """Find rows of the newest version of a table by id; safe to share between threads.

    It covers one version at a time; tables of other versions look rows up themselves.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._version: int | None = None
        self._locations: dict[str, RowLocation] = {}
        self._offsets: dict[int, list[int]] = {}
        """The offsets of the rows each small fragment still has, in order."""
        self._large: tuple[int, ...] = ()

    def find(self, table: ReadTable, keys: pa.Array, columns: list[str]) -> pa.Table | None:
        """The rows with these ids; None where the table must look for itself."""
        if len(keys) > MAX_LOOKUP_KEYS:
            return None
        wanted = keys.to_pylist()
        hits = self._locate(table, wanted)
        if hits is None:
            return None
        parts = [_read_rows(table, keys, hits, columns)]
        if hits.large and len(hits.locations) < len(wanted):
            rest = pa.array([key for key in wanted if key not in hits.locations], keys.type)
            parts.append(table.scan(columns, build_in_list(ID_COLUMN, rest), fragments=hits.large))
        return pa.concat_tables(parts)

    def _locate(self, table: ReadTable, wanted: list[str]) -> _Hits | None:
        with self._lock:
            if self._version is None or self._version < table.version:
                self._read(table)
            if self._version != table.version:
                return None
            if not self._locations:
                return None
            locations = {key: self._locations[key] for key in wanted if key in self._locations}
            return _Hits(locations, self._rank_locations(locations.values()), self._large)

    def _rank_locations(self, locations: Iterable[RowLocation]) -> Mapping[int, Sequence[int]]:
        ranks: defaultdict[int, list[int]] = defaultdict(list)
        for location in locations:
            offsets = self._offsets[location.fragment]
            ranks[location.fragment].append(bisect_left(offsets, location.offset))
        return ranks

    def _read(self, table: ReadTable) -> None:
        """Read a version of the table, and forget the one before."""
        small: list[int] = []
        large: list[int] = []
        rows = 0
        for id, size in table.fragment_sizes().items():
            if size <= SMALL_FRAGMENT_ROWS and rows + size <= MAX_DIRECTORY_ROWS:
                small.append(id)
                rows += size
            else:
                large.append(id)
        read = table.scan([ID_COLUMN, _ROW_ID, _ROW_ADDRESS], fragments=small) if small else None
        self._locations = {} if read is None else _find_locations(read)
        self._offsets = _compute_offsets(self._locations.values())
        self._large, self._version = tuple(large), table.version

    def follow(self, staged: SmallChange, committed: ReadTable) -> None:
        """Apply a small commit of this process, or else forget the version."""
        with self._lock:
            added, removed = staged.added_keys, staged.removed_keys
            known, self._version = self._version, None  # stays unset if the rest fails
            if known != staged.read_version or added is None or removed is None:
                return
            locations = _find_newest_locations(committed, added) if len(added) else {}
            if locations is None:
                return
            for key in removed.to_pylist():
                self._remove(key)
            self._locations.update(locations)
            self._offsets.update(_compute_offsets(locations.values()))
            left = committed.fragment_ids()
            self._large = tuple(id for id in self._large if id in left)
            is_full = len(self._locations) > MAX_DIRECTORY_ROWS
            self._version = None if is_full else committed.version

    def _remove(self, key: str) -> None:
        location = self._locations.pop(key, None)
        if location is not None:
            offsets = self._offsets[location.fragment]
            del offsets[bisect_left(offsets, location.offset)]
            if not offsets:
                del self._offsets[location.fragment]


def _read_rows(table: ReadTable, keys: pa.Array, hits: _Hits, columns: list[str]) -> pa.Table:
    locations = hits.locations
    if _KNOWN_COLUMNS.issuperset(columns):
        empty = _make_empty(tuple(columns), table.schema.field(ID_COLUMN))
        if not locations:
            return empty
        return pa.table(
            [_get_known_column(locations, field) for field in empty.schema], schema=empty.schema
        )
    if not locations:
        return table.scan(columns, limit=0)
    taken = _take_rows(table, hits, columns) if len(hits.ranks) <= FEW_FRAGMENTS else None
    if taken is not None:
        return taken
    wanted = pa.array(list(locations), keys.type)
    return table.scan(columns, build_in_list(ID_COLUMN, wanted), fragments=sorted(hits.ranks))


@lru_cache(maxsize=64)  # every insert looks its key up in vain
def _make_empty(columns: tuple[str, ...], id: pa.Field) -> pa.Table:
    return pa.schema([_NUMBERS.get(name, id) for name in columns]).empty_table()


def _get_known_column(locations: Mapping[str, RowLocation], field: pa.Field) -> pa.Array:
    if field.name == _ROW_ID:
        return pa.array([location.row_id for location in locations.values()], field.type)
    if field.name == _ROW_ADDRESS:
        return pa.array([location.address for location in locations.values()], field.type)
    return pa.array(list(locations), field.type)


def _take_rows(table: ReadTable, hits: _Hits, columns: list[str]) -> pa.Table | None:
    """Take rows by position, at a quarter of the cost of a scan; None if they changed."""
    if _ROW_ID in columns or _ROW_ADDRESS in columns:
        return None
    names = columns if ID_COLUMN in columns else [*columns, ID_COLUMN]
    parts = [
        table.take_ranks(fragment, sorted(ranks), names) for fragment, ranks in hits.ranks.items()
    ]
    taken = pa.concat_tables(parts)
    # Positions are computed, not stored: the ids of the rows confirm them.
    if set(taken.column(ID_COLUMN).to_pylist()) != hits.locations.keys():
        return None
    return taken.select(columns)


def _compute_offsets(locations: Iterable[RowLocation]) -> dict[int, list[int]]:
    """The offsets of rows by fragment, in order."""
    offsets: defaultdict[int, list[int]] = defaultdict(list)
    for location in locations:
        offsets[location.fragment].append(location.offset)
    for one in offsets.values():
        one.sort()
    return dict(offsets)


def _find_locations(rows: pa.Table) -> dict[str, RowLocation]:
    columns = (rows.column(name).to_pylist() for name in (ID_COLUMN, _ROW_ID, _ROW_ADDRESS))
    return {key: RowLocation(id, address) for key, id, address in zip(*columns, strict=True)}


def _find_newest_locations(table: ReadTable, keys: pa.Array) -> Mapping[str, RowLocation] | None:
    """Return the locations of rows just committed, which are in the newest fragment in this order.

    None if they are in several fragments, as a few very large rows may be.
    """
    newest = table.newest_fragment()
    assert newest is not None, "rows were added"
    if newest.physical_rows != len(keys):
        return None
    assert newest.row_id_meta is not None, "every row has a stable id"
    row_ids = RowIdSequence.from_inline_metadata(newest.row_id_meta)
    base = newest.id << _OFFSET_BITS
    return {
        key: RowLocation(int(row_id), base + offset)
        for offset, (key, row_id) in enumerate(zip(keys.to_pylist(), row_ids, strict=True))
    }

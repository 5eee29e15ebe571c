"""Read one table of a snapshot under the current schema, through the cache of warm reads."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Protocol, TypeVar

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cache import Cache
from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import BadRequest, ManifestCorrupt, TypeNotFound
from omnigraph.execution.read.code_arrays import Longs, combine_chunks, to_longs
from omnigraph.execution.search.search_cache import SearchCache
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import (
    ROW_ID,
    Table,
    TableLocation,
    are_few_keys,
    build_key_filters,
    open_table,
)
from omnigraph.types.arrow import BLOB, get_property_id, to_arrow_type

DEFAULT_LIMIT_BYTES = 1 << 30
_OPEN_TABLES = 512
_REMEMBERED_COSTS = 4096
_LARGEST_SHARE = 4
"""A larger share of the cache would evict everything else."""


class Cached(Protocol):
    @property
    def nbytes(self) -> int: ...


CachedT = TypeVar("CachedT", bound=Cached)
Key = tuple[Hashable, ...]


class Topology:
    """Cache shared by the reads of one graph handle; safe to share between threads."""

    def __init__(
        self, limit_bytes: int = DEFAULT_LIMIT_BYTES, search: SearchCache | None = None
    ) -> None:
        self.search = SearchCache() if search is None else search
        self._entries: Cache[Key, Cached] = Cache(
            limit_bytes, lambda entry: entry.nbytes, largest=limit_bytes // _LARGEST_SHARE
        )
        self._tables: Cache[tuple[TableLocation, int], Table] = Cache(_OPEN_TABLES)
        self._spent: Cache[Key, float] = Cache(_REMEMBERED_COSTS)

    @property
    def size_bytes(self) -> int:
        return self._entries.size

    @property
    def largest_entry_bytes(self) -> int:
        """The size above which values are not cached."""
        return self._entries.largest

    def holds(self, key: Key) -> bool:
        return self._entries.holds(key)

    def find(self, key: Key) -> Cached | None:
        return self._entries.find(key)

    def get(self, key: Key, build: Callable[[], CachedT]) -> CachedT:
        """Return the entry of a key, built if it is missing.

        A key always has a value of the same type.
        """
        return self._entries.value(key, build)  # type: ignore[return-value]  # the key fixes it

    def table(self, location: TableLocation, version: int) -> Table:
        """The table at this version, opened once."""
        return self._tables.value((location, version), partial(open_table, location, version))

    def find_spent(self, key: Key) -> float:
        """Return the cost spent so far on a missing entry, in the unit of the caller."""
        return self._spent.find(key) or 0.0

    def spend(self, key: Key, cost: float) -> None:
        self._spent.keep(key, self.find_spent(key) + cost)

    def clear(self) -> None:
        for cache in (self._entries, self._tables, self._spent):
            cache.clear()
        self.search.clear()


ID, SRC, DST = "id", "src", "dst"
_SYSTEM = frozenset({ID, SRC, DST})

_SCANNED_ROWS = 262_144


@dataclass(frozen=True)
class Reader:
    """Reads one table version.

    Columns are found by stable property id, across renames. A property that did not exist yet reads
    as NULL.
    """

    table: Table
    type_: NodeType | EdgeType
    row_count: int

    @cached_property
    def key(self) -> Key:
        """Return the cache key of the physical table version."""
        return (*self.table.location.cache_key, self.table.version)

    @cached_property
    def _stored(self) -> dict[str, pa.Field]:
        """The stored column of every property that has one."""
        schema = self.table.schema
        by_property = {get_property_id(field): field for field in schema}
        by_property.pop(None, None)
        found = {p.name: by_property[p.id] for p in self.type_.properties if p.id in by_property}
        return found | {name: schema.field(name) for name in _SYSTEM if name in schema.names}

    def get_stored_field(self, name: str) -> pa.Field | None:
        """Return the column of a property; None if this version has none."""
        found = self._stored.get(name)
        if found is None and name in _SYSTEM:
            raise ManifestCorrupt(f"{self.table!r} has no column {name}")
        if found is None and not self._is_nullable(name):
            raise BadRequest(
                f"{self.type_.name}.{name} does not exist at this snapshot and is never NULL"
            )
        return found

    def _is_nullable(self, name: str) -> bool:
        property_ = self.type_.property(name)
        assert property_ is not None, f"{self.type_.name} has no property {name}"
        return property_.type.nullable

    def arrow_type(self, name: str) -> pa.DataType:
        if name in _SYSTEM:
            return pa.string()
        property_ = self.type_.property(name)
        assert property_ is not None, f"{self.type_.name} has no property {name}"
        return to_arrow_type(property_.type)

    @cached_property
    def bytes_per_row(self) -> float:
        """Return the width in bytes of a stored row, over all columns."""
        fragments = self.table.fragments()
        stored = sum(fragment.physical_rows for fragment in fragments)
        return sum(f.size_bytes or 0 for f in fragments) / max(1, stored)

    def read(self, names: Sequence[str], filter: str | None = None) -> FoundRows:
        """The rows that pass a filter, with their row ids."""
        if not self.row_count or filter == "FALSE":
            return self.nothing(names)
        columns = self._read_columns(names)
        return self._shape_rows(self.table.scan(columns, filter, with_row_id=True), names)

    def batches(self, names: Sequence[str], filter: str | None = None) -> Iterator[FoundRows]:
        """Yield the rows a piece at a time, in stored order."""
        if not self.row_count or filter == "FALSE":
            return
        found = self.table.batches(
            self._read_columns(names), filter, with_row_id=True, batch_size=_SCANNED_ROWS
        )
        for batch in found:
            yield self._shape_rows(pa.Table.from_batches([batch]), names)

    def take(self, row_ids: Longs, names: Sequence[str]) -> FoundRows:
        """The rows with these row ids, in that order; every one must be there."""
        if not len(row_ids):
            return self.nothing(names)
        wanted = [*self._read_columns(names), ROW_ID]
        found = self.table.take_row_ids(pa.array(row_ids, pa.uint64()), wanted)
        assert found.num_rows == len(row_ids), "a row of a pinned version is missing"
        return self._shape_rows(found, names)

    def count(self, filter: str | None) -> int:
        if filter is None or not self.row_count:
            return self.row_count
        return self.table.count_rows(filter)

    def find(
        self, column: str, keys: pa.Array, names: Sequence[str], filter: str | None = None
    ) -> FoundRows:
        """Find the rows with one of these keys in a column of ids, unordered.

        Few keys use the index in lists; for many, one scan is cheaper.
        """
        if not self.row_count or not len(keys) or filter == "FALSE":
            return self.nothing(names)
        if are_few_keys(len(keys), self.row_count):
            filters = build_key_filters(column, keys)
            return concatenate_rows(
                [self.read(names, _combine_filters(one, filter)) for one in filters]
            )
        read = [*names, column] if column not in names else list(names)
        parts_found = [
            part.filter(pc.is_in(part.column(column), value_set=keys))
            for part in self.batches(read, filter)
        ]
        return concatenate_rows(parts_found) if parts_found else self.nothing(names)

    def _read_columns(self, names: Sequence[str]) -> list[str]:
        stored = (self.get_stored_field(name) for name in names)
        return sorted({field.name for field in stored if field is not None})

    def _shape_rows(self, rows: pa.Table, names: Sequence[str]) -> FoundRows:
        columns = {name: self._convert_column(rows, name) for name in names}
        return FoundRows(rows.num_rows, to_longs(rows.column(ROW_ID)), columns)

    def _convert_column(self, rows: pa.Table, name: str) -> pa.Array:
        field, wanted = self.get_stored_field(name), self.arrow_type(name)
        if field is None:
            return pa.nulls(rows.num_rows, wanted)
        found = combine_chunks(rows.column(field.name))
        if wanted == BLOB:
            return _read_presence(found)
        return found if found.type == wanted else self._cast(found, name, wanted)

    def _cast(self, found: pa.Array, name: str, wanted: pa.DataType) -> pa.Array:
        try:
            return found.cast(wanted)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise ManifestCorrupt(
                f"{self.table!r} holds {self.type_.name}.{name} as {found.type}, not as {wanted}"
            ) from error

    def nothing(self, names: Sequence[str]) -> FoundRows:
        columns = {name: pa.array([], self.arrow_type(name)) for name in names}
        return FoundRows(0, to_longs(pa.array([], pa.int64())), columns)


def _read_presence(descriptors: pa.Array) -> pa.Array:
    """Blobs without their bytes: a query can only test for their presence."""
    parts = [pa.nulls(len(descriptors), field.type) for field in BLOB]
    return pa.StructArray.from_arrays(parts, fields=list(BLOB), mask=pc.is_null(descriptors))


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Rows of a table: their row ids and the requested columns."""

    size: int
    row_ids: Longs
    columns: dict[str, pa.Array]

    def column(self, name: str) -> pa.Array:
        return self.columns[name]

    def filter(self, mask: pa.Array) -> FoundRows:
        return self.take(pc.indices_nonzero(mask.fill_null(False)))

    def take(self, positions: pa.Array) -> FoundRows:
        columns = {name: values.take(positions) for name, values in self.columns.items()}
        return FoundRows(len(positions), self.row_ids[to_longs(positions)], columns)


def concatenate_rows(parts: Sequence[FoundRows]) -> FoundRows:
    """Concatenate rows; there is at least one part."""
    if len(parts) == 1:
        return parts[0]
    names = parts[0].columns
    columns = {name: pa.concat_arrays([p.column(name) for p in parts]) for name in names}
    row_ids = to_longs(pa.concat_arrays([pa.array(p.row_ids, pa.int64()) for p in parts]))
    return FoundRows(len(row_ids), row_ids, columns)


def gather_batches(batches: Iterable[FoundRows], rows: int) -> Iterator[list[FoundRows]]:
    """Batches gathered until they have about this many rows."""
    waiting: list[FoundRows] = []
    for batch in batches:
        waiting.append(batch)
        if sum(part.size for part in waiting) >= rows:
            yield waiting
            waiting = []
    if waiting:
        yield waiting


def _combine_filters(one: str, other: str | None) -> str:
    return one if other is None else f"({one}) AND ({other})"


class SnapshotTables:
    """The tables of one snapshot, opened on first use."""

    def __init__(self, snapshot: Snapshot, catalog: Catalog, topology: Topology) -> None:
        self._snapshot, self._catalog, self._topology = snapshot, catalog, topology
        self._readers: dict[str, Reader] = {}

    def node(self, type_name: str) -> Reader:
        return self._open_reader(self._catalog.nodes[type_name])

    def edge(self, type_name: str) -> Reader:
        return self._open_reader(self._catalog.edges[type_name])

    def _open_reader(self, type_: NodeType | EdgeType) -> Reader:
        found = self._readers.get(type_.table_key)
        if found is None:
            found = self._open(type_)
            self._readers[type_.table_key] = found
        return found

    def _open(self, type_: NodeType | EdgeType) -> Reader:
        """Open the table of a type by identity, whatever its name at the snapshot."""
        entry = self._snapshot.state.by_identity.get(type_.identity)
        if entry is None:
            key = type_.table_key
            raise TypeNotFound(key, f"{key} does not exist at this snapshot")
        location = self._snapshot.location(entry)
        return Reader(self._topology.table(location, entry.version), type_, entry.row_count)

"""Entities a variable ranges over: entity codes to ids, types and property values."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.read.adjacency import NodeCodes, RowCodes, TableCodes
from omnigraph.execution.read.code_arrays import (
    MISSING,
    Codes,
    Flags,
    Longs,
    encode_values,
    find_distinct,
    find_positions,
    take,
)
from omnigraph.execution.read.table_reader import ID, FoundRows, Key, Reader, Topology

_SHARE_FOR_WHOLE = 20
"""Reading a whole column is cheaper than fetching a larger share of its rows."""
_FEW_ROWS = 256
"""Up to this many rows are fetched by row id, at any size of the table."""
_PER_FETCH = 1_000
"""Fixed cost of a fetch, as a number of rows of a whole column."""
_NARROW_BYTES = 64
"""Wider columns are cached only if many rows are requested at once."""

Columns = dict[str, pa.Array]


class OneType:
    """Common behaviour of entities of a single type."""

    def __init__(self, reader: Reader, *, is_ordered: bool) -> None:
        self.reader = reader
        self.is_ordered = is_ordered
        """Return whether codes follow the order of ids."""

    @property
    def size(self) -> int:
        raise AssertionError("a subclass defines it")

    def columns(self, names: Sequence[str], codes: Codes) -> Columns:
        """The values of some columns at the codes, none of which may be missing."""
        raise AssertionError(f"a subclass reads {names} at {codes}")

    @property
    def types(self) -> tuple[str, ...]:
        return (self.reader.type_.name,)

    def kinds(self, codes: Codes) -> Codes:
        """Return the index in `types` of each entity's type."""
        return np.zeros(len(codes), dtype=np.int32)

    def are_of(self, codes: Codes, type_name: str) -> Flags:
        """Mask the entities of that type."""
        return np.full(len(codes), type_name in self.types)

    def order_codes(self, codes: Codes) -> Longs:
        """Cheap sort keys that do not depend on how the entities were found."""
        if self.is_ordered or not self.size:
            return codes.astype(np.int64)
        return np.where(codes >= 0, self.row_ids[codes], MISSING)

    @property
    def row_ids(self) -> Longs:
        """The row id of every entity."""
        raise AssertionError("a subclass defines it")

    @cached_property
    def ids(self) -> pa.Array:
        return self.columns([ID], np.arange(self.size, dtype=np.int32))[ID]

    @cached_property
    def rank(self) -> Longs | None:
        """The position of each id among all ids, equal for equal ids; None if it is the code."""
        return None if self.is_ordered else rank_ids(self.ids)


class ScannedEntities(OneType):
    """Entities found by a scan or lookup, with the columns read."""

    def __init__(self, reader: Reader, found: FoundRows, *, is_ordered: bool = False) -> None:
        super().__init__(reader, is_ordered=is_ordered or found.size < 2)
        self._found = found

    @property
    def size(self) -> int:
        return self._found.size

    @property
    def row_ids(self) -> Longs:
        return self._found.row_ids

    def columns(self, names: Sequence[str], codes: Codes) -> Columns:
        at_hand = self._found.columns
        found = {name: take(at_hand[name], codes) for name in names if name in at_hand}
        absent = [name for name in names if name not in at_hand]
        return found | self._fetch(absent, codes) if absent else found

    def _fetch(self, names: Sequence[str], codes: Codes) -> Columns:
        wanted = find_distinct(codes, self.size)
        rows = self.reader.take(self._found.row_ids[wanted], names)
        where = find_positions(codes, wanted, self.size)
        return {name: take(rows.column(name), where) for name in names}

    def find(self, ids: pa.Array, type_name: str) -> Codes:
        """The code of each id among the entities of one type; -1 where there is none."""
        if type_name not in self.types:
            return np.full(len(ids), MISSING, dtype=np.int32)
        found = pc.index_in(ids, value_set=self.ids)
        return encode_values(np.asarray(found.fill_null(MISSING)))

    def node_codes(self, codes: Codes, table_codes: NodeCodes, type_name: str) -> Codes:
        """The code of each entity among all nodes of its type; -1 for other types."""
        if type_name not in self.types:
            return np.full_like(codes, MISSING)
        return table_codes.find(self.columns([ID], codes)[ID])


class IndexedEntities(OneType):
    """Every row of one table version, coded by `TableCodes`."""

    def __init__(self, reader: Reader, table_codes: TableCodes, topology: Topology) -> None:
        super().__init__(reader, is_ordered=table_codes.is_ordered)
        self._table_codes, self._topology = table_codes, topology

    @property
    def size(self) -> int:
        return self._table_codes.size

    @property
    def row_ids(self) -> Longs:
        return self._table_codes.rows.row_ids

    @property
    def rows(self) -> RowCodes:
        """Finds codes by row ids."""
        return self._table_codes.rows

    def columns(self, names: Sequence[str], codes: Codes) -> Columns:
        found = {
            name: take(self._whole(name), codes)
            for name in names
            if self._is_worthwhile(name, codes)
        }
        rest = [name for name in names if name not in found]
        return found | self._fetch(rest, codes) if rest else found

    def _fetch(self, names: Sequence[str], codes: Codes) -> Columns:
        wanted = find_distinct(codes, self.size)
        for name in names:
            is_narrow = self._estimate(name) <= _NARROW_BYTES * self.size
            price = len(wanted) + (_PER_FETCH / len(names) if is_narrow else 0)
            self._topology.spend(self._key(name), price)
        rows = self.reader.take(self._table_codes.rows.row_ids[wanted], names)
        where = find_positions(codes, wanted, self.size)
        return {name: take(rows.column(name), where) for name in names}

    def _is_worthwhile(self, name: str, codes: Codes) -> bool:
        """Return whether to load the whole column into memory."""
        if self._is_coded_by(name) or self._topology.holds(self._key(name)):
            return True
        # Earlier fetches count too, so that frequently read columns are cached.
        wanted = len(codes) + self._topology.find_spent(self._key(name))
        if wanted < _FEW_ROWS or wanted * _SHARE_FOR_WHOLE < self.size:
            return False
        return self._estimate(name) <= self._topology.largest_entry_bytes

    def _is_coded_by(self, name: str) -> bool:
        return name == ID and isinstance(self._table_codes, NodeCodes)

    def _estimate(self, name: str) -> float:
        kind = self.reader.arrow_type(name)
        if pa.types.is_fixed_size_list(kind):
            return float(self.size * kind.list_size * 4)
        if pa.types.is_primitive(kind):
            return float(self.size * 8)
        return self.size * self.reader.bytes_per_row

    def _key(self, name: str) -> Key:
        return ("column", name, *self.reader.key)

    def _whole(self, name: str) -> pa.Array:
        if name == ID and isinstance(self._table_codes, NodeCodes):
            return self._table_codes.ids
        return self._topology.get(self._key(name), lambda: self._read_whole(name)).values

    def _read_whole(self, name: str) -> WholeColumn:
        found = self.reader.read([name])
        order = np.argsort(self._table_codes.rows.find(found.row_ids), kind="stable")
        return WholeColumn(found.column(name).take(pa.array(order)))

    def find(self, ids: pa.Array, type_name: str) -> Codes:
        if type_name not in self.types:
            return np.full(len(ids), MISSING, dtype=np.int32)
        assert isinstance(self._table_codes, NodeCodes), "only nodes are looked up by id"
        return self._table_codes.find(ids)

    def node_codes(self, codes: Codes, table_codes: NodeCodes, type_name: str) -> Codes:
        if type_name not in self.types:
            return np.full_like(codes, MISSING)
        assert self.size == table_codes.size, "two versions of a table in one execution"
        return codes


class UnionEntities:
    """Entities of several types, concatenated. Those of different types may share an id."""

    is_ordered = False

    def __init__(self, parts: Sequence[ScannedEntities | IndexedEntities]) -> None:
        self.parts = tuple(parts)
        self._starts = np.cumsum([0, *(part.size for part in parts)])

    @property
    def size(self) -> int:
        return int(self._starts[-1])

    @property
    def types(self) -> tuple[str, ...]:
        return tuple(part.reader.type_.name for part in self.parts)

    def kinds(self, codes: Codes) -> Codes:
        return encode_values(np.searchsorted(self._starts, codes, side="right") - 1)

    def are_of(self, codes: Codes, type_name: str) -> Flags:
        if type_name not in self.types:
            return np.zeros(len(codes), dtype=np.bool_)
        return np.asarray(self.kinds(codes) == self.types.index(type_name))

    def columns(self, names: Sequence[str], codes: Codes) -> Columns:
        kinds = self.kinds(codes)
        order = [np.flatnonzero(kinds == kind) for kind in range(len(self.parts))]
        found = [
            part.columns(names, encode_values(codes[chosen] - start))
            for part, chosen, start in zip(self.parts, order, self._starts, strict=False)
        ]
        back = pa.array(np.argsort(np.concatenate(order), kind="stable"))
        return {name: pa.concat_arrays([f[name] for f in found]).take(back) for name in names}

    def order_codes(self, codes: Codes) -> Longs:
        """Order by type name, then within each type."""
        keys = np.full(len(codes), MISSING, dtype=np.int64)
        kinds, start = self.kinds(codes), 0
        for name in sorted(self.types):
            kind = self.types.index(name)
            own = np.flatnonzero((kinds == kind) & (codes >= 0))
            inside = self.parts[kind].order_codes(encode_values(codes[own] - self._starts[kind]))
            keys[own] = start + inside
            start += int(inside.max(initial=-1)) + 1
        return keys

    @cached_property
    def ids(self) -> pa.Array:
        return pa.concat_arrays([part.ids for part in self.parts])

    @cached_property
    def rank(self) -> Longs | None:
        return rank_ids(self.ids)

    def find(self, ids: pa.Array, type_name: str) -> Codes:
        if type_name not in self.types:
            return np.full(len(ids), MISSING, dtype=np.int32)
        kind = self.types.index(type_name)
        found = self.parts[kind].find(ids, type_name)
        return encode_values(np.where(found >= 0, found + self._starts[kind], MISSING))

    def node_codes(self, codes: Codes, table_codes: NodeCodes, type_name: str) -> Codes:
        numbers = np.full_like(codes, MISSING)
        if type_name in self.types:
            kind = self.types.index(type_name)
            own = self.kinds(codes) == kind
            inside = encode_values(codes[own] - self._starts[kind])
            numbers[own] = self.parts[kind].node_codes(inside, table_codes, type_name)
        return numbers


Entities = ScannedEntities | IndexedEntities | UnionEntities


@dataclass(frozen=True, slots=True)
class WholeColumn:
    """A column of a table version in the order of its codes."""

    values: pa.Array

    @property
    def nbytes(self) -> int:
        return int(self.values.nbytes)


def split_by_type(entities: Entities) -> Sequence[ScannedEntities | IndexedEntities]:
    """The entities type by type."""
    return entities.parts if isinstance(entities, UnionEntities) else (entities,)


def rank_ids(ids: pa.Array) -> Longs:
    """The position of each id in the order of ids, equal for equal ids."""
    order = np.asarray(pc.array_sort_indices(ids))
    ordered = ids.take(pa.array(order))
    starts = np.zeros(len(ids), dtype=np.int64)
    if len(ids) > 1:
        starts[1:] = np.asarray(pc.not_equal(ordered.slice(1), ordered.slice(0, len(ids) - 1)))
    rank = np.empty(len(ids), dtype=np.int64)
    rank[order] = np.cumsum(starts)
    return rank


def sort_by_id(reader: Reader, found: FoundRows) -> ScannedEntities:
    """The rows found in a table in the order of their ids."""
    if found.size > 1:
        found = found.take(pc.array_sort_indices(found.column(ID)))
    return ScannedEntities(reader, found, is_ordered=True)

"""The rows of a table version, numbered: what lets traversals work on integers.

Nodes are numbered in the order of their ids, so that numbers compare as ids do. Edges keep the
order they are stored in; each knows which two nodes it connects.
"""

from __future__ import annotations

from bisect import bisect_left

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.read.arrays import MISSING, Codes, Longs, combine_chunks, encode_values
from omnigraph.execution.read.table_reader import DST, ID, SRC, Reader, gather_batches
from omnigraph.execution.read.topology import Key, Topology

_SPARSE = 4
"""Row ids spread over more than this many times the rows are looked up by bisection."""
_BISECTION = 32
"""Bisection beats hashing the whole numbering while it has this many times more ids."""
_FEW_BISECTED = 64
"""So few ids are looked for one by one."""
_CODED_ROWS = 1 << 22
"""So many edges are coded at once; codes of separate portions have to be brought together."""


class RowPlaces:
    """From row id to number."""

    def __init__(self, row_ids: Longs) -> None:
        self.row_ids = row_ids
        top = int(row_ids.max(initial=-1)) + 1
        self._table: Codes | None = None
        self._order: Longs | None = None
        if top <= _SPARSE * max(1, len(row_ids)):
            self._table = np.full(top, MISSING, dtype=np.int32)
            self._table[row_ids] = np.arange(len(row_ids), dtype=np.int32)
        else:
            self._order = np.argsort(row_ids, kind="stable")

    @property
    def nbytes(self) -> int:
        helper = self._table if self._table is not None else self._order
        assert helper is not None, "one of the two is always there"
        return int(self.row_ids.nbytes + helper.nbytes)

    def find(self, row_ids: Longs) -> Codes:
        """The number of each row; all of them must be rows of this version."""
        if self._table is not None:
            return encode_values(self._table[row_ids])
        assert self._order is not None, "one of the two is always there"
        return encode_values(
            self._order[np.searchsorted(self.row_ids, row_ids, sorter=self._order)]
        )


class _Texts:
    """An array of texts as bisection needs it."""

    def __init__(self, texts: pa.Array) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, place: int) -> str:
        found: str = self._texts[place].as_py()
        return found


def find_first_not_less(ordered: pa.Array, wanted: pa.Array) -> Longs:
    """Where each text would stand among ordered ones; 0 for NULL."""
    if len(wanted) <= _FEW_BISECTED:
        texts, values = _Texts(ordered), wanted.to_pylist()
        places = [0 if value is None else bisect_left(texts, value) for value in values]
        return np.asarray(places, dtype=np.int64)
    low = np.zeros(len(wanted), dtype=np.int64)
    high = np.full(len(wanted), len(ordered), dtype=np.int64)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        # Where the place is found already, the answer is not looked at.
        at = ordered.take(pa.array(np.minimum(middle, len(ordered) - 1)))
        less = np.asarray(pc.less(at, wanted).fill_null(False))
        low = np.where(open_ & less, middle + 1, low)
        high = np.where(open_ & ~less, middle, high)
    return low


class NodeNumbering:
    """The nodes of one table version in the order of their ids."""

    is_ordered = True

    def __init__(self, ids: pa.Array, row_ids: Longs) -> None:
        self.ids = ids
        self.rows = RowPlaces(row_ids)

    @property
    def size(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        return int(self.ids.nbytes) + self.rows.nbytes

    def find(self, ids: pa.Array) -> Codes:
        """The number of each id; -1 for ids this version does not have."""
        if not self.size:
            return np.full(len(ids), MISSING, dtype=np.int32)
        if len(ids) * _BISECTION > self.size:
            found = pc.index_in(ids, value_set=self.ids)
            return encode_values(np.asarray(found.fill_null(MISSING)))
        guess = np.minimum(find_first_not_less(self.ids, ids), self.size - 1)
        same = pc.equal(self.ids.take(pa.array(guess)), ids).fill_null(False)
        return encode_values(np.where(np.asarray(same), guess, MISSING))


class EdgeNumbering:
    """The edges of one table version as they are stored, with coded ends."""

    is_ordered = False

    def __init__(self, row_ids: Longs, sources: pa.Array, targets: pa.Array) -> None:
        self.rows = RowPlaces(row_ids)
        self.source_ids, self.sources = sources.dictionary, _get_indices(sources)
        self.target_ids, self.targets = targets.dictionary, _get_indices(targets)

    @property
    def size(self) -> int:
        return len(self.sources)

    @property
    def nbytes(self) -> int:
        ids = int(self.source_ids.nbytes + self.target_ids.nbytes)
        return ids + int(self.sources.nbytes + self.targets.nbytes) + self.rows.nbytes


Numbering = NodeNumbering | EdgeNumbering


def _get_indices(encoded: pa.DictionaryArray) -> Codes:
    return encode_values(np.asarray(encoded.indices))


def make_node_key(reader: Reader) -> Key:
    return ("nodes", *reader.key)


def make_edge_key(reader: Reader) -> Key:
    return ("edges", *reader.key)


def number_nodes(reader: Reader, topology: Topology) -> NodeNumbering:
    return topology.get(make_node_key(reader), lambda: _build_nodes(reader))


def number_edges(reader: Reader, topology: Topology) -> EdgeNumbering:
    return topology.get(make_edge_key(reader), lambda: _build_edges(reader))


def _build_nodes(reader: Reader) -> NodeNumbering:
    found = reader.read([ID])
    ids = found.column(ID)
    order = pc.array_sort_indices(ids)
    return NodeNumbering(ids.take(order), found.row_ids[np.asarray(order)])


def _build_edges(reader: Reader) -> EdgeNumbering:
    """Read the ends a few batches at a time: their ids are freed once they are coded."""
    row_ids: list[Longs] = [np.zeros(0, dtype=np.int64)]
    ends: dict[str, list[pa.Array]] = {SRC: [], DST: []}
    for batches in gather_batches(reader.batches([SRC, DST]), _CODED_ROWS):
        row_ids += [batch.row_ids for batch in batches]
        for end, parts in ends.items():
            ids = pa.chunked_array([batch.column(end) for batch in batches], pa.string())
            parts.append(combine_chunks(ids.dictionary_encode()))
    sources, targets = (_unify_dictionaries(parts) for parts in ends.values())
    return EdgeNumbering(np.concatenate(row_ids), sources, targets)


def _unify_dictionaries(parts: list[pa.Array]) -> pa.DictionaryArray:
    """Codes of one dictionary, from parts that have each their own."""
    kind = pa.dictionary(pa.int32(), pa.string())
    encoded = pa.chunked_array(parts, kind)
    return combine_chunks(encoded.unify_dictionaries() if len(parts) > 1 else encoded)

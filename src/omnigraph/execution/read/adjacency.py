"""Number the rows of table versions as entity codes, and walk the adjacency of nodes on codes."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.read.code_arrays import (
    MISSING,
    Codes,
    Flags,
    Longs,
    combine_chunks,
    encode_values,
    expand_ranges,
    mask_found,
)
from omnigraph.execution.read.table_reader import (
    DST,
    ID,
    SRC,
    Key,
    Reader,
    Topology,
    gather_batches,
)

_SPARSE = 4
"""Row ids of a lower density are found by bisection."""
_BISECTION = 32
"""Bisection beats hashing all ids while it has this many times more ids."""
_FEW_BISECTED = 64
"""Up to this many ids are bisected one by one."""
_CODED_ROWS = 1 << 22
"""Edges encoded at a time; the dictionaries of the batches are unified afterwards."""


class RowCodes:
    """Map row ids to entity codes."""

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
        """The code of each row; all of them must be rows of this version."""
        if self._table is not None:
            return encode_values(self._table[row_ids])
        assert self._order is not None, "one of the two is always there"
        return encode_values(
            self._order[np.searchsorted(self.row_ids, row_ids, sorter=self._order)]
        )


class _Texts:
    """An array of texts as a sequence, for bisection."""

    def __init__(self, texts: pa.Array) -> None:
        self._texts = texts

    def __len__(self) -> int:
        return len(self._texts)

    def __getitem__(self, position: int) -> str:
        found: str = self._texts[position].as_py()
        return found


def find_first_not_less(ordered: pa.Array, wanted: pa.Array) -> Longs:
    """Return the insertion position of each text among sorted ones; 0 for NULL."""
    if len(wanted) <= _FEW_BISECTED:
        texts, values = _Texts(ordered), wanted.to_pylist()
        positions = [0 if value is None else bisect_left(texts, value) for value in values]
        return np.asarray(positions, dtype=np.int64)
    low = np.zeros(len(wanted), dtype=np.int64)
    high = np.full(len(wanted), len(ordered), dtype=np.int64)
    while (open_ := low < high).any():
        middle = (low + high) // 2
        # Results for rows that are found already are ignored.
        at = ordered.take(pa.array(np.minimum(middle, len(ordered) - 1)))
        less = np.asarray(pc.less(at, wanted).fill_null(False))
        low = np.where(open_ & less, middle + 1, low)
        high = np.where(open_ & ~less, middle, high)
    return low


class NodeCodes:
    """Entity codes of the nodes of one table version, in the order of their ids."""

    is_ordered = True

    def __init__(self, ids: pa.Array, row_ids: Longs) -> None:
        self.ids = ids
        self.rows = RowCodes(row_ids)

    @property
    def size(self) -> int:
        return len(self.ids)

    @property
    def nbytes(self) -> int:
        return int(self.ids.nbytes) + self.rows.nbytes

    def find(self, ids: pa.Array) -> Codes:
        """The code of each id; -1 for ids this version does not have."""
        if not self.size:
            return np.full(len(ids), MISSING, dtype=np.int32)
        if len(ids) * _BISECTION > self.size:
            found = pc.index_in(ids, value_set=self.ids)
            return encode_values(np.asarray(found.fill_null(MISSING)))
        guess = np.minimum(find_first_not_less(self.ids, ids), self.size - 1)
        same = pc.equal(self.ids.take(pa.array(guess)), ids).fill_null(False)
        return encode_values(np.where(np.asarray(same), guess, MISSING))


class EdgeCodes:
    """Entity codes of the edges of one table version, in stored order, with encoded ends."""

    is_ordered = False

    def __init__(self, row_ids: Longs, sources: pa.Array, targets: pa.Array) -> None:
        self.rows = RowCodes(row_ids)
        self.source_ids, self.sources = sources.dictionary, _get_indices(sources)
        self.target_ids, self.targets = targets.dictionary, _get_indices(targets)

    @property
    def size(self) -> int:
        return len(self.sources)

    @property
    def nbytes(self) -> int:
        ids = int(self.source_ids.nbytes + self.target_ids.nbytes)
        return ids + int(self.sources.nbytes + self.targets.nbytes) + self.rows.nbytes


TableCodes = NodeCodes | EdgeCodes


def _get_indices(encoded: pa.DictionaryArray) -> Codes:
    return encode_values(np.asarray(encoded.indices))


def make_node_key(reader: Reader) -> Key:
    return ("nodes", *reader.key)


def make_edge_key(reader: Reader) -> Key:
    return ("edges", *reader.key)


def load_node_codes(reader: Reader, topology: Topology) -> NodeCodes:
    return topology.get(make_node_key(reader), lambda: _build_nodes(reader))


def load_edge_codes(reader: Reader, topology: Topology) -> EdgeCodes:
    return topology.get(make_edge_key(reader), lambda: _build_edges(reader))


def _build_nodes(reader: Reader) -> NodeCodes:
    found = reader.read([ID])
    ids = found.column(ID)
    order = pc.array_sort_indices(ids)
    return NodeCodes(ids.take(order), found.row_ids[np.asarray(order)])


def _build_edges(reader: Reader) -> EdgeCodes:
    """Read the ends a few batches at a time: their ids are freed once encoded."""
    row_ids: list[Longs] = [np.zeros(0, dtype=np.int64)]
    ends: dict[str, list[pa.Array]] = {SRC: [], DST: []}
    for batches in gather_batches(reader.batches([SRC, DST]), _CODED_ROWS):
        row_ids += [batch.row_ids for batch in batches]
        for end, parts in ends.items():
            ids = pa.chunked_array([batch.column(end) for batch in batches], pa.string())
            parts.append(combine_chunks(ids.dictionary_encode()))
    sources, targets = (_unify_dictionaries(parts) for parts in ends.values())
    return EdgeCodes(np.concatenate(row_ids), sources, targets)


def _unify_dictionaries(parts: list[pa.Array]) -> pa.DictionaryArray:
    """Unify the dictionaries of encoded parts."""
    kind = pa.dictionary(pa.int32(), pa.string())
    encoded = pa.chunked_array(parts, kind)
    return combine_chunks(encoded.unify_dictionaries() if len(parts) > 1 else encoded)


_NODE_BITS = 32
_NO_PAIRS = np.zeros(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Adjacency:
    """The neighbours of node `n` are `targets[starts[n]:starts[n + 1]]`."""

    starts: Longs
    targets: Codes

    @property
    def nbytes(self) -> int:
        return int(self.starts.nbytes + self.targets.nbytes)

    def spans(self, nodes: Codes) -> tuple[Longs, Longs]:
        """Return the start and the number of each node's neighbours; a missing node has none."""
        known = nodes >= 0
        at = np.where(known, nodes, 0)
        starts = self.starts[at]
        return starts, np.where(known, self.starts[at + 1] - starts, 0)

    def neighbours(self, nodes: Codes) -> tuple[Longs, Codes]:
        """Return the number of neighbours of each node, and all neighbours grouped by node."""
        if len(self.starts) == 1:
            return np.zeros(len(nodes), dtype=np.int64), self.targets[:0]
        if _is_run(nodes):
            first, last = int(nodes[0]), int(nodes[-1]) + 1
            bounds = self.starts[first : last + 1]
            return np.diff(bounds), self.targets[bounds[0] : bounds[-1]]
        starts, counts = self.spans(nodes)
        return counts, self.targets[expand_ranges(starts, counts)]


def _is_run(nodes: Codes) -> bool:
    """Return whether the nodes are consecutive, so that their neighbours are contiguous."""
    if not len(nodes) or nodes[0] < 0 or nodes[-1] - nodes[0] != len(nodes) - 1:
        return False
    return bool((np.diff(nodes) == 1).all())


def build_adjacency(sides: Sequence[tuple[Codes, Codes]], sources: int) -> Adjacency:
    """Build an adjacency from pairs of codes; pairs with -1 are dropped.

    A pair lacks an end if its node was deleted.
    """
    parts = [_pack_pairs(source, target) for source, target in sides]
    ordered = parts[0] if len(parts) == 1 else np.concatenate([_NO_PAIRS, *parts])
    ordered.sort()
    if len(ordered) > 1:
        fresh = ordered[1:] != ordered[:-1]
        if not fresh.all():
            ordered = ordered[np.concatenate([[True], fresh])]
    starts = np.zeros(sources + 1, dtype=np.int64)
    np.cumsum(np.bincount(ordered >> _NODE_BITS, minlength=sources), out=starts[1:])
    return Adjacency(starts, ordered.astype(np.int32))


def _pack_pairs(sources: Codes, targets: Codes) -> Longs:
    """Pack pairs to integers that sort by source, then target; those with -1 are dropped."""
    pairs = sources.astype(np.int64)
    pairs <<= _NODE_BITS
    pairs |= targets
    known = (sources >= 0) & (targets >= 0)
    return pairs if known.all() else pairs[known]


def encode_edge_ends(
    edges: EdgeCodes, sources: NodeCodes, targets: NodeCodes
) -> tuple[Codes, Codes]:
    """The codes of the nodes at both ends of every edge; -1 for deleted nodes."""
    return (
        _recode(sources.find(edges.source_ids), edges.sources),
        _recode(targets.find(edges.target_ids), edges.targets),
    )


def _recode(numbers: Codes, codes: Codes) -> Codes:
    return numbers[codes] if len(codes) else codes


@dataclass(frozen=True, slots=True)
class Incidence:
    """The edges at each node: `edges[starts[n]:starts[n + 1]]` and the node at their other end."""

    starts: Longs
    edges: Codes
    targets: Codes

    @property
    def nbytes(self) -> int:
        return int(self.starts.nbytes + self.edges.nbytes + self.targets.nbytes)


def build_incidence(sources: Codes, targets: Codes, edges: Codes, nodes: int) -> Incidence:
    """Edges by the node they start from, then by target; those with a missing end are dropped."""
    known = (sources >= 0) & (targets >= 0)
    order = np.argsort(_pack_pairs(sources, targets), kind="stable")
    if not known.all():
        order = np.flatnonzero(known)[order]
    starts = np.zeros(nodes + 1, dtype=np.int64)
    np.cumsum(np.bincount(sources[order], minlength=nodes), out=starts[1:])
    return Incidence(starts, edges[order], targets[order])


Neighbours = Callable[[Codes, int], tuple[Longs, Codes]]
"""Return, for nodes and a hop number, the number of neighbours of each, and all of them."""

_ANY_NODE = 1 << 32
_PAIRS_PER_MARK = 8
"""A table of all pairs pays off if a hop meets at least one in this many of them."""
_MAX_MARKS = 1 << 24


@dataclass(frozen=True, slots=True)
class Hops:
    """Bounds of a walk, and the treatment of self loops.

    In a forward walk, a self loop counts at the node reached. In a backward walk it counts at the
    start, which is the end of the path in the query.
    """

    minimum: int
    maximum: int
    is_backward: bool = False


@dataclass(frozen=True, slots=True)
class Reached:
    """Pairs of a start and a node it reaches, ascending, each once; `hops` is the distance."""

    starts: Codes
    nodes: Codes
    hops: Codes


class _Visited:
    """The visited pairs; `nodes` is the number of nodes, if known."""

    def __init__(self, begin: Longs, starts: int, nodes: int | None) -> None:
        self._pairs = begin
        self._size = None if nodes is None else starts * nodes
        self._hop_of: Codes | None = None
        """The hop at which each possible pair was first visited, or 0."""

    def add(self, pairs: Longs, hop: int) -> Longs:
        """The pairs not visited before, each once, ascending."""
        if self._hop_of is None and self._marks_pay(len(pairs)):
            self._hop_of = np.zeros(self._size or 0, dtype=np.int32)
            self._hop_of[self._pairs] = MISSING
        if self._hop_of is not None:
            self._hop_of[pairs[self._hop_of[pairs] == 0]] = hop
            return np.flatnonzero(self._hop_of == hop).astype(np.int64, copy=False)
        fresh = np.unique(pairs)
        fresh = fresh[~mask_found(self._pairs, fresh)]
        self._pairs = np.sort(np.concatenate([self._pairs, fresh]), kind="stable")
        return fresh

    def _marks_pay(self, pairs: int) -> bool:
        size = self._size
        return size is not None and size <= min(_PAIRS_PER_MARK * pairs, _MAX_MARKS)


def walk(
    sources: Codes, neighbours: Neighbours, hops: Hops, nodes_there: int | None = None
) -> Reached:
    """Find the nodes reachable from every source, by the position of the source.

    A node is reached at its shortest distance, if that is within the bounds. One at a distance just
    below them is reached as well, one hop later, if it has a self loop. For a source itself only
    the latter applies.
    """
    stride = _ANY_NODE if nodes_there is None else max(1, nodes_there)
    begin = np.arange(len(sources), dtype=np.int64)
    frontier = begin * stride + sources
    visited, just_below = _Visited(np.sort(frontier), len(sources), nodes_there), frontier
    has_loop: Flags = np.zeros(len(sources), dtype=np.bool_)
    found: list[tuple[Longs, int]] = []
    for hop in range(1, hops.maximum + 1):
        firsts: Longs = frontier // stride * stride
        nodes = encode_values(frontier - firsts)
        counts, targets = neighbours(nodes, hop)
        pairs: Longs = np.repeat(firsts, counts) + targets
        if hop == (1 if hops.is_backward else hops.minimum):
            loops = np.repeat(nodes, counts) == targets
            if hops.is_backward:
                has_loop[pairs[loops] // stride] = True
            else:
                found.append((np.unique(pairs[loops]), hop))
        # A node is left after it was reached, so its loop reaches no new one.
        fresh = visited.add(pairs, hop)
        if hop >= hops.minimum:
            found.append((fresh, hop))
        if hop == hops.minimum - 1:
            just_below = fresh
        if not len(fresh):
            break
        frontier = fresh
    if hops.is_backward and (hops.minimum == 1 or hop >= hops.minimum - 1):
        found.append((just_below[has_loop[just_below // stride]], hops.minimum))
    return _sort_reached(found, stride)


def _sort_reached(found: list[tuple[Longs, int]], stride: int) -> Reached:
    pairs = np.concatenate([np.zeros(0, dtype=np.int64), *(keys for keys, _ in found)])
    hops = np.repeat([hop for _, hop in found], [len(keys) for keys, _ in found]).astype(np.int32)
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    starts = pairs // stride
    return Reached(encode_values(starts), encode_values(pairs - starts * stride), hops[order])

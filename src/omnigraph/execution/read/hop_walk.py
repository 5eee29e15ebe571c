"""Walking a bounded number of hops from many nodes at once.

A walk keeps one set of visited nodes per start: pairs (start, node) packed into single integers,
in one ascending array, or marked in a table of all pairs once so many are met that this is cheaper.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from omnigraph.execution.read.arrays import MISSING, Codes, Flags, Longs, encode_values, mask_found

Neighbours = Callable[[Codes, int], tuple[Longs, Codes]]
"""For some nodes and the hop that is taken: how many neighbours each has, then all of them."""

_ANY_NODE = 1 << 32
_PAIRS_PER_MARK = 8
"""A table of all pairs pays when a hop meets at least one in this many of them."""
_MOST_MARKS = 1 << 24


@dataclass(frozen=True, slots=True)
class Hops:
    """How far a walk goes, and where a self loop counts.

    Walked forward, a self loop counts at the node it is reached at. Backward, it counts at the
    start: there the query's walk would have arrived.
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
    """The pairs met so far; `nodes` says how many nodes there are, if that is known."""

    def __init__(self, begin: Longs, starts: int, nodes: int | None) -> None:
        self._pairs = begin
        self._size = None if nodes is None else starts * nodes
        self._hop_of: Codes | None = None
        """For every possible pair the hop it was first met at, or 0."""

    def add(self, pairs: Longs, hop: int) -> Longs:
        """Those of the pairs that were not met before, each once, ascending."""
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
        return size is not None and size <= min(_PAIRS_PER_MARK * pairs, _MOST_MARKS)


def walk(
    sources: Codes, neighbours: Neighbours, hops: Hops, nodes_there: int | None = None
) -> Reached:
    """Everything within reach of every source, by its place among the sources.

    A node is reached at its shortest distance if that lies within the bounds. One that lies just
    below them is reached too, one hop later, if it has a self loop to spend that hop on. Of a
    source itself only the latter can be said.
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
        # A node that is left has been met, so its loop leads to nothing fresh.
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

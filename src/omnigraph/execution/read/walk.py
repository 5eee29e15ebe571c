"""Walking a bounded number of hops from many nodes at once.

A walk keeps one set of visited nodes per start, all of them in one ascending array of
(start, node) pairs packed into single integers.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from omnigraph.execution.read.arrays import Codes, Flags, Longs, codes_of, found_in

Neighbours = Callable[[Codes, int], tuple[Longs, Codes]]
"""For some nodes and the hop that is taken: how many neighbours each has, then all of them."""

_NODE_BITS = 32


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


def walk(sources: Codes, neighbours: Neighbours, hops: Hops) -> Reached:
    """Everything within reach of every source, by its place among the sources.

    A node is reached at its shortest distance if that lies within the bounds. One that lies just
    below them is reached too, one hop later, if it has a self loop to spend that hop on. Of a
    source itself only the latter can be said.
    """
    begin = np.arange(len(sources), dtype=np.int64)
    frontier = (begin << _NODE_BITS) | sources
    visited, just_below = np.sort(frontier), frontier
    has_loop: Flags = np.zeros(len(sources), dtype=np.bool_)
    found: list[tuple[Longs, int]] = []
    for hop in range(1, hops.maximum + 1):
        starts, nodes = frontier >> _NODE_BITS, codes_of(frontier & (2**_NODE_BITS - 1))
        counts, targets = neighbours(nodes, hop)
        starts, nodes = np.repeat(starts, counts), np.repeat(nodes, counts)
        loops = nodes == targets
        pairs = (starts << _NODE_BITS) | targets
        if hop == 1 and hops.is_backward:
            has_loop[starts[loops]] = True
        if hop == hops.minimum and not hops.is_backward:
            found.append((np.unique(pairs[loops]), hop))
        fresh = np.unique(pairs[~loops])
        fresh = fresh[~found_in(visited, fresh)]
        if hop >= hops.minimum:
            found.append((fresh, hop))
        if hop == hops.minimum - 1:
            just_below = fresh
        if not len(fresh):
            break
        visited = np.sort(np.concatenate([visited, fresh]), kind="stable")
        frontier = fresh
    if hops.is_backward and (hops.minimum == 1 or hop >= hops.minimum - 1):
        found.append((just_below[has_loop[just_below >> _NODE_BITS]], hops.minimum))
    return _in_order(found)


def _in_order(found: list[tuple[Longs, int]]) -> Reached:
    pairs = np.concatenate([np.zeros(0, dtype=np.int64), *(keys for keys, _ in found)])
    hops = np.repeat([hop for _, hop in found], [len(keys) for keys, _ in found]).astype(np.int32)
    order = np.argsort(pairs, kind="stable")
    pairs = pairs[order]
    nodes = codes_of(pairs & (2**_NODE_BITS - 1))
    return Reached(codes_of(pairs >> _NODE_BITS), nodes, hops[order])

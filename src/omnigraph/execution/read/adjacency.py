"""Neighbours of nodes as arrays: who is reached from each number, ascending and without repeats."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from omnigraph.execution.read.arrays import (
    Codes,
    Longs,
    expand_ranges,
)
from omnigraph.execution.read.numbering import EdgeNumbering, NodeNumbering

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
        """Where the neighbours of each node start and how many there are: none of a missing one."""
        known = nodes >= 0
        at = np.where(known, nodes, 0)
        starts = self.starts[at]
        return starts, np.where(known, self.starts[at + 1] - starts, 0)

    def neighbours(self, nodes: Codes) -> tuple[Longs, Codes]:
        """How many neighbours each node has, and all of them one node after another."""
        if len(self.starts) == 1:
            return np.zeros(len(nodes), dtype=np.int64), self.targets[:0]
        if _is_run(nodes):
            first, last = int(nodes[0]), int(nodes[-1]) + 1
            bounds = self.starts[first : last + 1]
            return np.diff(bounds), self.targets[bounds[0] : bounds[-1]]
        starts, counts = self.spans(nodes)
        return counts, self.targets[expand_ranges(starts, counts)]


def _is_run(nodes: Codes) -> bool:
    """Whether the nodes are numbers that follow each other; then so do their neighbours."""
    if not len(nodes) or nodes[0] < 0 or nodes[-1] - nodes[0] != len(nodes) - 1:
        return False
    return bool((np.diff(nodes) == 1).all())


def build_adjacency(sides: Sequence[tuple[Codes, Codes]], sources: int) -> Adjacency:
    """Neighbours from pairs of numbers, given in any number of parts; pairs with -1 are dropped.

    A pair with a missing end is an edge whose node is gone: it leads nowhere.
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
    """Pairs as single integers that sort by source, then by target; those with -1 left out."""
    pairs = sources.astype(np.int64)
    pairs <<= _NODE_BITS
    pairs |= targets
    known = (sources >= 0) & (targets >= 0)
    return pairs if known.all() else pairs[known]


def number_edge_ends(
    edges: EdgeNumbering, sources: NodeNumbering, targets: NodeNumbering
) -> tuple[Codes, Codes]:
    """The number of the node at either end of every edge; -1 where that node is gone."""
    return (
        _renumber(sources.find(edges.source_ids), edges.sources),
        _renumber(targets.find(edges.target_ids), edges.targets),
    )


def _renumber(numbers: Codes, codes: Codes) -> Codes:
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

"""From the nodes of a variable to their neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import numpy as np
import pyarrow as pa

from omnigraph.execution.read.arrays import MISSING, Codes, Longs, distinct
from omnigraph.execution.read.context import Context
from omnigraph.execution.read.demand import Demand
from omnigraph.execution.read.edges import EdgeWalker, look_up_edges
from omnigraph.execution.read.frontier import walk_by_lookups
from omnigraph.execution.read.links import Links, close, follow, starts_of
from omnigraph.execution.read.reader import ID
from omnigraph.execution.read.rows import Rows, joined
from omnigraph.execution.read.strategy import Budget, Outgrown, choose
from omnigraph.execution.read.targets import (
    Answer,
    TargetFilter,
    links_from_pairs,
    sources_of,
    targets_by_id,
)
from omnigraph.execution.read.walk import walk
from omnigraph.execution.read.way import Way, way_of
from omnigraph.plan.nodes import Expand, Traversal

_PAIRS_AT_ONCE = 1 << 22
"""A walk of several hops keeps about so many (start, node) pairs at a time."""
_DEEPEST_GUESS = 16


def expand(node: Expand, context: Context, demand: Demand, child: Iterator[Rows]) -> Iterator[Rows]:
    """Each row once for every neighbour of its source, or for every edge if those are bound."""
    way = way_of(node, context)
    first = next(child, None) if way.is_possible else None
    if first is None:
        return
    second = next(child, None)
    blocks = chain([first] if second is None else [first, second], child)
    # Look-ups answer for all rows at once; more than one block is more than they are good for.
    if second is None or context.input.traversal is Traversal.INDEXED:
        rows = joined(list(blocks))
        found = _by_lookups(node, way, context, rows)
        if found is not None:
            yield from _applied(node, demand, rows, found)
            return
        blocks = chain([rows])
    context.profile.of(node).notes["traversal"] = str(Traversal.ADJACENCY)
    walker = _walker(node, way, context)
    for block in blocks:
        for piece in block.pieces(walker.rows_at_once):
            yield from _applied(node, demand, piece, walker.links(piece))


def _applied(node: Expand, demand: Demand, rows: Rows, found: Answer) -> Iterator[Rows]:
    links, entities = found
    apply = close if node.closes else follow
    return apply(rows, node.source, links, node.target, entities, demand.variables)


def _by_lookups(node: Expand, way: Way, context: Context, rows: Rows) -> Answer | None:
    """What look-ups find, or None where an adjacency does better."""
    sources = sources_of(node, way, rows)
    if choose(context, way, len(sources)) is not Traversal.INDEXED:
        return None
    look_up = _look_up_nodes if node.edge_variable is None else look_up_edges
    try:
        answer = look_up(node, way, context, Budget(context, way), rows, sources)
    except Outgrown:
        return None
    context.profile.of(node).notes["traversal"] = str(Traversal.INDEXED)
    return answer


def _look_up_nodes(
    node: Expand, way: Way, context: Context, budget: Budget, rows: Rows, sources: Codes
) -> Answer:
    ids = rows.entities[node.source].columns([ID], sources)[ID]
    found = walk_by_lookups(context, way, budget, ids)
    reached = found.reached
    nodes = distinct(reached.nodes, len(found.ids))
    reached_ids = found.ids.take(pa.array(nodes))
    entities, codes = targets_by_id(node, way, context, budget, rows, reached_ids)
    targets = np.full(len(found.ids), MISSING, dtype=np.int32)
    targets[nodes] = codes
    extra = {} if node.hop_variable is None else {node.hop_variable: reached.hops}
    links = links_from_pairs(sources, reached.starts, targets[reached.nodes], extra)
    return links, {node.target: entities}


def _walker(node: Expand, way: Way, context: Context) -> _Walker | EdgeWalker:
    if node.edge_variable is not None:
        return EdgeWalker(node, way, context)
    return _Walker(node, way, context)


class _Walker:
    """Answers block after block from one adjacency."""

    def __init__(self, node: Expand, way: Way, context: Context) -> None:
        self._node, self._way = node, way
        self._adjacency = context.adjacency(way.steps)
        self._numbering = context.nodes(way.source_type)
        self._targets = TargetFilter(node, way, context)

    @property
    def rows_at_once(self) -> int:
        hops, nodes = self._way.hops.maximum, max(1, self._numbering.size)
        if hops == 1:
            return _PAIRS_AT_ONCE
        degree = max(1.0, len(self._adjacency.targets) / nodes)
        reach = min(float(nodes), degree ** min(hops, _DEEPEST_GUESS))
        return max(1, int(_PAIRS_AT_ONCE / reach))

    def links(self, rows: Rows) -> Answer:
        node, way = self._node, self._way
        sources = sources_of(node, way, rows)
        entities = rows.entities[node.source]
        numbers = entities.numbers(sources, self._numbering, way.source_type)
        sources, numbers = sources[numbers >= 0], numbers[numbers >= 0]
        if way.hops.maximum == 1:
            counts, targets = self._adjacency.neighbours(numbers)
            starts: Longs = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            hops = np.ones(len(targets), dtype=np.int32)
        else:
            reached = walk(numbers, lambda at, _hop: self._adjacency.neighbours(at), way.hops)
            starts, targets = starts_of(reached.starts, len(sources)), reached.nodes
            hops = reached.hops
        extra = {} if node.hop_variable is None else {node.hop_variable: hops}
        return self._targets.applied(rows, Links(sources, starts, targets, extra))

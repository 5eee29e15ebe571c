"""From the nodes of a variable to their neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from omnigraph.execution.read.arrays import MISSING, Codes, Longs, distinct
from omnigraph.execution.read.context import Context
from omnigraph.execution.read.demand import Demand
from omnigraph.execution.read.edges import EdgeWalker, look_up_edges
from omnigraph.execution.read.frontier import walk_by_lookups
from omnigraph.execution.read.input import Traversal
from omnigraph.execution.read.links import Links, close, follow, starts_of
from omnigraph.execution.read.reader import ID
from omnigraph.execution.read.rows import Rows, joined
from omnigraph.execution.read.strategy import Budget, Choice, Outgrown, choose
from omnigraph.execution.read.targets import (
    Answer,
    TargetFilter,
    links_from_pairs,
    sources_of,
    targets_by_id,
)
from omnigraph.execution.read.walk import walk
from omnigraph.execution.read.way import Way, way_of
from omnigraph.plan.nodes import Expand
from omnigraph.plan.rewrite.order_clauses import reversed_steps

_PAIRS_AT_ONCE = 1 << 22
"""A walk of several hops keeps about so many (start, node) pairs at a time."""
_DEEPEST_GUESS = 16
_OUTGROWN = Choice(Traversal.ADJACENCY, "look-ups turned out to cost more than building it")


def expand(node: Expand, context: Context, demand: Demand, child: Iterator[Rows]) -> Iterator[Rows]:
    """Each row once for every neighbour of its source, or for every edge if those are bound."""
    way = way_of(node, context)
    first = next(child, None) if way.is_possible else None
    if first is None:
        return
    walked = _from_better_end(node, first)
    waiting = _worth_looking_up(walked, context, first, child)
    blocks = chain(waiting.rows, child)
    if waiting.are_all:
        rows = joined(waiting.rows)
        found = _by_lookups(walked, way_of(walked, context), context, rows)
        if found is not None:
            _note(node, context, waiting)
            yield from _applied(walked, demand, rows, found)
            return
        blocks = chain([rows])
        waiting = replace(waiting, choice=_OUTGROWN)
    _note(node, context, waiting)
    walkers: dict[str, _Walker | EdgeWalker] = {}
    for block in blocks:
        walked = _from_better_end(node, block)
        if walked.source not in walkers:
            walkers[walked.source] = _walker(walked, context)
        walker = walkers[walked.source]
        for piece in block.pieces(walker.rows_at_once):
            yield from _applied(walked, demand, piece, walker.links(piece))


def _note(node: Expand, context: Context, waiting: _Waiting) -> None:
    start = f"{waiting.sources}{'' if waiting.are_all else ' or more'}"
    context.profile.of(node).notes.update(waiting.choice.facts(start))


def _from_better_end(node: Expand, rows: Rows) -> Expand:
    """The expansion as it is, or walked from its other end where that is bound too and handier.

    Rows come sorted by some of their variables; tests in that order are the fast ones. The
    distance is the same from both ends, but where a self loop counts changes sides.
    """
    if not node.closes or _is_rising(rows.codes[node.source]):
        return node
    if not _is_rising(rows.codes[node.target]):
        return node
    return replace(
        node,
        source=node.target,
        target=node.source,
        steps=reversed_steps(node.steps),
        asked_from_target=not node.asked_from_target,
    )


def _is_rising(codes: Codes) -> bool:
    return bool((codes[1:] >= codes[:-1]).all())


@dataclass(frozen=True, slots=True)
class _Waiting:
    """Rows taken from the child before a way was chosen for so many start nodes."""

    rows: list[Rows]
    sources: int
    choice: Choice

    @property
    def are_all(self) -> bool:
        return self.choice.traversal is Traversal.INDEXED


def _worth_looking_up(
    node: Expand, context: Context, first: Rows, others: Iterator[Rows]
) -> _Waiting:
    """Blocks taken from the child as long as looking their sources up is the cheaper way."""
    way = way_of(node, context)
    taken, sources = [first], len(sources_of(node, way, first))
    choice = choose(context, way, sources)
    while choice.traversal is Traversal.INDEXED:
        block = next(others, None)
        if block is None:
            break
        taken.append(block)
        sources += len(sources_of(node, way, block))
        choice = choose(context, way, sources)
    return _Waiting(taken, sources, choice)


def _applied(node: Expand, demand: Demand, rows: Rows, found: Answer) -> Iterator[Rows]:
    links, entities = found
    apply = close if node.closes else follow
    return apply(rows, node.source, links, node.target, entities, demand)


def _by_lookups(node: Expand, way: Way, context: Context, rows: Rows) -> Answer | None:
    """What look-ups find, or None where they turn out to be the dearer way."""
    sources = sources_of(node, way, rows)
    look_up = _look_up_nodes if node.edge_variable is None else look_up_edges
    try:
        answer = look_up(node, way, context, Budget(context, way), rows, sources)
    except Outgrown:
        return None
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


def _walker(node: Expand, context: Context) -> _Walker | EdgeWalker:
    way = way_of(node, context)
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
            size, adjacency = self._numbering.size, self._adjacency
            reached = walk(numbers, lambda at, _: adjacency.neighbours(at), way.hops, size)
            starts, targets = starts_of(reached.starts, len(sources)), reached.nodes
            hops = reached.hops
        extra = {} if node.hop_variable is None else {node.hop_variable: hops}
        return self._targets.applied(rows, Links(sources, starts, targets, extra))

"""From the nodes of a variable to their neighbours."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa

from omnigraph.execution.read.arrays import MISSING, Codes, Longs, find_distinct
from omnigraph.execution.read.context import ReadContext
from omnigraph.execution.read.edge_expansion import EdgeWalker, look_up_edges
from omnigraph.execution.read.entity_links import Links, close, find_starts, follow
from omnigraph.execution.read.expansion_path import ExpansionPath, build_expansion_path
from omnigraph.execution.read.expansion_targets import (
    NeighbourRows,
    TargetFilter,
    build_links,
    find_sources,
    find_targets_by_id,
)
from omnigraph.execution.read.frontier_lookups import walk_by_lookups
from omnigraph.execution.read.hop_walk import walk
from omnigraph.execution.read.input import TraversalMethod
from omnigraph.execution.read.row_blocks import Rows, join_blocks
from omnigraph.execution.read.row_requirements import Demand
from omnigraph.execution.read.table_reader import ID
from omnigraph.execution.read.traversal_choice import (
    Choice,
    LookupBudget,
    LookupsTooExpensive,
    choose_traversal,
)
from omnigraph.plan.nodes import Expand
from omnigraph.plan.rewrite.order_clauses import reverse_steps

_PAIRS_AT_ONCE = 1 << 22
"""A walk of several hops keeps about this many (start, node) pairs at a time."""
_DEEPEST_GUESS = 16
_OUTGROWN = Choice(TraversalMethod.ADJACENCY, "look-ups turned out to cost more than building it")


def expand(
    node: Expand, context: ReadContext, demand: Demand, child: Iterator[Rows]
) -> Iterator[Rows]:
    """Each row once for every neighbour of its source, or for every edge if those are bound."""
    way = build_expansion_path(node, context)
    first = next(child, None) if way.is_possible else None
    if first is None:
        return
    walked = _from_better_end(node, first)
    waiting = _choose_traversal(walked, context, first, child)
    blocks = chain(waiting.rows, child)
    if waiting.are_all:
        rows = join_blocks(waiting.rows)
        found = _try_lookups(walked, build_expansion_path(walked, context), context, rows)
        if found is not None:
            _note_choice(node, context, waiting)
            yield from _apply_links(walked, demand, rows, found)
            return
        blocks = chain([rows])
        waiting = replace(waiting, choice=_OUTGROWN)
    _note_choice(node, context, waiting)
    walkers: dict[str, _Walker | EdgeWalker] = {}
    for block in blocks:
        walked = _from_better_end(node, block)
        if walked.source not in walkers:
            walkers[walked.source] = _make_walker(walked, context)
        walker = walkers[walked.source]
        for piece in block.pieces(walker.rows_at_once):
            yield from _apply_links(walked, demand, piece, walker.links(piece))


def _note_choice(node: Expand, context: ReadContext, waiting: _ChosenTraversal) -> None:
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
        steps=reverse_steps(node.steps),
        asked_from_target=not node.asked_from_target,
    )


def _is_rising(codes: Codes) -> bool:
    return bool((codes[1:] >= codes[:-1]).all())


@dataclass(frozen=True, slots=True)
class _ChosenTraversal:
    """Rows taken from the child before a way was chosen for this many start nodes."""

    rows: list[Rows]
    sources: int
    choice: Choice

    @property
    def are_all(self) -> bool:
        return self.choice.traversal is TraversalMethod.INDEXED


def _choose_traversal(
    node: Expand, context: ReadContext, first: Rows, others: Iterator[Rows]
) -> _ChosenTraversal:
    """Blocks taken from the child as long as looking their sources up is the cheaper way."""
    way = build_expansion_path(node, context)
    taken, sources = [first], len(find_sources(node, way, first))
    choice = choose_traversal(context, way, sources)
    while choice.traversal is TraversalMethod.INDEXED:
        block = next(others, None)
        if block is None:
            break
        taken.append(block)
        sources += len(find_sources(node, way, block))
        choice = choose_traversal(context, way, sources)
    return _ChosenTraversal(taken, sources, choice)


def _apply_links(node: Expand, demand: Demand, rows: Rows, found: NeighbourRows) -> Iterator[Rows]:
    links, entities = found
    apply = close if node.closes else follow
    return apply(rows, node.source, links, node.target, entities, demand)


def _try_lookups(
    node: Expand, way: ExpansionPath, context: ReadContext, rows: Rows
) -> NeighbourRows | None:
    """What look-ups find, or None where they turn out to be the dearer way."""
    sources = find_sources(node, way, rows)
    look_up = _look_up_nodes if node.edge_variable is None else look_up_edges
    try:
        answer = look_up(node, way, context, LookupBudget(context, way), rows, sources)
    except LookupsTooExpensive:
        return None
    return answer


def _look_up_nodes(
    node: Expand,
    way: ExpansionPath,
    context: ReadContext,
    budget: LookupBudget,
    rows: Rows,
    sources: Codes,
) -> NeighbourRows:
    ids = rows.entities[node.source].columns([ID], sources)[ID]
    found = walk_by_lookups(context, way, budget, ids)
    reached = found.reached
    nodes = find_distinct(reached.nodes, len(found.ids))
    reached_ids = found.ids.take(pa.array(nodes))
    entities, codes = find_targets_by_id(node, way, context, budget, rows, reached_ids)
    targets = np.full(len(found.ids), MISSING, dtype=np.int32)
    targets[nodes] = codes
    extra = {} if node.hop_variable is None else {node.hop_variable: reached.hops}
    links = build_links(sources, reached.starts, targets[reached.nodes], extra)
    return links, {node.target: entities}


def _make_walker(node: Expand, context: ReadContext) -> _Walker | EdgeWalker:
    way = build_expansion_path(node, context)
    if node.edge_variable is not None:
        return EdgeWalker(node, way, context)
    return _Walker(node, way, context)


class _Walker:
    """Answers block after block from one adjacency."""

    def __init__(self, node: Expand, way: ExpansionPath, context: ReadContext) -> None:
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

    def links(self, rows: Rows) -> NeighbourRows:
        node, way = self._node, self._way
        sources = find_sources(node, way, rows)
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
            starts, targets = find_starts(reached.starts, len(sources)), reached.nodes
            hops = reached.hops
        extra = {} if node.hop_variable is None else {node.hop_variable: hops}
        return self._targets.apply_filter(rows, Links(sources, starts, targets, extra))

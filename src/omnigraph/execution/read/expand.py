"""Expand the nodes of a variable to their neighbours, or to their edges where the edge is bound."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.read.adjacency import Incidence, build_incidence, walk
from omnigraph.execution.read.code_arrays import (
    MISSING,
    Codes,
    Longs,
    encode_values,
    expand_ranges,
    find_distinct,
)
from omnigraph.execution.read.entities import (
    Entities,
    IndexedEntities,
    ScannedEntities,
    UnionEntities,
)
from omnigraph.execution.read.neighbours import (
    Links,
    NeighbourRows,
    TargetFilter,
    build_links,
    close,
    find_sources,
    find_starts,
    find_targets_by_id,
    follow,
    list_followed_columns,
    walk_by_lookups,
)
from omnigraph.execution.read.node_scan import find_passing_edges, select_rows
from omnigraph.execution.read.read_context import ReadContext, TraversalMethod
from omnigraph.execution.read.row_blocks import Demand, Rows, join_blocks
from omnigraph.execution.read.table_reader import DST, ID, SRC, FoundRows, Reader, concatenate_rows
from omnigraph.execution.read.traversal_choice import (
    Choice,
    ExpansionPath,
    LookupBudget,
    LookupBudgetExceeded,
    build_expansion_path,
    choose_traversal,
)
from omnigraph.plan.plan_nodes import Direction, EdgeStep, Expand
from omnigraph.plan.rewrite_rules import reverse_steps

_PAIRS_AT_ONCE = 1 << 22


# --- by look-ups ----------------------------------------------------------------------------------


def look_up_edges(
    node: Expand,
    path: ExpansionPath,
    context: ReadContext,
    budget: LookupBudget,
    rows: Rows,
    sources: Codes,
) -> NeighbourRows:
    """Look up the edges at some nodes, and the nodes at their other ends."""
    ids = rows.entities[node.source].columns([ID], sources)[ID]
    budget.look_up(len(ids))
    assert node.edge_variable is not None, "the expansion binds its edges"
    parts = [_find_edges_at(node, step, context, ids) for step in path.steps]
    entities = _combine_parts([ScannedEntities(part.reader, part.edges) for part in parts])
    starts = np.cumsum([0, *(part.edges.size for part in parts)])
    which = [start + part.positions for start, part in zip(starts, parts, strict=False)]
    near = pa.concat_arrays([part.near for part in parts])
    far = pa.concat_arrays([part.far for part in parts])
    budget.record_search(len(far))
    targets, found = _encode_far_ends(node, path, context, budget, rows, far)
    owners = encode_values(np.asarray(pc.index_in(near, value_set=ids).fill_null(MISSING)))
    edges = {node.edge_variable: encode_values(np.concatenate(which))}
    links = replace(build_links(sources, owners, targets, edges), is_set=False)
    return links, {node.target: found, node.edge_variable: entities}


def _combine_parts(parts: Sequence[ScannedEntities | IndexedEntities]) -> Entities:
    return parts[0] if len(parts) == 1 else UnionEntities(parts)


@dataclass(frozen=True, slots=True)
class _EdgesAt:
    """Distinct edges of a table, with the endpoints and the index of each for every traversal.

    An undirected edge may be traversed from both of its ends.
    """

    reader: Reader
    edges: FoundRows
    near: pa.Array
    far: pa.Array
    positions: Longs


def _find_edges_at(node: Expand, step: EdgeStep, context: ReadContext, ids: pa.Array) -> _EdgesAt:
    reader = context.tables.edge(step.edge_type)
    assert node.edge_variable is not None, "the expansion binds its edges"
    names = [SRC, DST, *node.edge_columns]
    near: list[pa.Array] = []
    far: list[pa.Array] = []
    parts: list[FoundRows] = []
    for near_end, far_end in list_followed_columns(step.direction):
        keys = (near_end, ids)
        found = select_rows(context, reader, node.edge_variable, node.edge_filters, names, keys)
        if parts:
            # A self loop was found from its source already.
            found = found.filter(pc.not_equal(found.column(SRC), found.column(DST)))
        parts.append(found)
        near.append(found.column(near_end))
        far.append(found.column(far_end))
    everything = concatenate_rows(parts)
    _, first, positions = np.unique(everything.row_ids, return_index=True, return_inverse=True)
    return _EdgesAt(
        reader,
        everything.take(pa.array(first)),
        pa.concat_arrays(near),
        pa.concat_arrays(far),
        positions.astype(np.int64),
    )


def _encode_far_ends(
    node: Expand,
    path: ExpansionPath,
    context: ReadContext,
    budget: LookupBudget,
    rows: Rows,
    far: pa.Array,
) -> tuple[Codes, Entities]:
    ids = pc.unique(far)
    entities, codes = find_targets_by_id(node, path, context, budget, rows, ids)
    return codes[np.asarray(pc.index_in(far, value_set=ids))], entities


# --- by numbers -----------------------------------------------------------------------------------


class EdgeWalker:
    """Expands blocks by an in-memory incidence of edges."""

    rows_at_once = _PAIRS_AT_ONCE

    def __init__(self, node: Expand, path: ExpansionPath, context: ReadContext) -> None:
        assert node.edge_variable is not None, "the expansion binds its edges"
        self._node, self._way, self._variable = node, path, node.edge_variable
        self._table_codes = context.nodes(path.source_type)
        self._targets = TargetFilter(node, path, context)
        self._entities, self._incidence = _get_incidence(node, path, context)

    def links(self, rows: Rows) -> NeighbourRows:
        sources = find_sources(self._node, self._way, rows)
        entities = rows.entities[self._node.source]
        numbers = entities.node_codes(sources, self._table_codes, self._way.source_type)
        sources, numbers = sources[numbers >= 0], numbers[numbers >= 0]
        first = self._incidence.starts[numbers]
        counts = self._incidence.starts[numbers + 1] - first
        which = expand_ranges(first, counts)
        starts: Longs = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
        edges = {self._variable: self._incidence.edges[which]}
        links = Links(sources, starts, self._incidence.targets[which], edges, is_set=False)
        found, known = self._targets.apply_filter(rows, links)
        return found, known | {self._variable: self._entities}


def _get_incidence(
    node: Expand, path: ExpansionPath, context: ReadContext
) -> tuple[Entities, Incidence]:
    """The edges that pass their filters, by the node they start from."""
    if node.edge_filters:
        return _build_incidence(node, path, context)
    # Edges of several types are numbered type by type, so their order matters.
    key = ("incidence", *path.steps, *context.adjacency_key(path.steps))
    entities = _combine_parts([_list_all_edges(context, step) for step in path.steps])
    return entities, context.topology.get(key, lambda: _build_incidence(node, path, context)[1])


def _list_all_edges(context: ReadContext, step: EdgeStep) -> IndexedEntities:
    reader = context.tables.edge(step.edge_type)
    return IndexedEntities(reader, context.edges(step.edge_type), context.topology)


def _build_incidence(
    node: Expand, path: ExpansionPath, context: ReadContext
) -> tuple[Entities, Incidence]:
    assert node.edge_variable is not None, "the expansion binds its edges"
    parts, columns, start = [], [], 0
    for step in path.steps:
        entities, passing = find_passing_edges(context, step, node.edge_variable, node.edge_filters)
        near, far = context.ends(step)
        for sources, targets in _list_followed(step.direction, near[passing], far[passing]):
            columns.append((sources, targets, encode_values(passing + start)))
        parts.append(entities)
        start += entities.size
    sources, targets, edges = (np.concatenate(column) for column in zip(*columns, strict=True))
    return _combine_parts(parts), build_incidence(
        sources, targets, edges, context.nodes(path.source_type).size
    )


def _list_followed(direction: Direction, near: Codes, far: Codes) -> Sequence[tuple[Codes, Codes]]:
    """(source, target) of every edge for each direction followed; -1 where it is not."""
    match direction:
        case Direction.OUT:
            return [(near, far)]
        case Direction.IN:
            return [(far, near)]
        case _:
            # A self loop is followed once, along the edge.
            return [(near, far), (np.where(near == far, MISSING, far).astype(np.int32), near)]


_DEEPEST_GUESS = 16
_OUTGROWN = Choice(TraversalMethod.ADJACENCY, "look-ups turned out to cost more than building it")


def expand(
    node: Expand, context: ReadContext, demand: Demand, child: Iterator[Rows]
) -> Iterator[Rows]:
    """Join each row with every neighbour of its source, or with every edge if those are bound."""
    path = build_expansion_path(node, context)
    first = next(child, None) if path.is_possible else None
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
    """Reverse an expansion between two bound ends if rows are sorted by its target.

    Rows are sorted by some of their variables, and tests in that order are fast. The distance is
    the same from both ends, but a self loop counts at the other one.
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
    """Rows consumed before the method was chosen for this many start nodes."""

    rows: list[Rows]
    sources: int
    choice: Choice

    @property
    def are_all(self) -> bool:
        return self.choice.traversal is TraversalMethod.INDEXED


def _choose_traversal(
    node: Expand, context: ReadContext, first: Rows, others: Iterator[Rows]
) -> _ChosenTraversal:
    """Consume blocks of the child while lookups of their sources are cheaper."""
    path = build_expansion_path(node, context)
    taken, sources = [first], len(find_sources(node, path, first))
    choice = choose_traversal(context, path, sources)
    while choice.traversal is TraversalMethod.INDEXED:
        block = next(others, None)
        if block is None:
            break
        taken.append(block)
        sources += len(find_sources(node, path, block))
        choice = choose_traversal(context, path, sources)
    return _ChosenTraversal(taken, sources, choice)


def _apply_links(node: Expand, demand: Demand, rows: Rows, found: NeighbourRows) -> Iterator[Rows]:
    links, entities = found
    apply = close if node.closes else follow
    return apply(rows, node.source, links, node.target, entities, demand)


def _try_lookups(
    node: Expand, path: ExpansionPath, context: ReadContext, rows: Rows
) -> NeighbourRows | None:
    """Return the result of lookups; None if they turn out to cost more."""
    sources = find_sources(node, path, rows)
    look_up = _look_up_nodes if node.edge_variable is None else look_up_edges
    try:
        answer = look_up(node, path, context, LookupBudget(context, path), rows, sources)
    except LookupBudgetExceeded:
        return None
    return answer


def _look_up_nodes(
    node: Expand,
    path: ExpansionPath,
    context: ReadContext,
    budget: LookupBudget,
    rows: Rows,
    sources: Codes,
) -> NeighbourRows:
    ids = rows.entities[node.source].columns([ID], sources)[ID]
    found = walk_by_lookups(context, path, budget, ids)
    reached = found.reached
    nodes = find_distinct(reached.nodes, len(found.ids))
    reached_ids = found.ids.take(pa.array(nodes))
    entities, codes = find_targets_by_id(node, path, context, budget, rows, reached_ids)
    targets = np.full(len(found.ids), MISSING, dtype=np.int32)
    targets[nodes] = codes
    extra = {} if node.hop_variable is None else {node.hop_variable: reached.hops}
    links = build_links(sources, reached.starts, targets[reached.nodes], extra)
    return links, {node.target: entities}


def _make_walker(node: Expand, context: ReadContext) -> _Walker | EdgeWalker:
    path = build_expansion_path(node, context)
    if node.edge_variable is not None:
        return EdgeWalker(node, path, context)
    return _Walker(node, path, context)


class _Walker:
    """Expands blocks by one adjacency."""

    def __init__(self, node: Expand, path: ExpansionPath, context: ReadContext) -> None:
        self._node, self._way = node, path
        self._adjacency = context.adjacency(path.steps)
        self._table_codes = context.nodes(path.source_type)
        self._targets = TargetFilter(node, path, context)

    @property
    def rows_at_once(self) -> int:
        hops, nodes = self._way.hops.maximum, max(1, self._table_codes.size)
        if hops == 1:
            return _PAIRS_AT_ONCE
        degree = max(1.0, len(self._adjacency.targets) / nodes)
        reach = min(float(nodes), degree ** min(hops, _DEEPEST_GUESS))
        return max(1, int(_PAIRS_AT_ONCE / reach))

    def links(self, rows: Rows) -> NeighbourRows:
        node, path = self._node, self._way
        sources = find_sources(node, path, rows)
        entities = rows.entities[node.source]
        numbers = entities.node_codes(sources, self._table_codes, path.source_type)
        sources, numbers = sources[numbers >= 0], numbers[numbers >= 0]
        if path.hops.maximum == 1:
            counts, targets = self._adjacency.neighbours(numbers)
            starts: Longs = np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)
            hops = np.ones(len(targets), dtype=np.int32)
        else:
            size, adjacency = self._table_codes.size, self._adjacency
            reached = walk(numbers, lambda at, _: adjacency.neighbours(at), path.hops, size)
            starts, targets = find_starts(reached.starts, len(sources)), reached.nodes
            hops = reached.hops
        extra = {} if node.hop_variable is None else {node.hop_variable: hops}
        return self._targets.apply_filter(rows, Links(sources, starts, targets, extra))

"""Expansions that bind the edge: one row for every edge, with what the edge itself says."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.read.adjacency import Incidence, build_incidence
from omnigraph.execution.read.arrays import MISSING, Codes, Longs, encode_values, expand_ranges
from omnigraph.execution.read.context import ReadContext
from omnigraph.execution.read.entities import Entities, Listed, Numbered, Several
from omnigraph.execution.read.entity_links import Links
from omnigraph.execution.read.expansion_path import ExpansionPath
from omnigraph.execution.read.expansion_targets import (
    NeighbourRows,
    TargetFilter,
    build_links,
    find_sources,
    find_targets_by_id,
)
from omnigraph.execution.read.frontier_lookups import list_followed_columns
from omnigraph.execution.read.node_scan import find_passing_edges, select_rows
from omnigraph.execution.read.row_blocks import Rows
from omnigraph.execution.read.table_reader import DST, ID, SRC, FoundRows, Reader, concatenate_rows
from omnigraph.execution.read.traversal_choice import LookupBudget
from omnigraph.plan.nodes import Direction, EdgeStep, Expand

_PAIRS_AT_ONCE = 1 << 22


# --- by look-ups ----------------------------------------------------------------------------------


def look_up_edges(
    node: Expand,
    way: ExpansionPath,
    context: ReadContext,
    budget: LookupBudget,
    rows: Rows,
    sources: Codes,
) -> NeighbourRows:
    """The edges at some nodes and the nodes at their other ends."""
    ids = rows.entities[node.source].columns([ID], sources)[ID]
    budget.look_up(len(ids))
    assert node.edge_variable is not None, "the expansion binds its edges"
    parts = [_find_edges_at(node, step, context, ids) for step in way.steps]
    entities = _combine_parts([Listed(part.reader, part.edges) for part in parts])
    starts = np.cumsum([0, *(part.edges.size for part in parts)])
    which = [start + part.places for start, part in zip(starts, parts, strict=False)]
    near = pa.concat_arrays([part.near for part in parts])
    far = pa.concat_arrays([part.far for part in parts])
    budget.note_found(len(far))
    targets, found = _encode_far_ends(node, way, context, budget, rows, far)
    owners = encode_values(np.asarray(pc.index_in(near, value_set=ids).fill_null(MISSING)))
    edges = {node.edge_variable: encode_values(np.concatenate(which))}
    links = replace(build_links(sources, owners, targets, edges), is_set=False)
    return links, {node.target: found, node.edge_variable: entities}


def _combine_parts(parts: Sequence[Listed | Numbered]) -> Entities:
    return parts[0] if len(parts) == 1 else Several(parts)


@dataclass(frozen=True, slots=True)
class _EdgesAt:
    """Distinct edges of a table, and each time one is followed: its ends and its place.

    An undirected edge may be followed from both of its ends.
    """

    reader: Reader
    edges: FoundRows
    near: pa.Array
    far: pa.Array
    places: Longs


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
            # Found from its source already, a self loop is not followed a second time.
            found = found.filter(pc.not_equal(found.column(SRC), found.column(DST)))
        parts.append(found)
        near.append(found.column(near_end))
        far.append(found.column(far_end))
    everything = concatenate_rows(parts)
    _, first, places = np.unique(everything.row_ids, return_index=True, return_inverse=True)
    return _EdgesAt(
        reader,
        everything.take(pa.array(first)),
        pa.concat_arrays(near),
        pa.concat_arrays(far),
        places.astype(np.int64),
    )


def _encode_far_ends(
    node: Expand,
    way: ExpansionPath,
    context: ReadContext,
    budget: LookupBudget,
    rows: Rows,
    far: pa.Array,
) -> tuple[Codes, Entities]:
    ids = pc.unique(far)
    entities, codes = find_targets_by_id(node, way, context, budget, rows, ids)
    return codes[np.asarray(pc.index_in(far, value_set=ids))], entities


# --- by numbers -----------------------------------------------------------------------------------


class EdgeWalker:
    """Answers block after block from the edges of whole tables."""

    rows_at_once = _PAIRS_AT_ONCE

    def __init__(self, node: Expand, way: ExpansionPath, context: ReadContext) -> None:
        assert node.edge_variable is not None, "the expansion binds its edges"
        self._node, self._way, self._variable = node, way, node.edge_variable
        self._numbering = context.nodes(way.source_type)
        self._targets = TargetFilter(node, way, context)
        self._entities, self._incidence = _get_incidence(node, way, context)

    def links(self, rows: Rows) -> NeighbourRows:
        sources = find_sources(self._node, self._way, rows)
        entities = rows.entities[self._node.source]
        numbers = entities.numbers(sources, self._numbering, self._way.source_type)
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
    node: Expand, way: ExpansionPath, context: ReadContext
) -> tuple[Entities, Incidence]:
    """The edges that pass their filters, by the node they start from."""
    if node.edge_filters:
        return _build_incidence(node, way, context)
    # Edges of several types are numbered one type after another, so their order counts here.
    key = ("incidence", *way.steps, *context.adjacency_key(way.steps))
    entities = _combine_parts([_list_all_edges(context, step) for step in way.steps])
    return entities, context.topology.get(key, lambda: _build_incidence(node, way, context)[1])


def _list_all_edges(context: ReadContext, step: EdgeStep) -> Numbered:
    reader = context.tables.edge(step.edge_type)
    return Numbered(reader, context.edges(step.edge_type), context.topology)


def _build_incidence(
    node: Expand, way: ExpansionPath, context: ReadContext
) -> tuple[Entities, Incidence]:
    assert node.edge_variable is not None, "the expansion binds its edges"
    parts, columns, start = [], [], 0
    for step in way.steps:
        entities, passing = find_passing_edges(context, step, node.edge_variable, node.edge_filters)
        near, far = context.ends(step)
        for sources, targets in _list_followed(step.direction, near[passing], far[passing]):
            columns.append((sources, targets, encode_values(passing + start)))
        parts.append(entities)
        start += entities.size
    sources, targets, edges = (np.concatenate(column) for column in zip(*columns, strict=True))
    return _combine_parts(parts), build_incidence(
        sources, targets, edges, context.nodes(way.source_type).size
    )


def _list_followed(direction: Direction, near: Codes, far: Codes) -> Sequence[tuple[Codes, Codes]]:
    """(source, target) of every edge for each way it is followed; -1 where it is not."""
    match direction:
        case Direction.OUT:
            return [(near, far)]
        case Direction.IN:
            return [(far, near)]
        case _:
            # Followed along the edge already, a self loop is not followed backwards too.
            return [(near, far), (np.where(near == far, MISSING, far).astype(np.int32), near)]

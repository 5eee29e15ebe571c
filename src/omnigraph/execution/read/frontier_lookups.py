"""Finding neighbours by looking up the ends of edges, for walks that touch little of a table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.read.adjacency import Adjacency, build_adjacency
from omnigraph.execution.read.arrays import (
    MISSING,
    Codes,
    Longs,
    encode_values,
    find_distinct,
    find_places,
)
from omnigraph.execution.read.context import ReadContext
from omnigraph.execution.read.expansion_path import ExpansionPath
from omnigraph.execution.read.hop_walk import Reached, walk
from omnigraph.execution.read.table_reader import DST, ID, SRC
from omnigraph.execution.read.traversal_choice import LookupBudget
from omnigraph.plan.nodes import Direction, EdgeStep

NO_IDS = pa.array([], pa.string())


@dataclass(frozen=True, slots=True)
class EdgePairs:
    """Edges as pairs of ids, seen in the direction they are followed."""

    sources: pa.Array
    targets: pa.Array


def look_up(context: ReadContext, steps: Sequence[EdgeStep], ids: pa.Array) -> EdgePairs:
    """Every edge that one of the steps follows from these nodes."""
    sources, targets = [NO_IDS], [NO_IDS]
    for step in steps:
        reader = context.tables.edge(step.edge_type)
        for near, far in list_followed_columns(step.direction):
            found = reader.find(near, ids, [SRC, DST])
            sources.append(found.column(near))
            targets.append(found.column(far))
    return EdgePairs(pa.concat_arrays(sources), pa.concat_arrays(targets))


def list_followed_columns(direction: Direction) -> tuple[tuple[str, str], ...]:
    """(near, far) columns of an edge for each way it may be followed."""
    match direction:
        case Direction.OUT:
            return ((SRC, DST),)
        case Direction.IN:
            return ((DST, SRC),)
        case _:
            return ((SRC, DST), (DST, SRC))


class Frontier:
    """Numbers ids as it meets them, and looks up the neighbours of the newest ones."""

    def __init__(
        self, context: ReadContext, way: ExpansionPath, budget: LookupBudget, start: pa.Array
    ) -> None:
        self.ids = start
        self._context, self._way, self._budget = context, way, budget

    def neighbours(self, nodes: Codes, hop: int) -> tuple[Longs, Codes]:
        wanted = find_distinct(nodes, len(self.ids))
        self._budget.look_up(len(wanted))
        ids = self.ids.take(pa.array(wanted))
        pairs = look_up(self._context, self._way.steps, ids)
        self._budget.note_found(len(pairs.targets))
        if hop < self._way.hops.maximum:
            pairs = self._with_nodes(pairs)
        found = self._adjacency(pairs, ids)
        return found.neighbours(find_places(nodes, wanted, len(self.ids)))

    def _with_nodes(self, pairs: EdgePairs) -> EdgePairs:
        """Only edges that lead to a node that is there, since the walk goes on from it."""
        reader = self._context.tables.node(self._way.target_type)
        there = reader.find(ID, pc.unique(pairs.targets), [ID]).column(ID)
        mask = pc.is_in(pairs.targets, value_set=there)
        return EdgePairs(pairs.sources.filter(mask), pairs.targets.filter(mask))

    def _adjacency(self, pairs: EdgePairs, ids: pa.Array) -> Adjacency:
        near = encode_values(
            np.asarray(pc.index_in(pairs.sources, value_set=ids).fill_null(MISSING))
        )
        far = self._number_ids(pairs.targets)
        return build_adjacency([(near, far)], len(ids))

    def _number_ids(self, ids: pa.Array) -> Codes:
        known = pc.is_in(ids, value_set=self.ids)
        self.ids = pa.concat_arrays([self.ids, pc.unique(ids.filter(pc.invert(known)))])
        return encode_values(np.asarray(pc.index_in(ids, value_set=self.ids)))


@dataclass(frozen=True, slots=True)
class FrontierResult:
    """What was reached, by id: `reached.nodes` are places in `ids`."""

    reached: Reached
    ids: pa.Array


def walk_by_lookups(
    context: ReadContext, way: ExpansionPath, budget: LookupBudget, start: pa.Array
) -> FrontierResult:
    """Everything in reach of the start ids. Ids of the last hop may belong to no node.

    Raises:
        Outgrown: it would take more look-ups than an adjacency costs.
    """
    if way.source_type != way.target_type:
        return _look_up_between_types(context, way, budget, start)
    frontier = Frontier(context, way, budget, start)
    begin = np.arange(len(start), dtype=np.int32)
    if way.hops.maximum > 1:
        return FrontierResult(walk(begin, frontier.neighbours, way.hops), frontier.ids)
    counts, nodes = frontier.neighbours(begin, 1)
    starts = encode_values(np.repeat(begin, counts))
    return FrontierResult(Reached(starts, nodes, np.ones(len(nodes), dtype=np.int32)), frontier.ids)


def _look_up_between_types(
    context: ReadContext, way: ExpansionPath, budget: LookupBudget, start: pa.Array
) -> FrontierResult:
    """One hop to another type, whose ids may look like those of the start."""
    budget.look_up(len(start))
    pairs = look_up(context, way.steps, start)
    budget.note_found(len(pairs.targets))
    ids = pc.unique(pairs.targets)
    near = encode_values(np.asarray(pc.index_in(pairs.sources, value_set=start).fill_null(MISSING)))
    far = encode_values(np.asarray(pc.index_in(pairs.targets, value_set=ids)))
    found = build_adjacency([(near, far)], len(start))
    starts = encode_values(np.repeat(np.arange(len(start)), np.diff(found.starts)))
    hops = np.ones(len(found.targets), dtype=np.int32)
    return FrontierResult(Reached(starts, found.targets, hops), ids)

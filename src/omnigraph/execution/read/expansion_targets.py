"""The nodes an expansion arrives at: existing, of the right kind, passing their filters."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from omnigraph.execution.read.arrays import MISSING, Codes, Flags, find_distinct
from omnigraph.execution.read.context import ReadContext
from omnigraph.execution.read.entities import Entities, sort_by_id
from omnigraph.execution.read.entity_links import Links, find_starts
from omnigraph.execution.read.expansion_path import ExpansionPath
from omnigraph.execution.read.node_scan import (
    filter_numbers,
    find_passing_numbers,
    restrict_filters,
    select_rows,
)
from omnigraph.execution.read.row_blocks import Rows
from omnigraph.execution.read.table_reader import ID
from omnigraph.execution.read.traversal_choice import LookupBudget, is_numbering_worthwhile
from omnigraph.plan.expressions import Predicate
from omnigraph.plan.nodes import Expand

_FEW_TARGETS = 1_000
"""So few targets are filtered by themselves; for more, the whole table is asked once."""

NeighbourRows = tuple[Links, dict[str, Entities]]
"""Links, and the entities that their targets and edges are codes of."""


def find_sources(node: Expand, way: ExpansionPath, rows: Rows) -> Codes:
    """The distinct sources that can have such edges at all."""
    entities = rows.entities[node.source]
    codes = find_distinct(rows.codes[node.source], entities.size)
    return codes[entities.are_of(codes, way.source_type)]


def find_targets_by_id(
    node: Expand,
    way: ExpansionPath,
    context: ReadContext,
    budget: LookupBudget,
    rows: Rows,
    ids: pa.Array,
) -> tuple[Entities, Codes]:
    """The target nodes among some distinct ids, and the code of each id or -1."""
    if node.closes:
        bound = rows.entities[node.target]
        return bound, bound.find(ids, way.target_type)
    budget.fetch(len(ids))
    filters = restrict_filters(node.target_filters, way.target_type)
    if is_numbering_worthwhile(context, way.target_type, len(ids)):
        return _find_numbered_targets(node, way, context, filters, ids)
    reader = context.tables.node(way.target_type)
    found = select_rows(context, reader, node.target, filters, node.target_columns, (ID, ids))
    entities = sort_by_id(reader, found)
    return entities, entities.find(ids, way.target_type)


def _find_numbered_targets(
    node: Expand,
    way: ExpansionPath,
    context: ReadContext,
    filters: Sequence[Predicate],
    ids: pa.Array,
) -> tuple[Entities, Codes]:
    """The same without a search: ids are found in memory, properties when they are asked for."""
    type_name = way.target_type
    codes = context.nodes(type_name).find(ids)
    if filters:
        some = np.sort(codes[codes >= 0])
        passing = filter_numbers(context, type_name, node.target, filters, some)
        codes = np.where(np.isin(codes, passing), codes, MISSING).astype(np.int32)
    return context.number_type(type_name), codes


def build_links(sources: Codes, owners: Codes, targets: Codes, extra: dict[str, Codes]) -> Links:
    """Links from pairs in any order; pairs without a target are dropped."""
    kept = np.flatnonzero(targets >= 0)
    order = kept[np.lexsort((targets[kept], owners[kept]))]
    columns = {name: column[order] for name, column in extra.items()}
    return Links(sources, find_starts(owners[order], len(sources)), targets[order], columns)


class TargetFilter:
    """From numbers of reached nodes to codes of the target variable, block after block."""

    def __init__(self, node: Expand, way: ExpansionPath, context: ReadContext) -> None:
        self._node, self._way, self._context = node, way, context
        self._passing: Flags | None = None

    def apply_filter(self, rows: Rows, links: Links) -> NeighbourRows:
        """The links whose target is the one bound already, or passes the filters."""
        node = self._node
        if node.closes:
            bound = rows.entities[node.target]
            return links.retarget(self._bound_codes(rows, bound)), {node.target: bound}
        if node.target_filters:
            links = links.keep(self._mask_passing(links.targets))
        return links, {node.target: self._context.number_type(self._way.target_type)}

    def _bound_codes(self, rows: Rows, bound: Entities) -> Codes:
        """For every number, the code it has among the entities that are bound already."""
        numbering = self._context.nodes(self._way.target_type)
        codes = find_distinct(rows.codes[self._node.target], bound.size)
        numbers = bound.numbers(codes, numbering, self._way.target_type)
        mapping = np.full(numbering.size, MISSING, dtype=np.int32)
        mapping[numbers[numbers >= 0]] = codes[numbers >= 0]
        return mapping

    def _mask_passing(self, targets: Codes) -> Flags:
        if self._passing is not None:
            return self._passing[targets]
        type_name, variable = self._way.target_type, self._node.target
        filters = restrict_filters(self._node.target_filters, type_name)
        passing: Flags = np.zeros(self._context.nodes(type_name).size, dtype=np.bool_)
        some = find_distinct(targets, len(passing))
        if len(some) <= _FEW_TARGETS:
            passing[filter_numbers(self._context, type_name, variable, filters, some)] = True
        else:
            passing[find_passing_numbers(self._context, type_name, variable, filters)] = True
            self._passing = passing
        return passing[targets]

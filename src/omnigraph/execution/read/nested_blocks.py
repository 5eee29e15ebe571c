"""Blocks inside a match: what must not be there, and what may be missing.

The rows around a block are told apart only by the variables the block speaks of; each distinct
combination is asked about once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from omnigraph.execution.read.arrays import MISSING, Groups, Longs, encode_values, expand_ranges
from omnigraph.execution.read.context import ReadContext
from omnigraph.execution.read.entities import Entities, Listed, Several
from omnigraph.execution.read.entity_links import find_starts
from omnigraph.execution.read.row_blocks import Rows, group_rows, join_blocks, split_portions
from omnigraph.execution.read.row_requirements import Demand, list_outer_variables
from omnigraph.execution.read.table_reader import ID, Reader
from omnigraph.plan.nodes import AntiJoin, Expand, Node, NodeScan, OptionalJoin
from omnigraph.plan.walk import list_children

RunInner = Callable[[Demand, Rows], Iterator[Rows]]
"""Run the block for these outer rows; every row it gives carries the number of one of them."""


@dataclass(frozen=True, slots=True)
class _BlockRequest:
    """The distinct combinations a block is asked about, and which one each row has."""

    rows: Rows
    groups: Groups


def _collect_requests(rows: Rows, inner: Node) -> _BlockRequest:
    relevant = replace(rows.only(list_outer_variables(inner)), origin=None, weights=None)
    groups = group_rows(relevant)
    numbers = np.arange(groups.count, dtype=np.int32)
    return _BlockRequest(replace(relevant.take(groups.first_row), origin=numbers), groups)


def run_anti_join(node: AntiJoin, child: Iterator[Rows], run: RunInner) -> Iterator[Rows]:
    """The rows for which the block has no match."""
    for block in child:
        asked = _collect_requests(block, node.inner)
        found = np.zeros(asked.groups.count, dtype=np.bool_)
        for inner in run(Demand(frozenset(), merge=True), asked.rows):
            assert inner.origin is not None, "rows of a block know where they belong"
            found[inner.origin] = True
        yield block.take(np.flatnonzero(~found[asked.groups.of_row]))


def run_optional_join(
    node: OptionalJoin, context: ReadContext, demand: Demand, child: Iterator[Rows], run: RunInner
) -> Iterator[Rows]:
    """Each row with every match of the block, or once with its variables missing."""
    blocks = list(child)
    if not blocks:
        return
    rows = join_blocks(blocks)
    asked = _collect_requests(rows, node.inner)
    wanted = [name for name in node.introduces if name in demand.variables]
    found = list(run(Demand(frozenset(wanted), merge=demand.merge), asked.rows))
    inner = join_blocks(found) if found else None
    yield from _extend_rows(rows, asked.groups, inner, _make_missing(node, context, wanted, inner))


def _extend_rows(
    rows: Rows, groups: Groups, inner: Rows | None, entities: Mapping[str, Entities | None]
) -> Iterator[Rows]:
    if inner is None:
        nothing = encode_values(np.full(rows.size, MISSING))
        yield rows.with_columns(
            dict.fromkeys(entities, nothing), {n: e for n, e in entities.items() if e is not None}
        )
        return
    assert inner.origin is not None, "rows of a block know where they belong"
    inner = inner.take(np.argsort(inner.origin, kind="stable"))
    assert inner.origin is not None, "sorting keeps it"
    starts = find_starts(inner.origin, groups.count)
    matches = np.diff(starts)[groups.of_row]
    counts = np.maximum(matches, 1)
    for first, last in split_portions(counts):
        which = expand_ranges(starts[groups.of_row[first:last]], counts[first:last])
        has = np.repeat(matches[first:last] > 0, counts[first:last])
        repeated = np.repeat(np.arange(first, last), counts[first:last])
        yield _place_beside(rows.take(repeated), inner, np.where(has, which, MISSING), entities)


def _place_beside(
    rows: Rows, inner: Rows, which: Longs, entities: Mapping[str, Entities | None]
) -> Rows:
    """Rows with the columns of the inner row at each place; -1 stands for none."""
    columns = {
        name: encode_values(np.where(which >= 0, inner.codes[name][which], MISSING))
        for name in entities
    }
    known = {name: inner.entities[name] for name in entities if name in inner.entities}
    both = rows.with_columns(columns, known)
    if inner.weights is None:
        return both
    return both.add_weights(np.where(which >= 0, inner.weights[which], 1))


# --- variables without a match ---------------------------------------------------------------


def _make_missing(
    node: OptionalJoin, context: ReadContext, wanted: list[str], inner: Rows | None
) -> dict[str, Entities | None]:
    """The entities of each wanted variable; when there is no match at all, empty ones."""
    if inner is not None:
        return {name: inner.entities.get(name) for name in wanted}
    readers = dict(_list_readers(node.inner, context))
    return {name: _make_empty(readers[name]) if name in readers else None for name in wanted}


def _make_empty(readers: list[Reader]) -> Entities:
    parts = [Listed(reader, reader.nothing([ID])) for reader in readers]
    return parts[0] if len(parts) == 1 else Several(parts)


def _list_readers(node: Node, context: ReadContext) -> Iterator[tuple[str, list[Reader]]]:
    """The tables behind every variable that a block binds."""
    match node:
        case NodeScan():
            yield node.variable, [context.tables.node(name) for name in node.types]
        case Expand():
            if not node.closes:
                yield node.target, [context.tables.node(context.ends_of(node.steps[0])[1])]
            if node.edge_variable is not None:
                edges = [context.tables.edge(step.edge_type) for step in node.steps]
                yield node.edge_variable, edges
        case _:
            pass
    for child in list_children(node):
        yield from _list_readers(child, context)

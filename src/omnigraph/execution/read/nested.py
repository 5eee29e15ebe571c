"""Blocks inside a match: what must not be there, and what may be missing.

The rows around a block are told apart only by the variables the block speaks of; each distinct
combination is asked about once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

import numpy as np

from omnigraph.execution.read.arrays import MISSING, Groups, Longs, codes_of, ranges
from omnigraph.execution.read.context import Context
from omnigraph.execution.read.demand import Demand, outer_variables
from omnigraph.execution.read.entities import Entities, Listed, Several
from omnigraph.execution.read.links import starts_of
from omnigraph.execution.read.reader import ID, Reader
from omnigraph.execution.read.rows import Rows, group_rows, joined, portions
from omnigraph.plan.nodes import AntiJoin, Expand, Node, NodeScan, OptionalJoin
from omnigraph.plan.walk import children_of

RunInner = Callable[[Demand, Rows], Iterator[Rows]]
"""Run the block for these outer rows; every row it gives carries the number of one of them."""


@dataclass(frozen=True, slots=True)
class _Asked:
    """The distinct combinations a block is asked about, and which one each row has."""

    rows: Rows
    groups: Groups


def _asked(rows: Rows, inner: Node) -> _Asked:
    relevant = replace(rows.only(outer_variables(inner)), origin=None, weights=None)
    groups = group_rows(relevant)
    numbers = np.arange(groups.count, dtype=np.int32)
    return _Asked(replace(relevant.take(groups.first_row), origin=numbers), groups)


def anti_join(node: AntiJoin, child: Iterator[Rows], run: RunInner) -> Iterator[Rows]:
    """The rows for which the block has no match."""
    for block in child:
        asked = _asked(block, node.inner)
        found = np.zeros(asked.groups.count, dtype=np.bool_)
        for inner in run(Demand(frozenset(), merge=True), asked.rows):
            assert inner.origin is not None, "rows of a block know where they belong"
            found[inner.origin] = True
        yield block.take(np.flatnonzero(~found[asked.groups.of_row]))


def optional_join(
    node: OptionalJoin, context: Context, demand: Demand, child: Iterator[Rows], run: RunInner
) -> Iterator[Rows]:
    """Each row with every match of the block, or once with its variables missing."""
    blocks = list(child)
    if not blocks:
        return
    rows = joined(blocks)
    asked = _asked(rows, node.inner)
    wanted = [name for name in node.introduces if name in demand.variables]
    found = list(run(Demand(frozenset(wanted), merge=demand.merge), asked.rows))
    inner = joined(found) if found else None
    yield from _extended(rows, asked.groups, inner, _nobody(node, context, wanted, inner))


def _extended(
    rows: Rows, groups: Groups, inner: Rows | None, entities: Mapping[str, Entities | None]
) -> Iterator[Rows]:
    if inner is None:
        nothing = codes_of(np.full(rows.size, MISSING))
        yield rows.with_columns(
            dict.fromkeys(entities, nothing), {n: e for n, e in entities.items() if e is not None}
        )
        return
    assert inner.origin is not None, "rows of a block know where they belong"
    inner = inner.take(np.argsort(inner.origin, kind="stable"))
    assert inner.origin is not None, "sorting keeps it"
    starts = starts_of(inner.origin, groups.count)
    matches = np.diff(starts)[groups.of_row]
    counts = np.maximum(matches, 1)
    for first, last in portions(counts):
        which = ranges(starts[groups.of_row[first:last]], counts[first:last])
        has = np.repeat(matches[first:last] > 0, counts[first:last])
        repeated = np.repeat(np.arange(first, last), counts[first:last])
        yield _beside(rows.take(repeated), inner, np.where(has, which, MISSING), entities)


def _beside(rows: Rows, inner: Rows, which: Longs, entities: Mapping[str, Entities | None]) -> Rows:
    """Rows with the columns of the inner row at each place; -1 stands for none."""
    columns = {
        name: codes_of(np.where(which >= 0, inner.codes[name][which], MISSING)) for name in entities
    }
    known = {name: inner.entities[name] for name in entities if name in inner.entities}
    both = rows.with_columns(columns, known)
    if inner.weights is None:
        return both
    return both.weighted(np.where(which >= 0, inner.weights[which], 1))


# --- variables nobody was found for ---------------------------------------------------------------


def _nobody(
    node: OptionalJoin, context: Context, wanted: list[str], inner: Rows | None
) -> dict[str, Entities | None]:
    """The entities of each wanted variable; when there is no match at all, empty ones."""
    if inner is not None:
        return {name: inner.entities.get(name) for name in wanted}
    readers = dict(_readers(node.inner, context))
    return {name: _empty(readers[name]) if name in readers else None for name in wanted}


def _empty(readers: list[Reader]) -> Entities:
    parts = [Listed(reader, reader.nothing([ID])) for reader in readers]
    return parts[0] if len(parts) == 1 else Several(parts)


def _readers(node: Node, context: Context) -> Iterator[tuple[str, list[Reader]]]:
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
    for child in children_of(node):
        yield from _readers(child, context)

"""Finding the nodes or edges of a type that pass conditions."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from omnigraph.execution.read.arrays import Codes, codes_of
from omnigraph.execution.read.context import Context
from omnigraph.execution.read.demand import Demand
from omnigraph.execution.read.entities import Entities, Listed, Numbered, Several, listed
from omnigraph.execution.read.named import ids_named, names_few
from omnigraph.execution.read.numbering import Numbering
from omnigraph.execution.read.pushdown import split
from omnigraph.execution.read.reader import ID, Found, Reader
from omnigraph.execution.read.resolve import of_type
from omnigraph.execution.read.rows import Rows
from omnigraph.execution.read.scores import matching_ids
from omnigraph.execution.read.strategy import numbering_pays
from omnigraph.execution.read.values import rows_kept
from omnigraph.plan.expressions import Predicate, TextMatch
from omnigraph.plan.nodes import EdgeStep, NodeScan
from omnigraph.plan.walk import conjuncts, operands_of, properties_used

_MOST_LISTED = 20_000
"""More nodes than this are numbered rather than listed: their ids need not be sorted then."""
_FIRST_BLOCK = 64
_BLOCK_GROWTH = 4
_LARGEST_BLOCK = 262_144

Keys = tuple[str, pa.Array]
"""A column of ids and the ids to look for in it."""


def scan(node: NodeScan, context: Context, demand: Demand) -> Iterator[Rows]:
    """One row for every node of the types that passes the filters, in the order of ids."""
    if demand.merge and node.variable not in demand.variables:
        count = sum(_count(node, name, context) for name in node.types)
        if count:
            yield Rows(1, weights=np.asarray([count], dtype=np.int64))
        return
    entities, codes = _found(node, context)
    everything = Rows(len(codes), {node.variable: codes}, {node.variable: entities})
    start, size = 0, _FIRST_BLOCK
    while start < everything.size:
        # Growing blocks: a limit is often reached within the first few rows.
        yield demand.shaped(everything.slice(start, start + size))
        start, size = start + size, min(_BLOCK_GROWTH * size, _LARGEST_BLOCK)


def _count(node: NodeScan, type_name: str, context: Context) -> int:
    reader = context.tables.node(type_name)
    filters = for_type(node.filters, type_name)
    parts = split(filters, reader, context.given)
    if parts.rest:
        return select(context, reader, node.variable, filters, []).size
    return reader.count(parts.filter)


def _found(node: NodeScan, context: Context) -> tuple[Entities, Codes]:
    if len(node.types) == 1:
        by_number = _named(node, context) or _numbered(node, context)
        if by_number is not None:
            return by_number
    found = [_listed(node, name, context) for name in node.types]
    entities = found[0] if len(found) == 1 else Several(found)
    return entities, np.arange(entities.size, dtype=np.int32)


def _listed(node: NodeScan, type_name: str, context: Context) -> Listed:
    reader = context.tables.node(type_name)
    filters = for_type(node.filters, type_name)
    return listed(reader, select(context, reader, node.variable, filters, node.columns))


def _named(node: NodeScan, context: Context) -> tuple[Entities, Codes] | None:
    """Nodes whose ids a condition names, found in memory; None where a search is the better way."""
    type_name = node.types[0]
    filters = [part for f in for_type(node.filters, type_name) for part in conjuncts(f)]
    for place, part in enumerate(filters):
        ids = ids_named(part, context.catalog.nodes[type_name], context.given)
        if ids is not None and numbering_pays(context, type_name, len(ids)):
            codes = context.nodes(type_name).find(pa.array(ids, pa.string()))
            rest = [*filters[:place], *filters[place + 1 :]]
            known = codes_of(np.unique(codes[codes >= 0]))
            found = numbers_among(context, type_name, node.variable, rest, known)
            return context.numbered(type_name), found
    return None


def _numbered(node: NodeScan, context: Context) -> tuple[Entities, Codes] | None:
    """The nodes by number, or None if they are too few for that to pay."""
    type_name = node.types[0]
    reader = context.tables.node(type_name)
    if not node.filters:
        if reader.row_count <= _MOST_LISTED and not context.has_nodes(type_name):
            return None
    elif (
        reader.row_count <= _MOST_LISTED
        or names_few(node.filters, context.catalog.nodes[type_name])
        or count_at_most(context, reader, node.filters, _MOST_LISTED) is not None
    ):
        return None
    codes = numbers_passing(context, type_name, node.variable, node.filters)
    return context.numbered(type_name), codes


def count_at_most(
    context: Context, reader: Reader, filters: Sequence[Predicate], most: int
) -> int | None:
    """How many rows pass what a scan can check; None for more than `most`."""
    parts = split(filters, reader, context.given)
    count = reader.count(parts.filter)
    return count if count <= most else None


def for_type(filters: Sequence[Predicate], type_name: str) -> tuple[Predicate, ...]:
    return tuple(of_type(predicate, type_name) for predicate in filters)


# --- rows of a table ------------------------------------------------------------------------------


def select(
    context: Context,
    reader: Reader,
    variable: str,
    filters: Sequence[Predicate],
    names: Sequence[str],
    keys: Keys | None = None,
) -> Found:
    """The rows that pass all filters, with their ids and the named columns, in no order.

    With `keys` only rows that have one of these ids in a column are looked at.
    """
    parts = split(filters, reader, context.given)
    wanted = sorted({ID, *names, *_read_by(parts.rest)})
    searched = next((p for p in parts.rest if isinstance(p, TextMatch)), None)
    rest = parts.rest
    if keys is None and searched is not None:
        # The words are looked up first: what remains to be read is only what has them.
        keys = (ID, matching_ids(context, searched, reader))
        rest = tuple(p for p in parts.rest if p is not searched)
    if keys is None:
        found = reader.read(wanted, parts.filter)
    else:
        found = reader.find(keys[0], keys[1], wanted, parts.filter)
    for predicate in rest:
        entities = Listed(reader, found)
        codes = np.arange(found.size, dtype=np.int32)
        kept = rows_kept(
            context, Rows(found.size, {variable: codes}, {variable: entities}), predicate
        )
        if kept.size < found.size:
            found = found.take(pa.array(kept.codes[variable]))
    return found


def _read_by(predicates: Sequence[Predicate]) -> set[str]:
    return {
        name
        for predicate in predicates
        for operand in operands_of(predicate)
        for _, name in properties_used(operand)
    }


def numbers_passing(
    context: Context, type_name: str, variable: str, filters: Sequence[Predicate]
) -> Codes:
    """The numbers of the nodes of a type that pass all filters, ascending."""
    numbering, reader = context.nodes(type_name), context.tables.node(type_name)
    parts = split(for_type(filters, type_name), reader, context.given)
    codes = np.arange(numbering.size, dtype=np.int32)
    if parts.filter is not None:
        codes = _numbers_found(reader, numbering, parts.filter)
    return numbers_among(context, type_name, variable, parts.rest, codes)


def numbers_among(
    context: Context, type_name: str, variable: str, filters: Sequence[Predicate], codes: Codes
) -> Codes:
    """Those of some ascending numbers that pass, found by looking at these nodes alone."""
    return _passing(context, variable, context.numbered(type_name), filters, codes)


def edges_passing(
    context: Context, step: EdgeStep, variable: str, filters: Sequence[Predicate]
) -> tuple[Numbered, Codes]:
    """All edges of a type, and the numbers of those that pass, ascending."""
    reader, numbering = context.tables.edge(step.edge_type), context.edges(step.edge_type)
    entities = Numbered(reader, numbering, context.topology)
    parts = split(filters, reader, context.given)
    codes = np.arange(numbering.size, dtype=np.int32)
    if parts.filter is not None:
        codes = _numbers_found(reader, numbering, parts.filter)
    return entities, _passing(context, variable, entities, parts.rest, codes)


def _numbers_found(reader: Reader, numbering: Numbering, filter: str) -> Codes:
    batches = [batch.row_ids for batch in reader.batches([], filter)]
    row_ids = np.concatenate([np.zeros(0, dtype=np.int64), *batches])
    return codes_of(np.sort(numbering.rows.find(row_ids)))


def _passing(
    context: Context,
    variable: str,
    entities: Entities,
    filters: Sequence[Predicate],
    codes: Codes,
) -> Codes:
    rows = Rows(len(codes), {variable: codes}, {variable: entities})
    for predicate in filters:
        rows = rows_kept(context, rows, predicate)
    return rows.codes[variable]

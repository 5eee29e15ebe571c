"""Scan the nodes or edges of a type: by id or unique key, by pushed-down filter, or in full."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
import pyarrow as pa

from omnigraph.catalog.catalog import ConstraintKind, NodeType
from omnigraph.execution.read.adjacency import TableCodes
from omnigraph.execution.read.code_arrays import Codes, encode_values
from omnigraph.execution.read.entities import (
    Entities,
    IndexedEntities,
    ScannedEntities,
    UnionEntities,
    sort_by_id,
)
from omnigraph.execution.read.expression_values import filter_rows
from omnigraph.execution.read.pushdown import split
from omnigraph.execution.read.read_context import Given, ReadContext, is_fixed, restrict_to_type
from omnigraph.execution.read.row_blocks import Demand, Rows
from omnigraph.execution.read.scores import find_matching_ids
from omnigraph.execution.read.table_reader import ID, FoundRows, Reader
from omnigraph.execution.read.traversal_choice import is_encoding_worthwhile
from omnigraph.plan.expressions import (
    Comparator,
    Compare,
    Constant,
    EntityId,
    InList,
    Operand,
    ParameterValue,
    Predicate,
    PropertyValue,
    TextMatch,
)
from omnigraph.plan.plan_nodes import EdgeStep, NodeScan
from omnigraph.plan.walk import list_conjuncts, list_operands_of, list_used_properties
from omnigraph.types.canonical_strings import encode_canonical
from omnigraph.types.property import INTEGERS, PropertyType, Scalar

_ID_TYPE = PropertyType(Scalar.STRING)


def is_point_lookup(predicates: Sequence[Predicate], type_: NodeType) -> bool:
    """Return whether few rows pass: an id or unique property is fixed, or text is searched."""
    for part in (part for predicate in predicates for part in list_conjuncts(predicate)):
        match part:
            case Compare(left, Comparator.EQ, right):
                sides = ((left, right), (right, left))
                if any(_is_identifying(one, type_) and is_fixed(other) for one, other in sides):
                    return True
            case InList(value, _) if _is_identifying(value, type_):
                return True
            case TextMatch():
                return True
            case _:
                pass
    return False


def _is_identifying(operand: Operand, type_: NodeType) -> bool:
    if not isinstance(operand, PropertyValue):
        return isinstance(operand, EntityId)
    unique = (*type_.of_kind(ConstraintKind.KEY), *type_.of_kind(ConstraintKind.UNIQUE))
    return any(constraint.columns == (operand.property,) for constraint in unique)


def find_named_ids(predicate: Predicate, type_: NodeType, given: Given) -> list[str] | None:
    """Return the ids of exactly the nodes that match a condition; None if it fixes none.

    The nodes need not exist. An id, or a key of one member, identifies a node: ids derive from
    keys.
    """
    match predicate:
        case Compare(left, Comparator.EQ, right):
            for named, other in ((left, right), (right, left)):
                wanted = _find_naming_type(named, type_)
                if wanted is not None and isinstance(other, Constant | ParameterValue):
                    return _list_ids([given.value(other)], wanted)
        case InList(value, items):
            wanted = _find_naming_type(value, type_)
            if wanted is not None:
                members = given.value(items)
                return _list_ids(members if isinstance(members, list | tuple) else [], wanted)
        case _:
            pass
    return None


def _find_naming_type(operand: Operand, type_: NodeType) -> PropertyType | None:
    """The type of an identifying property: texts and integers, which have one canonical form."""
    if isinstance(operand, EntityId):
        return _ID_TYPE
    if not isinstance(operand, PropertyValue) or len(type_.key) != 1:
        return None
    (member,) = type_.key
    is_plain = member.type.scalar is Scalar.STRING or member.type.scalar in INTEGERS
    return member.type if member.name == operand.property and is_plain else None


def _list_ids(values: Sequence[object], wanted: PropertyType) -> list[str] | None:
    """Convert values to ids; None if one has another type than its column."""
    kind = str if wanted.scalar is Scalar.STRING else int
    there = [value for value in values if value is not None]
    if any(type(value) is not kind for value in there):
        return None
    return [encode_canonical(value, wanted) for value in there]


_MAX_LISTED = 20_000
"""Above this number of nodes entity codes are used, so that ids need not be sorted."""
_FIRST_BLOCK = 64
_BLOCK_GROWTH = 4
_LARGEST_BLOCK = 262_144

Keys = tuple[str, pa.Array]
"""A column of ids and the ids to find in it."""


def scan(node: NodeScan, context: ReadContext, demand: Demand) -> Iterator[Rows]:
    """Yield a row for every node of the types that passes the filters, in the order of ids."""
    if demand.merge and node.variable not in demand.variables:
        count = sum(_count(node, name, context) for name in node.types)
        if count:
            yield Rows(1, weights=np.asarray([count], dtype=np.int64))
        return
    entities, codes = _find_nodes(node, context)
    everything = Rows(len(codes), {node.variable: codes}, {node.variable: entities})
    start, size = 0, _FIRST_BLOCK
    while start < everything.size:
        # Growing blocks: a limit is often reached within the first few rows.
        yield demand.with_shape(everything.slice(start, start + size))
        start, size = start + size, min(_BLOCK_GROWTH * size, _LARGEST_BLOCK)


def _count(node: NodeScan, type_name: str, context: ReadContext) -> int:
    reader = context.tables.node(type_name)
    filters = restrict_filters(node.filters, type_name)
    parts = split(filters, reader, context.given)
    if parts.rest:
        return select_rows(context, reader, node.variable, filters, []).size
    return reader.count(parts.filter)


def _find_nodes(node: NodeScan, context: ReadContext) -> tuple[Entities, Codes]:
    if len(node.types) == 1:
        by_number = _find_named_nodes(node, context) or _find_encoded_nodes(node, context)
        if by_number is not None:
            return by_number
    found = [_list_nodes(node, name, context) for name in node.types]
    entities = found[0] if len(found) == 1 else UnionEntities(found)
    return entities, np.arange(entities.size, dtype=np.int32)


def _list_nodes(node: NodeScan, type_name: str, context: ReadContext) -> ScannedEntities:
    reader = context.tables.node(type_name)
    filters = restrict_filters(node.filters, type_name)
    return sort_by_id(reader, select_rows(context, reader, node.variable, filters, node.columns))


def _find_named_nodes(node: NodeScan, context: ReadContext) -> tuple[Entities, Codes] | None:
    """Look up the nodes whose ids are fixed by a condition; None if a scan is cheaper."""
    type_name = node.types[0]
    filters = [
        part for f in restrict_filters(node.filters, type_name) for part in list_conjuncts(f)
    ]
    for position, part in enumerate(filters):
        ids = find_named_ids(part, context.catalog.nodes[type_name], context.given)
        if ids is not None and is_encoding_worthwhile(context, type_name, len(ids)):
            codes = context.nodes(type_name).find(pa.array(ids, pa.string()))
            rest = [*filters[:position], *filters[position + 1 :]]
            known = encode_values(np.unique(codes[codes >= 0]))
            found = filter_codes(context, type_name, node.variable, rest, known)
            return context.list_entities(type_name), found
    return None


def _find_encoded_nodes(node: NodeScan, context: ReadContext) -> tuple[Entities, Codes] | None:
    """The nodes by entity code, or None if they are too few to load all codes."""
    type_name = node.types[0]
    reader = context.tables.node(type_name)
    if not node.filters:
        if reader.row_count <= _MAX_LISTED and not context.has_nodes(type_name):
            return None
    elif (
        reader.row_count <= _MAX_LISTED
        or is_point_lookup(node.filters, context.catalog.nodes[type_name])
        or count_at_most(context, reader, node.filters, _MAX_LISTED) is not None
    ):
        return None
    codes = find_passing_codes(context, type_name, node.variable, node.filters)
    return context.list_entities(type_name), codes


def count_at_most(
    context: ReadContext, reader: Reader, filters: Sequence[Predicate], most: int
) -> int | None:
    """Count the rows that pass the filters a scan can evaluate; None for more than `most`."""
    parts = split(filters, reader, context.given)
    count = reader.count(parts.filter)
    return count if count <= most else None


def restrict_filters(filters: Sequence[Predicate], type_name: str) -> tuple[Predicate, ...]:
    return tuple(restrict_to_type(predicate, type_name) for predicate in filters)


# --- rows of a table ------------------------------------------------------------------------------


def select_rows(
    context: ReadContext,
    reader: Reader,
    variable: str,
    filters: Sequence[Predicate],
    names: Sequence[str],
    keys: Keys | None = None,
) -> FoundRows:
    """Select the rows that pass all filters, with ids and the named columns, unordered.

    With `keys`, only rows with one of these ids in a column are read.
    """
    parts = split(filters, reader, context.given)
    wanted = sorted({ID, *names, *_read_by(parts.rest)})
    searched = next((p for p in parts.rest if isinstance(p, TextMatch)), None)
    rest = parts.rest
    if keys is None and searched is not None:
        # Words are looked up first; then only rows that contain them are read.
        keys = (ID, find_matching_ids(context, searched, reader))
        rest = tuple(p for p in parts.rest if p is not searched)
    if keys is None:
        found = reader.read(wanted, parts.filter)
    else:
        found = reader.find(keys[0], keys[1], wanted, parts.filter)
    for predicate in rest:
        entities = ScannedEntities(reader, found)
        codes = np.arange(found.size, dtype=np.int32)
        kept = filter_rows(
            context, Rows(found.size, {variable: codes}, {variable: entities}), predicate
        )
        if kept.size < found.size:
            found = found.take(pa.array(kept.codes[variable]))
    return found


def _read_by(predicates: Sequence[Predicate]) -> set[str]:
    return {
        name
        for predicate in predicates
        for operand in list_operands_of(predicate)
        for _, name in list_used_properties(operand)
    }


def find_passing_codes(
    context: ReadContext, type_name: str, variable: str, filters: Sequence[Predicate]
) -> Codes:
    """The codes of the nodes of a type that pass all filters, ascending."""
    table_codes, reader = context.nodes(type_name), context.tables.node(type_name)
    parts = split(restrict_filters(filters, type_name), reader, context.given)
    codes = np.arange(table_codes.size, dtype=np.int32)
    if parts.filter is not None:
        codes = _find_codes(reader, table_codes, parts.filter)
    return filter_codes(context, type_name, variable, parts.rest, codes)


def filter_codes(
    context: ReadContext, type_name: str, variable: str, filters: Sequence[Predicate], codes: Codes
) -> Codes:
    """The codes of some ascending ones that pass, reading these nodes only."""
    return _filter_passing(context, variable, context.list_entities(type_name), filters, codes)


def find_passing_edges(
    context: ReadContext, step: EdgeStep, variable: str, filters: Sequence[Predicate]
) -> tuple[IndexedEntities, Codes]:
    """All edges of a type, and the codes of those that pass, ascending."""
    reader, table_codes = context.tables.edge(step.edge_type), context.edges(step.edge_type)
    entities = IndexedEntities(reader, table_codes, context.topology)
    parts = split(filters, reader, context.given)
    codes = np.arange(table_codes.size, dtype=np.int32)
    if parts.filter is not None:
        codes = _find_codes(reader, table_codes, parts.filter)
    return entities, _filter_passing(context, variable, entities, parts.rest, codes)


def _find_codes(reader: Reader, table_codes: TableCodes, filter: str) -> Codes:
    batches = [batch.row_ids for batch in reader.batches([], filter)]
    row_ids = np.concatenate([np.zeros(0, dtype=np.int64), *batches])
    return encode_values(np.sort(table_codes.rows.find(row_ids)))


def _filter_passing(
    context: ReadContext,
    variable: str,
    entities: Entities,
    filters: Sequence[Predicate],
    codes: Codes,
) -> Codes:
    rows = Rows(len(codes), {variable: codes}, {variable: entities})
    for predicate in filters:
        rows = filter_rows(context, rows, predicate)
    return rows.codes[variable]

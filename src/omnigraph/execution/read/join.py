"""Join the rows of two parts of a match; anti joins and optional joins of nested blocks."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from omnigraph.execution.read.code_arrays import (
    MISSING,
    Groups,
    Integers,
    Longs,
    combine_codes,
    encode_values,
    expand_ranges,
)
from omnigraph.execution.read.entities import Entities, ScannedEntities, UnionEntities
from omnigraph.execution.read.expression_values import Values
from omnigraph.execution.read.neighbours import find_starts
from omnigraph.execution.read.read_context import ReadContext
from omnigraph.execution.read.row_blocks import (
    BLOCK_ROWS,
    Demand,
    Rows,
    group_rows,
    join_blocks,
    list_outer_variables,
    split_portions,
)
from omnigraph.execution.read.sort import encode_value_codes
from omnigraph.execution.read.table_reader import ID, Reader
from omnigraph.plan.expressions import (
    Comparator,
    Compare,
    EntityId,
    Operand,
    Predicate,
    PropertyValue,
    TypeNameValue,
)
from omnigraph.plan.plan_nodes import AntiJoin, Expand, Node, NodeScan, OptionalJoin, OuterRows
from omnigraph.plan.walk import list_children, list_variables
from omnigraph.types.property import FLOATS, PropertyType, Scalar

_LARGEST_SIGNED = frozenset({Scalar.I32, Scalar.I64, Scalar.U32})


def list_bound_variables(node: Node) -> frozenset[str]:
    """Every variable the rows of a node may have."""
    own: set[str | None] = set()
    match node:
        case NodeScan():
            own = {node.variable}
        case OuterRows():
            own = set(node.variables)
        case Expand():
            own = {node.target, node.edge_variable, node.hop_variable}
        case _:
            pass
    found = frozenset(name for name in own if name is not None)
    for child in list_children(node):
        found |= list_bound_variables(child)
    return found


# --- equalities across a join ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Equality:
    """A value of the left side that must equal one of the right side."""

    left: Operand
    right: Operand


def find_join_condition(predicate: Predicate, left: Node, right: Node) -> Equality | None:
    """The predicate as a join condition, if it is an equality of both parts."""
    if not isinstance(predicate, Compare) or predicate.op is not Comparator.EQ:
        return None
    if not _to_same_form(predicate.left, predicate.right):
        return None
    for one, other in ((predicate.left, predicate.right), (predicate.right, predicate.left)):
        if list_variables(one) <= list_bound_variables(left) and list_variables(
            other
        ) <= list_bound_variables(right):
            return Equality(one, other)
    return None


def _to_same_form(one: Operand, other: Operand) -> bool:
    """Return whether equal values of the two have equal codes; others are compared as values."""
    plain = PropertyValue | EntityId | TypeNameValue
    if not isinstance(one, plain) or not isinstance(other, plain):
        return False
    types = {one.type.scalar, other.type.scalar}
    return not types & FLOATS and (len(types) == 1 or types <= _LARGEST_SIGNED)


def _widen(values: pa.Array, type_: PropertyType) -> pa.Array:
    return values.cast(pa.int64()) if type_.scalar in _LARGEST_SIGNED else values


# --- joins ----------------------------------------------------------------------------------------


def join(
    context: ReadContext,
    left: Iterator[Rows],
    right: Callable[[], Iterator[Rows]],
    equalities: Sequence[Equality],
) -> Iterator[Rows]:
    """Join each row of the left side with every matching row of the right side, in order."""
    first = next(left, None)
    blocks = list(right()) if first is not None else []
    if first is None or not blocks:
        return
    others = join_blocks(blocks)
    pair = _find_matching(context, others, equalities) if equalities else _conjoin(others)
    yield from pair(first)
    for block in left:
        yield from pair(block)


Pairing = Callable[[Rows], Iterator[Rows]]


def _conjoin(others: Rows) -> Pairing:
    def pair(rows: Rows) -> Iterator[Rows]:
        for piece in rows.pieces(max(1, BLOCK_ROWS // others.size)):
            near = np.repeat(np.arange(piece.size), others.size)
            yield _join_columns(piece, near, others, np.tile(np.arange(others.size), piece.size))

    return pair


def _find_matching(context: ReadContext, others: Rows, equalities: Sequence[Equality]) -> Pairing:
    def pair(rows: Rows) -> Iterator[Rows]:
        near, far = _join_keys(context, rows, others, equalities)
        order = np.argsort(far, kind="stable")
        order = order[far[order] >= 0]
        count = int(max(near.max(initial=-1), far.max(initial=-1))) + 1
        starts = find_starts(far[order], count)
        counts = np.where(near >= 0, np.diff(starts)[near] if count else 0, 0)
        which = order[expand_ranges(starts[near], counts)]
        repeated = np.repeat(np.arange(rows.size), counts)
        for start in range(0, len(which), BLOCK_ROWS):
            part = slice(start, start + BLOCK_ROWS)
            yield _join_columns(rows, repeated[part], others, which[part])

    return pair


def _join_keys(
    context: ReadContext, left: Rows, right: Rows, equalities: Sequence[Equality]
) -> tuple[Longs, Longs]:
    """One code per row of both sides, equal where all values are; -1 where one is NULL."""
    near, far = Values(context, left), Values(context, right)
    columns: list[tuple[Integers, int]] = []
    known = np.ones(left.size + right.size, dtype=np.bool_)
    for pair in equalities:
        values = [
            _widen(side.of(operand), _get_plain_type(operand))
            for side, operand in ((near, pair.left), (far, pair.right))
        ]
        codes = encode_value_codes(pa.concat_arrays(values))
        known &= codes.codes >= 0
        columns.append((codes.codes, codes.size))
    keys = combine_codes(columns, len(known))[0]
    dense = np.unique(keys, return_inverse=True)[1].astype(np.int64)
    dense = np.where(known, dense, -1)
    return dense[: left.size], dense[left.size :]


def _get_plain_type(operand: Operand) -> PropertyType:
    assert isinstance(operand.type, PropertyType), "only plain values are joined by"
    return operand.type


def _join_columns(left: Rows, near: Longs, right: Rows, far: Longs) -> Rows:
    one, other = left.take(near), right.take(far)
    both = replace(
        one,
        codes={**one.codes, **other.codes},
        entities={**one.entities, **other.entities},
    )
    return both.add_weights(other.weights)


RunInner = Callable[[Demand, Rows], Iterator[Rows]]
"""Run the block for these outer rows; each result row carries the number of one of them."""


@dataclass(frozen=True, slots=True)
class _BlockRequest:
    """The distinct outer rows of a block, and the index of that of each row."""

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
            assert inner.origin is not None, "rows of a block have an origin"
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
    assert inner.origin is not None, "rows of a block have an origin"
    inner = inner.take(np.argsort(inner.origin, kind="stable"))
    assert inner.origin is not None, "sorting keeps the origin"
    starts = find_starts(inner.origin, groups.count)
    matches = np.diff(starts)[groups.of_row]
    counts = np.maximum(matches, 1)
    for first, last in split_portions(counts):
        which = expand_ranges(starts[groups.of_row[first:last]], counts[first:last])
        has = np.repeat(matches[first:last] > 0, counts[first:last])
        repeated = np.repeat(np.arange(first, last), counts[first:last])
        yield _join_beside(rows.take(repeated), inner, np.where(has, which, MISSING), entities)


def _join_beside(
    rows: Rows, inner: Rows, which: Longs, entities: Mapping[str, Entities | None]
) -> Rows:
    """Append the columns of the inner row at each position; -1 is no row."""
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
    """Return the entities of each variable; empty ones if there is no match at all."""
    if inner is not None:
        return {name: inner.entities.get(name) for name in wanted}
    readers = dict(_list_readers(node.inner, context))
    return {name: _make_empty(readers[name]) if name in readers else None for name in wanted}


def _make_empty(readers: list[Reader]) -> Entities:
    parts = [ScannedEntities(reader, reader.nothing([ID])) for reader in readers]
    return parts[0] if len(parts) == 1 else UnionEntities(parts)


def _list_readers(node: Node, context: ReadContext) -> Iterator[tuple[str, list[Reader]]]:
    """List the tables of every variable that a block binds."""
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

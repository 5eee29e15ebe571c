"""Putting the rows of two parts of a match together."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from omnigraph.execution.read.arrays import Integers, Longs, combine_codes, expand_ranges
from omnigraph.execution.read.context import ReadContext
from omnigraph.execution.read.entity_links import find_starts
from omnigraph.execution.read.expression_values import Values
from omnigraph.execution.read.row_blocks import BLOCK_ROWS, Rows, join_blocks
from omnigraph.execution.read.sort_keys import encode_value_codes
from omnigraph.plan.expressions import (
    Comparator,
    Compare,
    EntityId,
    Operand,
    Predicate,
    PropertyValue,
    TypeNameValue,
)
from omnigraph.plan.nodes import Expand, Node, NodeScan, OuterRows
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
    """A value of the left part that must equal one of the right part."""

    left: Operand
    right: Operand


def find_join_condition(predicate: Predicate, left: Node, right: Node) -> Equality | None:
    """The predicate as a condition to join by, if it is one."""
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
    """Whether equal values of the two have equal codes; floats and wide integers are compared."""
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
    """Every row of the left part with every row of the right part that fits it, in that order."""
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
    """One number for each row of either side, equal where all values are; -1 where one is NULL."""
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

"""Evaluate predicates on Arrow columns: exact comparisons, with NULL as the third truth value."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import Any, TypeAlias, assert_never

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.plan.expressions import (
    AllOf,
    AnyOf,
    Comparator,
    Compare,
    Constant,
    EntityId,
    FusedScore,
    HopCount,
    InList,
    IsNull,
    NotP,
    NowValue,
    Operand,
    OutputValue,
    ParameterValue,
    Predicate,
    PropertyValue,
    TextMatch,
    TextScore,
    TypeNameValue,
    VectorDistance,
)
from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.property import FLOATS, PropertyType

Datum: TypeAlias = "pa.Array | pa.Scalar"
"""A column, or a scalar that is repeated in every row."""

Flags = np.ndarray[Any, np.dtype[np.bool_]]

_ORDERED: Mapping[Comparator, Callable[[Datum, Datum], pa.Array]] = {
    Comparator.EQ: pc.equal,
    Comparator.NE: pc.not_equal,
    Comparator.LT: pc.less,
    Comparator.LE: pc.less_equal,
    Comparator.GT: pc.greater,
    Comparator.GE: pc.greater_equal,
}
_MIRRORED = {
    Comparator.EQ: Comparator.EQ,
    Comparator.NE: Comparator.NE,
    Comparator.LT: Comparator.GT,
    Comparator.LE: Comparator.GE,
    Comparator.GT: Comparator.LT,
    Comparator.GE: Comparator.LE,
}
_PARTS: Mapping[Comparator, Callable[[str, str], bool]] = {
    Comparator.CONTAINS: str.__contains__,
    Comparator.STARTS_WITH: str.startswith,
    Comparator.ENDS_WITH: str.endswith,
}
_UNKNOWN = pa.scalar(None, pa.bool_())
_WHOLE_BOUNDS = {pa.int64(): (-(2.0**63), 2.0**63), pa.uint64(): (0.0, 2.0**64)}
"""The floats an integer can equal: from the first up to but excluding the second."""


def compare(op: Comparator, left: Datum, right: Datum, rows: int) -> pa.Array:
    """Compare two data; return a truth value for each of `rows` rows, NULL where either is NULL."""
    left, right = _combine_chunks(left), _combine_chunks(right)
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.nulls(rows, pa.bool_())
    match op:
        case Comparator.HAS:
            return _has(left, right, rows)
        case Comparator.CONTAINS | Comparator.STARTS_WITH | Comparator.ENDS_WITH:
            return _compare_texts(op, to_column(left, rows), right)
        case _:
            return _compare_order(op, to_column(left, rows), right)


def to_column(datum: Datum, rows: int) -> pa.Array:
    """Return the datum as one array; a scalar is repeated."""
    flat = _combine_chunks(datum)
    return pa.repeat(flat, rows) if isinstance(flat, pa.Scalar) else flat


def _combine_chunks(datum: Datum) -> Datum:
    return datum.combine_chunks() if isinstance(datum, pa.ChunkedArray) else datum


# --- order and equality --------------------------------------------------------------------------


def _compare_order(op: Comparator, left: pa.Array, right: Datum) -> pa.Array:
    kinds = (left.type, right.type)
    if left.type == right.type or not all(map(_is_number, kinds)):
        return _ORDERED[op](left, right)
    if all(map(pa.types.is_integer, kinds)):
        return _compare_integers(op, left, right)
    if all(map(pa.types.is_floating, kinds)):
        return _ORDERED[op](left.cast(pa.float64()), right.cast(pa.float64()))
    if pa.types.is_integer(left.type):
        return _compare_integer_with_float(op, left, to_column(right, len(left)))
    return _compare_integer_with_float(_MIRRORED[op], to_column(right, len(left)), left)


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _compare_integers(op: Comparator, left: pa.Array, right: Datum) -> pa.Array:
    if pa.uint64() not in (left.type, right.type):
        return _ORDERED[op](left.cast(pa.int64()), right.cast(pa.int64()))
    # Wide unsigned integers fit no signed column: compare as decimals, which hold both.
    wide = pa.decimal128(20, 0)
    return _ORDERED[op](left.cast(wide), right.cast(wide))


def _compare_integer_with_float(op: Comparator, whole: pa.Array, real: pa.Array) -> pa.Array:
    """Compare integers with floats, without rounding either.

    A float is at or just above its floor, and that fits the type of the integers unless the float
    is out of its range. The result therefore depends on the floor, and on whether the float exceeds
    it.
    """
    wide = pa.uint64() if whole.type == pa.uint64() else pa.int64()
    low, high = _WHOLE_BOUNDS[wide]
    numbers = np.asarray(whole.cast(wide).fill_null(0))
    values = np.asarray(real.cast(pa.float64()).fill_null(0.0))
    floors = np.floor(values)
    fits = (floors >= low) & (floors < high)
    steps = np.where(fits, floors, 0.0).astype(numbers.dtype)
    has_fraction = values != floors
    level = fits & (numbers == steps)
    equal = level & ~has_fraction
    less = np.where(fits, (numbers < steps) | (level & has_fraction), values >= high)
    answer = _evaluate_operator(op, less, equal, np.isnan(values))
    known = np.asarray(pc.and_(pc.is_valid(whole), pc.is_valid(real)))
    return pa.array(answer, mask=~known)


def _evaluate_operator(op: Comparator, less: Flags, equal: Flags, unordered: Flags) -> Flags:
    match op:
        case Comparator.EQ:
            return equal
        case Comparator.NE:
            return ~equal
        case Comparator.LT:
            return less
        case Comparator.LE:
            return less | equal
        case Comparator.GT:
            return ~(less | equal | unordered)
        case _:
            return ~(less | unordered)


# --- membership ----------------------------------------------------------------------------------


def is_member(values: pa.Array, members: Iterable[object]) -> pa.Array:
    """Mask the values that equal a member; NULL for NULL, and a NULL member equals nothing."""
    chosen = [member for member in members if member is not None]
    if _is_number(values.type):
        numbers = [member for member in chosen if isinstance(member, int | float)]
        fitting = _match_integers if pa.types.is_integer(values.type) else _match_floats
        chosen = [*fitting(numbers, values.type)]
    found = pc.is_in(values, value_set=pa.array(chosen, values.type))
    return pc.if_else(pc.is_valid(values), found, _UNKNOWN)


def _match_integers(numbers: Iterable[float], kind: pa.DataType) -> Iterable[float]:
    """Yield the numbers that are integers of this width; the others equal none."""
    bounds = np.iinfo(kind.to_pandas_dtype())
    whole = (int(n) for n in numbers if isinstance(n, int) or n.is_integer())
    return (n for n in whole if bounds.min <= n <= bounds.max)


def _match_floats(numbers: Iterable[float], kind: pa.DataType) -> Iterable[float]:
    """Yield the numbers that are floats of this width; the others equal none.

    NaN equals nothing, and zero is included with both signs, since lookups compare bits.
    """
    wide = pa.array([float(n) for n in numbers if float(n) == n], pa.float64())
    narrow = wide.cast(kind, safe=False).cast(pa.float64())
    exact = wide.filter(pc.equal(wide, narrow)).to_pylist()
    return [*exact, -0.0, 0.0] if 0.0 in exact else exact


def _has(lists: Datum, value: Datum, rows: int) -> pa.Array:
    """Mask the lists with an element equal to the value; NULL for a NULL list or value."""
    if isinstance(lists, pa.Scalar):
        if not lists.is_valid:
            return pa.nulls(rows, pa.bool_())
        return is_member(to_column(value, rows), lists.as_py())
    lengths = np.asarray(pc.list_value_length(lists).fill_null(0))
    # A null list may still cover elements: flattening leaves them out, so its length counts as 0.
    elements, owners = pc.list_flatten(lists), np.repeat(np.arange(rows), lengths)
    wanted = value if isinstance(value, pa.Scalar) else value.take(pa.array(owners))
    equal = _compare_order(Comparator.EQ, elements, wanted)
    found = np.zeros(rows, dtype=bool)
    found[owners[np.asarray(equal.fill_null(False), dtype=bool)]] = True
    known = pc.and_(pc.is_valid(lists), pc.is_valid(to_column(value, rows)))
    return pa.array(found, mask=~np.asarray(known))


# --- texts ---------------------------------------------------------------------------------------


def _compare_texts(op: Comparator, left: pa.Array, right: Datum) -> pa.Array:
    if isinstance(right, pa.Scalar):
        if not right.is_valid:
            return pa.nulls(len(left), pa.bool_())
        needle = right.as_py()
        if op is Comparator.CONTAINS:
            return pc.match_substring(left, needle)
        return (pc.starts_with if op is Comparator.STARTS_WITH else pc.ends_with)(left, needle)
    # Arrow searches many texts for one only. To search each row for another text, loop in strings
    # without running Python code; NumPy is slower, and ignores null characters.
    texts, parts = (
        pc.fill_null(column, "").to_numpy(zero_copy_only=False) for column in (left, right)
    )
    found = np.fromiter(map(_PARTS[op], texts, parts), dtype=bool, count=len(left))
    known = pc.and_(pc.is_valid(left), pc.is_valid(right))
    return pa.array(found, mask=~np.asarray(known))


@dataclass(frozen=True)
class RowScope:
    """Values of variables while a predicate is evaluated.

    `column` returns the values of a column of a variable, one for each of `rows` rows.
    """

    rows: int
    column: Callable[[str, str], pa.Array]
    parameters: Mapping[str, object]
    now: datetime.datetime


def evaluate(predicate: Predicate, scope: RowScope) -> pa.Array:
    """Evaluate a predicate to true, false or NULL per row; only true keeps a row."""
    match predicate:
        case Compare(left, op, right):
            return compare(
                op, evaluate_operand(left, scope), evaluate_operand(right, scope), scope.rows
            )
        case InList(value, items):
            return _evaluate_in_list(value, items, scope)
        case IsNull(operand):
            return pc.is_null(to_column(evaluate_operand(operand, scope), scope.rows))
        case AllOf(items):
            return _evaluate_joined(pc.and_kleene, items, scope, of_none=True)
        case AnyOf(items):
            return _evaluate_joined(pc.or_kleene, items, scope, of_none=False)
        case NotP(item):
            return pc.invert(evaluate(item, scope))
        case TextMatch():
            raise AssertionError("text conditions are answered by the search operators")
        case _:
            assert_never(predicate)


def evaluate_mask(predicate: Predicate, scope: RowScope) -> pa.Array:
    """Evaluate a predicate to a mask without NULLs."""
    return evaluate(predicate, scope).fill_null(False)


def _evaluate_joined(
    join: Callable[[pa.Array, pa.Array], pa.Array],
    items: tuple[Predicate, ...],
    scope: RowScope,
    *,
    of_none: bool,
) -> pa.Array:
    answers = [evaluate(item, scope) for item in items]
    return reduce(join, answers) if answers else pa.repeat(pa.scalar(of_none), scope.rows)


def _evaluate_in_list(
    value: Operand, items: Constant | ParameterValue, scope: RowScope
) -> pa.Array:
    """Evaluate membership by value: integers and fractions compare exactly."""
    chosen = items.value if isinstance(items, Constant) else scope.parameters[items.name]
    if chosen is None:
        return pa.nulls(scope.rows, pa.bool_())
    assert isinstance(chosen, list | tuple), "the binder lets only lists through"
    return is_member(to_column(evaluate_operand(value, scope), scope.rows), chosen)


def evaluate_operand(operand: Operand, scope: RowScope) -> Datum:
    match operand:
        case Constant():
            return make_scalar(operand.value, operand.type)
        case ParameterValue():
            return make_scalar(scope.parameters[operand.name], operand.type)
        case NowValue():
            return make_scalar(scope.now, operand.type)
        case PropertyValue():
            return scope.column(operand.variable, operand.property)
        case EntityId():
            return scope.column(operand.variable, "id")
        case (
            TypeNameValue()
            | HopCount()
            | VectorDistance()
            | TextScore()
            | FusedScore()
            | TextMatch()
            | OutputValue()
        ):
            raise AssertionError(f"{type(operand).__name__} is computed by its own operator")
        case _:
            assert_never(operand)


def make_scalar(value: object, type_: PropertyType) -> pa.Scalar:
    """Convert one value to Arrow; integers become floats for a float type."""
    if isinstance(value, tuple):
        value = list(value)
    if type_.scalar in FLOATS or type_.is_vector:
        value = [_as_float(v) for v in value] if isinstance(value, list) else _as_float(value)
    return pa.scalar(value, to_arrow_type(type_))


def _as_float(value: object) -> object:
    # Arrow rejects an integer that a float cannot represent, instead of rounding it.
    return float(value) if isinstance(value, int) else value

"""Exact comparisons of Arrow columns.

Arrow compares a whole number with a float by turning it into a float, which is wrong from 2**53
on. Here numbers of different types compare as the numbers they are.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.plan.expressions import Comparator

Datum: TypeAlias = "pa.Array | pa.Scalar"
"""A column, or one value that stands for a column of it."""

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
"""The floats a whole number can equal: from the first up to but not including the second."""


def compare(op: Comparator, left: Datum, right: Datum, rows: int) -> pa.Array:
    """One truth value for each of `rows` rows; NULL where either side is NULL."""
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
    """The datum as one array: a single value is repeated."""
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
    # Wide unsigned numbers fit no signed column: compare as decimals, which hold both.
    wide = pa.decimal128(20, 0)
    return _ORDERED[op](left.cast(wide), right.cast(wide))


def _compare_integer_with_float(op: Comparator, whole: pa.Array, real: pa.Array) -> pa.Array:
    """Whole numbers on the left, floats on the right, without rounding either.

    A float stands at or just above the whole number below it, its floor, and that one fits the
    type of the whole numbers unless the float is beyond all of them. So everything is decided by
    the floor and by whether the float is more than its floor.
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
    """Whether each value equals one of the members; NULL for NULL, and a NULL member is no one."""
    chosen = [member for member in members if member is not None]
    if _is_number(values.type):
        numbers = [member for member in chosen if isinstance(member, int | float)]
        fitting = _match_integers if pa.types.is_integer(values.type) else _match_floats
        chosen = [*fitting(numbers, values.type)]
    found = pc.is_in(values, value_set=pa.array(chosen, values.type))
    return pc.if_else(pc.is_valid(values), found, _UNKNOWN)


def _match_integers(numbers: Iterable[float], kind: pa.DataType) -> Iterable[float]:
    """Those numbers that are whole numbers of this width; the rest equal none."""
    bounds = np.iinfo(kind.to_pandas_dtype())
    whole = (int(n) for n in numbers if isinstance(n, int) or n.is_integer())
    return (n for n in whole if bounds.min <= n <= bounds.max)


def _match_floats(numbers: Iterable[float], kind: pa.DataType) -> Iterable[float]:
    """Those numbers that are floats of this width; the rest equal none.

    NaN equals nothing, and zero is there with both signs: a look-up by bits would differ.
    """
    wide = pa.array([float(n) for n in numbers if float(n) == n], pa.float64())
    narrow = wide.cast(kind, safe=False).cast(pa.float64())
    exact = wide.filter(pc.equal(wide, narrow)).to_pylist()
    return [*exact, -0.0, 0.0] if 0.0 in exact else exact


def _has(lists: Datum, value: Datum, rows: int) -> pa.Array:
    """Whether any non-null element equals the value; NULL for a NULL list or value."""
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
    # Arrow looks for one text in many only. Strings look for another one in each row, in a loop
    # that runs no Python code; NumPy takes longer, and would leave null characters out of account.
    texts, parts = (
        pc.fill_null(column, "").to_numpy(zero_copy_only=False) for column in (left, right)
    )
    found = np.fromiter(map(_PARTS[op], texts, parts), dtype=bool, count=len(left))
    known = pc.and_(pc.is_valid(left), pc.is_valid(right))
    return pa.array(found, mask=~np.asarray(known))

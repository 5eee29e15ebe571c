"""Exact comparisons of Arrow columns.

Arrow compares a whole number with a float by turning it into a float, which is wrong from 2**53
on. Here numbers of different types compare as the numbers they are.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, TypeAlias

import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.plan.expressions import Comparator

Datum: TypeAlias = "pa.Array | pa.Scalar"
"""A column, or one value that stands for a column of it."""

Floats = np.ndarray[Any, np.dtype[np.float64]]
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


def compare(op: Comparator, left: Datum, right: Datum, rows: int) -> pa.Array:
    """One truth value for each of `rows` rows; NULL where either side is NULL."""
    match op:
        case Comparator.HAS:
            return _has(as_column(left, rows), as_column(right, rows))
        case Comparator.CONTAINS | Comparator.STARTS_WITH | Comparator.ENDS_WITH:
            return _text(op, as_column(left, rows), right)
        case _:
            return _ordered(op, as_column(left, rows), right)


def as_column(datum: Datum, rows: int) -> pa.Array:
    if isinstance(datum, pa.ChunkedArray):
        return datum.combine_chunks()
    return datum if isinstance(datum, pa.Array) else pa.repeat(datum, rows)


def _ordered(op: Comparator, left: pa.Array, right: Datum) -> pa.Array:
    kinds = (left.type, right.type)
    if pa.types.is_null(left.type) or pa.types.is_null(right.type):
        return pa.nulls(len(left), pa.bool_())
    if left.type == right.type or not all(_is_number(k) for k in kinds):
        return _ORDERED[op](left, right)
    if pa.types.is_floating(left.type) and pa.types.is_integer(right.type):
        return _whole_against_float(_MIRRORED[op], as_column(right, len(left)), left)
    if pa.types.is_integer(left.type) and pa.types.is_floating(right.type):
        return _whole_against_float(op, left, as_column(right, len(left)))
    if pa.types.is_integer(left.type):
        return _whole_against_whole(op, left, as_column(right, len(left)))
    return _ORDERED[op](left.cast(pa.float64()), right.cast(pa.float64()))


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))


def _whole_against_whole(op: Comparator, left: pa.Array, right: pa.Array) -> pa.Array:
    if pa.uint64() not in (left.type, right.type):
        return _ORDERED[op](left.cast(pa.int64()), right.cast(pa.int64()))
    # Wide unsigned numbers fit no signed column: compare as decimals, which hold both.
    wide = pa.decimal128(20, 0)
    return _ORDERED[op](left.cast(wide), right.cast(wide))


def _whole_against_float(op: Comparator, whole: pa.Array, real: pa.Array) -> pa.Array:
    """Whole numbers on the left, floats on the right, without rounding either.

    A whole number is below `f` exactly when it is below the next whole number from `f` up, and
    not above `f` exactly when it is not above the next one down.
    """
    values = np.asarray(real.cast(pa.float64()).fill_null(0.0))
    rounded = np.ceil(values) if op in (Comparator.LT, Comparator.GE) else np.floor(values)
    in_range = np.isfinite(values) & (np.abs(rounded) < 2.0**63)
    bounds = pa.array(np.where(in_range, rounded, 0.0).astype(np.int64))
    exact = np.asarray(_whole_against_whole(op, whole, bounds).fill_null(False))
    fractional = in_range & (values != rounded)
    answer = exact
    if op is Comparator.EQ:
        answer = np.where(fractional, False, answer)
    elif op is Comparator.NE:
        answer = np.where(fractional, True, answer)
    answer = np.where(in_range, answer, _beyond(op, whole, values))
    known = np.asarray(pc.and_(pc.is_valid(whole), pc.is_valid(real)))
    return pa.array(answer.astype(bool), mask=~known)


def _beyond(op: Comparator, whole: pa.Array, values: Floats) -> Flags:
    """The answer where the float is NaN, infinite or outside the signed range."""
    as_float = np.asarray(whole.cast(pa.float64(), safe=False).fill_null(0.0))
    with np.errstate(invalid="ignore"):
        table: Mapping[Comparator, Flags] = {
            Comparator.EQ: as_float == values,
            Comparator.NE: as_float != values,
            Comparator.LT: as_float < values,
            Comparator.LE: as_float <= values,
            Comparator.GT: as_float > values,
            Comparator.GE: as_float >= values,
        }
    return table[op]


def _text(op: Comparator, left: pa.Array, right: Datum) -> pa.Array:
    if isinstance(right, pa.Scalar):
        if not right.is_valid:
            return pa.nulls(len(left), pa.bool_())
        needle = right.as_py()
        if op is Comparator.CONTAINS:
            return pc.match_substring(left, needle)
        return (pc.starts_with if op is Comparator.STARTS_WITH else pc.ends_with)(left, needle)
    frame = pl.DataFrame({"text": pl.from_arrow(left), "part": pl.from_arrow(right)})
    text, part = pl.col("text").str, pl.col("part")
    match op:
        case Comparator.CONTAINS:
            found = text.contains(part, literal=True)
        case Comparator.STARTS_WITH:
            found = text.starts_with(part)
        case _:
            found = text.ends_with(part)
    known = part.is_not_null() & pl.col("text").is_not_null()
    answer = frame.select(pl.when(known).then(found).alias("found"))["found"].to_arrow()
    return answer.cast(pa.bool_())


def _has(lists: pa.Array, value: pa.Array) -> pa.Array:
    """Whether any non-null element equals the value; NULL for a NULL list or value."""
    parents = pc.list_parent_indices(lists)
    elements = pc.list_flatten(lists)
    equal = _ordered(Comparator.EQ, elements, value.take(parents))
    found = np.zeros(len(lists), dtype=bool)
    hits = np.asarray(equal.fill_null(False), dtype=bool)
    found[np.asarray(parents)[hits]] = True
    known = np.asarray(pc.and_(pc.is_valid(lists), pc.is_valid(value)))
    return pa.array(found, mask=~known)

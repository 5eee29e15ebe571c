"""Comparisons of a number column with a constant, written so that no conversion can round.

The substrate converts a constant to the type of the column, or the column to the type of the
constant. Both are harmless once the constant is one that the column itself could hold, so the
constant is first moved to such a neighbour, and the comparison with it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from omnigraph.plan.expressions import Comparator
from omnigraph.storage.tables import quote_literal


@dataclass(frozen=True, slots=True)
class Condition:
    """Filter text for the rows a predicate is true for, and for those it is false for.

    A row for which it is unknown is in neither, so nothing here ever has to be negated.
    """

    true: str
    false: str

    def negate(self) -> Condition:
        return Condition(self.false, self.true)


NOWHERE = "FALSE"
UNKNOWN = Condition(NOWHERE, NOWHERE)


def make_always_true(column: str) -> Condition:
    """True for every row that has a value."""
    return Condition(f"{column} IS NOT NULL", NOWHERE)


def make_never_true(column: str) -> Condition:
    return make_always_true(column).negate()


def compare_integers(
    column: str, kind: pa.DataType, op: Comparator, value: float | int
) -> Condition:
    """A column of whole numbers against any number."""
    if math.isnan(value):
        return make_always_true(column) if op is Comparator.NE else make_never_true(column)
    match op:
        case Comparator.EQ:
            return _compare_equal_integer(column, kind, value)
        case Comparator.NE:
            return _compare_equal_integer(column, kind, value).negate()
        case Comparator.GE:
            return _compare_at_least(column, kind, _round_up(value))
        case Comparator.LT:
            return _compare_at_least(column, kind, _round_up(value)).negate()
        case Comparator.GT:
            return _compare_at_least(column, kind, _round_down(value) + 1)
        case _:
            return _compare_at_least(column, kind, _round_down(value) + 1).negate()


def fit_integer(kind: pa.DataType, value: float | int) -> int | None:
    """The constant as the column would hold it, if it can."""
    low, high = _get_integer_range(kind)
    if not math.isfinite(value) or value != int(value) or not low <= value <= high:
        return None
    return int(value)


def _compare_equal_integer(column: str, kind: pa.DataType, value: float | int) -> Condition:
    whole = fit_integer(kind, value)
    if whole is None:
        return make_never_true(column)
    if whole == _SMALLEST:
        return _compare_at_least(column, kind, whole + 1).negate()
    return Condition(f"{column} = {whole}", f"{column} != {whole}")


def _compare_at_least(column: str, kind: pa.DataType, least: float | int) -> Condition:
    low, high = _get_integer_range(kind)
    if least <= low:
        return make_always_true(column)
    if least > high:
        return make_never_true(column)
    return Condition(f"{column} >= {int(least)}", f"{column} < {int(least)}")


_SMALLEST = -(2**63)
"""Written out, this one is read as the negation of a number that is too large."""


def _get_integer_range(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    return (
        (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if pa.types.is_signed_integer(kind)
        else (
            0,
            2**bits - 1,
        )
    )


def _round_up(value: float | int) -> float | int:
    return math.ceil(value) if math.isfinite(value) else value


def _round_down(value: float | int) -> float | int:
    return math.floor(value) if math.isfinite(value) else value


def compare_floats(column: str, kind: pa.DataType, op: Comparator, value: float | int) -> Condition:
    """A column of floats against any number, with IEEE's answers for NaN and for signed zeros.

    The substrate may order NaN above infinity, or below minus infinity by its sign, and may tell
    the two zeros apart; each text here means the same either way.
    """
    if isinstance(value, float) and math.isnan(value):
        return make_always_true(column) if op is Comparator.NE else make_never_true(column)
    below, above = find_neighbours(kind, value)
    match op:
        case Comparator.EQ:
            return _compare_equal_float(column, below, above)
        case Comparator.NE:
            return _compare_equal_float(column, below, above).negate()
        case Comparator.GT if below == above:
            return _compare_greater(
                column, f"{column} > {_render_bound(above, 0.0)}", f"{column} <= ", above, 0.0
            )
        case Comparator.GT | Comparator.GE:
            return _compare_greater(
                column, f"{column} >= {_render_bound(above, -0.0)}", f"{column} < ", above, -0.0
            )
        case Comparator.LT if below == above:
            return _compare_smaller(
                column, f"{column} < {_render_bound(below, -0.0)}", f"{column} >= ", below, -0.0
            )
        case _:
            return _compare_smaller(
                column, f"{column} <= {_render_bound(below, 0.0)}", f"{column} > ", below, 0.0
            )


def fit_float(kind: pa.DataType, value: float | int) -> float | None:
    """The constant as the column would hold it, if it can; zeros and NaN need more care."""
    below, above = find_neighbours(kind, value)
    return below if below == above else None


def find_neighbours(kind: pa.DataType, value: float | int) -> tuple[float, float]:
    """The closest numbers of the column's width from below and from above; equal when exact."""
    width = np.float32 if pa.types.is_float32(kind) else np.float64
    with np.errstate(over="ignore"):
        try:
            nearest = width(value)
        except OverflowError:
            nearest = width(math.inf if value > 0 else -math.inf)
    # Python compares an int with a float as the numbers they are.
    close = float(nearest)
    if close == value:
        return close, close
    if close < value:
        return close, float(np.nextafter(nearest, width(math.inf)))
    return float(np.nextafter(nearest, width(-math.inf))), close


def _compare_equal_float(column: str, below: float, above: float) -> Condition:
    if below != above:
        return make_never_true(column)
    if below == 0:
        inside = f"({column} >= -0.0 AND {column} <= 0.0)"
        return Condition(inside, f"({column} < -0.0 OR {column} > 0.0)")
    return Condition(f"{column} = {quote_literal(below)}", f"{column} != {quote_literal(below)}")


def _compare_greater(column: str, true: str, false: str, bound: float, zero: float) -> Condition:
    infinity = quote_literal(math.inf)
    return Condition(
        f"({true} AND {column} <= {infinity})",
        f"({false}{_render_bound(bound, zero)} OR {column} > {infinity})",
    )


def _compare_smaller(column: str, true: str, false: str, bound: float, zero: float) -> Condition:
    infinity = quote_literal(-math.inf)
    return Condition(
        f"({true} AND {column} >= {infinity})",
        f"({false}{_render_bound(bound, zero)} OR {column} < {infinity})",
    )


def _render_bound(bound: float, zero: float) -> str:
    return quote_literal(zero if bound == 0 else bound)

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
from omnigraph.storage.tables.quoting import literal


@dataclass(frozen=True, slots=True)
class Condition:
    """Filter text for the rows a predicate is true for, and for those it is false for.

    A row for which it is unknown is in neither, so nothing here ever has to be negated.
    """

    true: str
    false: str

    def negated(self) -> Condition:
        return Condition(self.false, self.true)


NOWHERE = "FALSE"
UNKNOWN = Condition(NOWHERE, NOWHERE)


def always(column: str) -> Condition:
    """True for every row that has a value."""
    return Condition(f"{column} IS NOT NULL", NOWHERE)


def never(column: str) -> Condition:
    return always(column).negated()


def compare_integers(
    column: str, kind: pa.DataType, op: Comparator, value: float | int
) -> Condition:
    """A column of whole numbers against any number."""
    if math.isnan(value):
        return always(column) if op is Comparator.NE else never(column)
    match op:
        case Comparator.EQ:
            return _equals_integer(column, kind, value)
        case Comparator.NE:
            return _equals_integer(column, kind, value).negated()
        case Comparator.GE:
            return _at_least(column, kind, _ceiling(value))
        case Comparator.LT:
            return _at_least(column, kind, _ceiling(value)).negated()
        case Comparator.GT:
            return _at_least(column, kind, _floor(value) + 1)
        case _:
            return _at_least(column, kind, _floor(value) + 1).negated()


def integer_in(kind: pa.DataType, value: float | int) -> int | None:
    """The constant as the column would hold it, if it can."""
    low, high = _integer_range(kind)
    if not math.isfinite(value) or value != int(value) or not low <= value <= high:
        return None
    return int(value)


def _equals_integer(column: str, kind: pa.DataType, value: float | int) -> Condition:
    whole = integer_in(kind, value)
    if whole is None:
        return never(column)
    if whole == _SMALLEST:
        return _at_least(column, kind, whole + 1).negated()
    return Condition(f"{column} = {whole}", f"{column} != {whole}")


def _at_least(column: str, kind: pa.DataType, least: float | int) -> Condition:
    low, high = _integer_range(kind)
    if least <= low:
        return always(column)
    if least > high:
        return never(column)
    return Condition(f"{column} >= {int(least)}", f"{column} < {int(least)}")


_SMALLEST = -(2**63)
"""Written out, this one is read as the negation of a number that is too large."""


def _integer_range(kind: pa.DataType) -> tuple[int, int]:
    bits = kind.bit_width
    return (
        (-(2 ** (bits - 1)), 2 ** (bits - 1) - 1)
        if pa.types.is_signed_integer(kind)
        else (
            0,
            2**bits - 1,
        )
    )


def _ceiling(value: float | int) -> float | int:
    return math.ceil(value) if math.isfinite(value) else value


def _floor(value: float | int) -> float | int:
    return math.floor(value) if math.isfinite(value) else value


def compare_floats(column: str, kind: pa.DataType, op: Comparator, value: float | int) -> Condition:
    """A column of floats against any number, with IEEE's answers for NaN and for signed zeros.

    The substrate may order NaN above infinity, or below minus infinity by its sign, and may tell
    the two zeros apart; each text here means the same either way.
    """
    if isinstance(value, float) and math.isnan(value):
        return always(column) if op is Comparator.NE else never(column)
    below, above = neighbours(kind, value)
    match op:
        case Comparator.EQ:
            return _equals_float(column, below, above)
        case Comparator.NE:
            return _equals_float(column, below, above).negated()
        case Comparator.GT if below == above:
            return _greater(column, f"{column} > {_text(above, 0.0)}", f"{column} <= ", above, 0.0)
        case Comparator.GT | Comparator.GE:
            return _greater(
                column, f"{column} >= {_text(above, -0.0)}", f"{column} < ", above, -0.0
            )
        case Comparator.LT if below == above:
            return _smaller(
                column, f"{column} < {_text(below, -0.0)}", f"{column} >= ", below, -0.0
            )
        case _:
            return _smaller(column, f"{column} <= {_text(below, 0.0)}", f"{column} > ", below, 0.0)


def float_in(kind: pa.DataType, value: float | int) -> float | None:
    """The constant as the column would hold it, if it can; zeros and NaN need more care."""
    below, above = neighbours(kind, value)
    return below if below == above else None


def neighbours(kind: pa.DataType, value: float | int) -> tuple[float, float]:
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


def _equals_float(column: str, below: float, above: float) -> Condition:
    if below != above:
        return never(column)
    if below == 0:
        inside = f"({column} >= -0.0 AND {column} <= 0.0)"
        return Condition(inside, f"({column} < -0.0 OR {column} > 0.0)")
    return Condition(f"{column} = {literal(below)}", f"{column} != {literal(below)}")


def _greater(column: str, true: str, false: str, bound: float, zero: float) -> Condition:
    infinity = literal(math.inf)
    return Condition(
        f"({true} AND {column} <= {infinity})",
        f"({false}{_text(bound, zero)} OR {column} > {infinity})",
    )


def _smaller(column: str, true: str, false: str, bound: float, zero: float) -> Condition:
    infinity = literal(-math.inf)
    return Condition(
        f"({true} AND {column} >= {infinity})",
        f"({false}{_text(bound, zero)} OR {column} < {infinity})",
    )


def _text(bound: float, zero: float) -> str:
    return literal(zero if bound == 0 else bound)

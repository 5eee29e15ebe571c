"""Push predicates down to scans as filter text.

A predicate that cannot be expressed exactly is evaluated in memory.
"""

from __future__ import annotations

import datetime
import math
import operator
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import pyarrow as pa
import pyarrow.types as pat

from omnigraph.execution.predicates import RowScope, evaluate
from omnigraph.execution.read.read_context import Given, is_fixed
from omnigraph.execution.read.table_reader import ID, Reader
from omnigraph.plan.expressions import (
    AllOf,
    AnyOf,
    Comparator,
    Compare,
    Constant,
    EntityId,
    InList,
    IsNull,
    NotP,
    NowValue,
    Operand,
    ParameterValue,
    Predicate,
    PropertyValue,
    TextMatch,
)
from omnigraph.plan.walk import list_conjuncts
from omnigraph.storage.tables import quote_identifier, quote_literal


@dataclass(frozen=True, slots=True)
class Condition:
    """Filter text for the rows a predicate is true for, and for those it is false for.

    A row for which it is unknown is in neither, so that filters are never negated.
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
    """Compare a column of integers with a number."""
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
    """The constant in the type of the column, if it fits."""
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
"""The smallest integer: its literal would be parsed as the negation of a larger one."""


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
    """Compare a column of floats with a number, as IEEE 754 does for NaN and signed zeros.

    Lance may order NaN above infinity, or below minus infinity by its sign, and may distinguish the
    two zeros; these texts have the same meaning either way.
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
    """Round a constant to the type of the column, if it fits; zeros and NaN are special."""
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


EVERYWHERE = "TRUE"
_MAX_LIST = 5_000

_MIRRORED = {
    Comparator.EQ: Comparator.EQ,
    Comparator.NE: Comparator.NE,
    Comparator.LT: Comparator.GT,
    Comparator.LE: Comparator.GE,
    Comparator.GT: Comparator.LT,
    Comparator.GE: Comparator.LE,
}
_OPPOSITE = {
    Comparator.EQ: Comparator.NE,
    Comparator.NE: Comparator.EQ,
    Comparator.LT: Comparator.GE,
    Comparator.GE: Comparator.LT,
    Comparator.GT: Comparator.LE,
    Comparator.LE: Comparator.GT,
}
_PYTHON: Mapping[Comparator, Callable[[bool, bool], bool]] = {
    Comparator.EQ: operator.eq,
    Comparator.NE: operator.ne,
    Comparator.LT: operator.lt,
    Comparator.LE: operator.le,
    Comparator.GT: operator.gt,
    Comparator.GE: operator.ge,
}
_SQL_TYPES = {
    pa.int32(): "INT",
    pa.int64(): "BIGINT",
    pa.uint32(): "INT UNSIGNED",
    pa.uint64(): "BIGINT UNSIGNED",
    pa.float32(): "FLOAT",
    pa.float64(): "DOUBLE",
}
"""A number is compared with list elements in exactly their type."""
_TEXT_FUNCTIONS = {
    Comparator.CONTAINS: "contains",
    Comparator.STARTS_WITH: "starts_with",
    Comparator.ENDS_WITH: "ends_with",
}


@dataclass(frozen=True, slots=True)
class FilterSplit:
    """A conjunction split into the filter of a scan and the remaining predicates."""

    filter: str | None
    rest: tuple[Predicate, ...]


def split(predicates: Iterable[Predicate], reader: Reader, given: Given) -> FilterSplit:
    writer = _FilterWriter(reader, given)
    texts: list[str] = []
    rest: list[Predicate] = []
    for predicate in predicates:
        for part in list_conjuncts(predicate):
            condition = writer.condition(part)
            if condition is None:
                rest.append(part)
            elif condition.true != EVERYWHERE:
                texts.append(condition.true)
    return FilterSplit(_write_all_of(texts) if texts else None, tuple(rest))


def _write_all_of(texts: Sequence[str]) -> str:
    if NOWHERE in texts:
        return NOWHERE
    return texts[0] if len(texts) == 1 else " AND ".join(f"({text})" for text in texts)


def _write_any_of(texts: Sequence[str]) -> str:
    if EVERYWHERE in texts:
        return EVERYWHERE
    some = [text for text in texts if text != NOWHERE]
    return NOWHERE if not some else " OR ".join(f"({text})" for text in some)


@dataclass(frozen=True, slots=True)
class _FilterWriter:
    """Writes conditions as filters of Lance, for one table."""

    reader: Reader
    given: Given

    def condition(self, predicate: Predicate) -> Condition | None:
        """The predicate as filter text, or None when some part cannot be expressed exactly."""
        match predicate:
            case Compare(left, op, right):
                return self._compare(left, op, right)
            case InList(value, items):
                return self._in_list(value, items)
            case IsNull(operand):
                return self._is_null(operand)
            case TextMatch():
                return None
            case AllOf(items) | AnyOf(items):
                parts = [self.condition(item) for item in items]
                found = [part for part in parts if part is not None]
                if len(found) < len(parts):
                    return None
                true, false = [p.true for p in found], [p.false for p in found]
                if isinstance(predicate, AllOf):
                    return Condition(_write_all_of(true), _write_any_of(false))
                return Condition(_write_any_of(true), _write_all_of(false))
            case NotP(item):
                inner = self.condition(item)
                return None if inner is None else inner.negate()
            case _:
                assert_never(predicate)

    def _compare(self, left: Operand, op: Comparator, right: Operand) -> Condition | None:
        if is_fixed(left) and is_fixed(right):
            return self._write_decided(Compare(left, op, right))
        if is_fixed(left) and op in _MIRRORED:
            return self._compare(right, _MIRRORED[op], left)
        if not isinstance(right, Constant | ParameterValue | NowValue):
            return None
        name = _get_column_name(left)
        if name is None:
            return None
        field, value = self.reader.get_stored_field(name), self.given.value(right)
        if field is None or value is None:
            return UNKNOWN
        return _write_comparison(quote_identifier(field.name), field.type, op, value)

    def _in_list(self, value: Operand, items: Constant | ParameterValue) -> Condition | None:
        if is_fixed(value):
            return self._write_decided(InList(value, items))
        name, members = _get_column_name(value), self.given.value(items)
        if name is None:
            return None
        field = self.reader.get_stored_field(name)
        if field is None or members is None:
            return UNKNOWN
        assert isinstance(members, list | tuple), "the binder lets only lists through"
        column = quote_identifier(field.name)
        texts = [_write_exact(field.type, member) for member in members if member is not None]
        if len(texts) > _MAX_LIST or None in texts:
            return None
        listed = sorted({text for text in texts if text})
        if not listed:
            return make_never_true(column)
        inside = ", ".join(listed)
        # Two bare NOT INs joined by OR are simplified to TRUE, NULL or not.
        outside = f"({column} NOT IN ({inside}) AND {column} IS NOT NULL)"
        return Condition(f"{column} IN ({inside})", outside)

    def _is_null(self, operand: Operand) -> Condition | None:
        if is_fixed(operand):
            return self._write_decided(IsNull(operand))
        name = _get_column_name(operand)
        if name is None:
            return None
        field = self.reader.get_stored_field(name)
        if field is None:
            return Condition(EVERYWHERE, NOWHERE)
        column = quote_identifier(field.name)
        return Condition(f"{column} IS NULL", f"{column} IS NOT NULL")

    def _write_decided(self, predicate: Predicate) -> Condition:
        """Evaluate a predicate without columns, constant for all rows."""
        scope = RowScope(1, _refuse_column, self.given.parameters, self.given.now)
        answer = evaluate(predicate, scope)[0].as_py()
        if answer is None:
            return UNKNOWN
        found = Condition(EVERYWHERE, NOWHERE)
        return found if answer else found.negate()


def _refuse_column(variable: str, name: str) -> pa.Array:
    raise AssertionError(f"{variable}.{name} is a column of a predicate without columns")


def _get_column_name(operand: Operand) -> str | None:
    match operand:
        case PropertyValue():
            return operand.property
        case EntityId():
            return ID
        case _:
            return None


def _write_comparison(
    column: str, kind: pa.DataType, op: Comparator, value: object
) -> Condition | None:
    """One comparison of a column with a value that is not NULL."""
    if op is Comparator.HAS:
        return _has(column, kind, value)
    if op in _TEXT_FUNCTIONS:
        assert isinstance(value, str), "the binder lets only strings through"
        text = f"{_TEXT_FUNCTIONS[op]}({column}, {quote_literal(value)})"
        return Condition(text, f"NOT {text}")
    if isinstance(value, bool):
        return _compare_flags(column, op, value=value)
    if isinstance(value, int | float):
        compare = compare_integers if pat.is_integer(kind) else compare_floats
        return compare(column, kind, op, value)
    if isinstance(value, str | datetime.date):
        text = quote_literal(value)
        return Condition(f"{column} {op} {text}", f"{column} {_OPPOSITE[op]} {text}")
    return None


def _compare_flags(column: str, op: Comparator, *, value: bool) -> Condition:
    """Compare booleans, false being smaller: a comparison selects none, one or both values."""
    passing = [flag for flag in (False, True) if _PYTHON[op](flag, value)]
    if len(passing) == 1:
        wanted = passing[0]
        return Condition(
            f"{column} = {quote_literal(wanted)}", f"{column} = {quote_literal(not wanted)}"
        )
    return make_always_true(column) if passing else make_never_true(column)


def _write_exact(kind: pa.DataType, value: object) -> str | None:
    """Format a value as a literal of the column; empty if no row equals it, None if unsure."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return quote_literal(value) if isinstance(value, str | bool | datetime.date) else None
    if pat.is_integer(kind):
        whole = fit_integer(kind, value)
        return "" if whole is None else None if whole == -(2**63) else str(whole)
    if math.isnan(value):
        return ""
    close = fit_float(kind, value)
    # Zeros of both signs are equal, which a list does not guarantee.
    return "" if close is None else None if close == 0 else quote_literal(close)


def _has(column: str, kind: pa.DataType, value: object) -> Condition | None:
    if pat.is_timestamp(kind.value_type):
        return None  # inside a list, a moment would be converted to nanoseconds, which overflow
    text = _write_exact(kind.value_type, value)
    if text is None:
        return None
    if not text:
        return make_never_true(column)
    if kind.value_type in _SQL_TYPES:
        text = f"CAST({text} AS {_SQL_TYPES[kind.value_type]})"
    found = f"array_has({column}, {text})"
    return Condition(found, f"NOT {found}")

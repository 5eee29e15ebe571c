"""Evaluating predicates on Arrow columns, with NULL as the third truth value."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.compare import Datum, as_column, compare
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
from omnigraph.types.arrow import arrow_type
from omnigraph.types.property import PropertyType


@dataclass(frozen=True)
class Scope:
    """What names mean while a predicate is evaluated.

    `column` gives the values of a column of a variable, one for each of `rows` rows.
    """

    rows: int
    column: Callable[[str, str], pa.Array]
    parameters: Mapping[str, object]
    now: datetime.datetime


def evaluate(predicate: Predicate, scope: Scope) -> pa.Array:
    """True, false or NULL for each row; a row is kept only where it is true."""
    match predicate:
        case Compare(left, op, right):
            return compare(op, value_of(left, scope), value_of(right, scope), scope.rows)
        case InList(value, items):
            return _in_list(value, items, scope)
        case IsNull(operand):
            return pc.is_null(as_column(value_of(operand, scope), scope.rows))
        case AllOf(items):
            return reduce(pc.and_kleene, (evaluate(item, scope) for item in items))
        case AnyOf(items):
            return reduce(pc.or_kleene, (evaluate(item, scope) for item in items))
        case NotP(item):
            return pc.invert(evaluate(item, scope))
        case TextMatch():
            raise AssertionError("text conditions are answered by the search operators")
        case _:
            assert_never(predicate)


def keeps(predicate: Predicate, scope: Scope) -> pa.Array:
    """A mask without NULLs: the rows the predicate is true for."""
    return evaluate(predicate, scope).fill_null(False)


def _in_list(value: Operand, items: Constant | ParameterValue, scope: Scope) -> pa.Array:
    chosen = items.value if isinstance(items, Constant) else scope.parameters[items.name]
    values = as_column(value_of(value, scope), scope.rows)
    if chosen is None:
        return pa.nulls(scope.rows, pa.bool_())
    assert isinstance(chosen, list | tuple), "the binder lets only lists through"
    members = [scalar(item, items.type.element()) for item in chosen if item is not None]
    if not members:
        return pc.if_else(pc.is_valid(values), False, pa.scalar(None, pa.bool_()))
    found = (compare(Comparator.EQ, values, member, scope.rows) for member in members)
    if all(member.type == values.type for member in members):
        known = pc.is_in(values, value_set=pa.array(members, values.type))
        return pc.if_else(pc.is_valid(values), known, pa.scalar(None, pa.bool_()))
    return reduce(pc.or_kleene, found)


def value_of(operand: Operand, scope: Scope) -> Datum:
    match operand:
        case Constant():
            return scalar(operand.value, operand.type)
        case ParameterValue():
            return scalar(scope.parameters[operand.name], operand.type)
        case NowValue():
            return scalar(scope.now, operand.type)
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


def scalar(value: object, type_: PropertyType) -> pa.Scalar:
    """One value as Arrow holds it."""
    if isinstance(value, tuple):
        value = list(value)
    return pa.scalar(value, arrow_type(type_))

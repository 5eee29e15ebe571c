"""Evaluating predicates on Arrow columns, with NULL as the third truth value."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.compare import Datum, compare, is_member, to_column
from omnigraph.plan.expressions import (
    AllOf,
    AnyOf,
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


@dataclass(frozen=True)
class RowScope:
    """What names mean while a predicate is evaluated.

    `column` gives the values of a column of a variable, one for each of `rows` rows.
    """

    rows: int
    column: Callable[[str, str], pa.Array]
    parameters: Mapping[str, object]
    now: datetime.datetime


def evaluate(predicate: Predicate, scope: RowScope) -> pa.Array:
    """True, false or NULL for each row; a row is kept only where it is true."""
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
    """A mask without NULLs: the rows the predicate is true for."""
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
    """Membership by value: the list may mix whole numbers and fractions, all taken exactly."""
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
    """One value as Arrow holds it; whole numbers become floats where floats are held."""
    if isinstance(value, tuple):
        value = list(value)
    if type_.scalar in FLOATS or type_.is_vector:
        value = [_as_float(v) for v in value] if isinstance(value, list) else _as_float(value)
    return pa.scalar(value, to_arrow_type(type_))


def _as_float(value: object) -> object:
    # Arrow refuses a whole number that a float cannot hold exactly instead of rounding it.
    return float(value) if isinstance(value, int) else value

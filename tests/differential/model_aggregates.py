"""Aggregates over plain Python values."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable
from fractions import Fraction
from typing import assert_never

from differential.data import Value
from differential.model_evaluation import SCORE_SLACK, Rough, exact
from omnigraph.language.query_ast import AggregateName
from omnigraph.plan.expressions import AggregateValue
from omnigraph.types.property import INTEGER_BOUNDS

SUM_SLACK = 1e-12


class SumTooLarge(Exception):
    """An exact sum that its type cannot hold."""


class Bag(list[Value]):
    """A list whose order follows the rows, which a query without an order does not fix."""


def same_value(value: Value) -> Hashable:
    """Equal for values that count as one: both zeros do, and NULLs do."""
    match value:
        case Rough():
            return float(f"{value.value:.6g}")
        case float():
            return value + 0.0
        case tuple() | list():
            return tuple(same_value(item) for item in value)
        case dict():
            return tuple((name, same_value(item)) for name, item in value.items())
        case _:
            assert isinstance(value, Hashable)
            return value


def with_one_zero(value: Value) -> Value:
    """The value with 0.0 for -0.0, in lists and objects too."""
    match value:
        case Rough():
            return value
        case float():
            return value + 0.0
        case tuple():
            return tuple(map(with_one_zero, value))
        case dict():
            return {name: with_one_zero(item) for name, item in value.items()}
        case _:
            return value


def group_rows(
    keyed: Iterable[tuple[tuple[Value, ...], object]],
) -> list[tuple[tuple[Value, ...], list]]:  # type: ignore[type-arg]
    """Rows by key, zeros without a sign; NULL is a key like any other."""
    groups: dict[Hashable, tuple[tuple[Value, ...], list]] = {}  # type: ignore[type-arg]
    for values, row in keyed:
        groups.setdefault(same_value(values), (with_one_zero(values), []))[1].append(row)
    return list(groups.values())


def aggregate(call: AggregateValue, given: Iterable[Value]) -> Value:
    """The aggregate of one group; NULLs are skipped."""
    values = [value for value in given if value is not None]
    if call.distinct:
        values = [value for (value,), _ in group_rows(((v,), v) for v in values)]
    match call.function:
        case AggregateName.COUNT:
            return len(values)
        case AggregateName.COLLECT:
            return Bag(values)
        case AggregateName.SUM_INT:
            return _whole_sum(call, values)
        case AggregateName.SUM:
            return _sum(values)
        case AggregateName.AVG:
            total = _sum(values)
            return total and Rough(total.value / len(values), total.slack / len(values))
        case AggregateName.MIN:
            return with_one_zero(min(values, key=exact, default=None))  # type: ignore[arg-type,type-var]
        case AggregateName.MAX:
            return with_one_zero(max(values, key=exact, default=None))  # type: ignore[arg-type,type-var]
        case _:
            assert_never(call.function)


def _whole_sum(call: AggregateValue, values: list[Value]) -> int | None:
    if not values:
        return None
    total = sum(values)  # type: ignore[arg-type]
    low, high = INTEGER_BOUNDS[call.type.scalar]
    if not low <= total <= high:
        raise SumTooLarge(total)
    return total


def _sum(values: list[Value]) -> Rough | None:
    """The exact sum as the nearest float, and how far the order of additions may lead away.

    Whole numbers are added exactly, in any order.
    """
    if not values:
        return None
    if all(isinstance(value, int) for value in values):
        return Rough(float(sum(values)), 0.0)  # type: ignore[arg-type]
    numbers = [Fraction(exact(value)) for value in values]  # type: ignore[arg-type]
    slack = SCORE_SLACK if any(isinstance(value, Rough) for value in values) else SUM_SLACK
    return Rough(float(sum(numbers)), slack * max(1.0, math.fsum(abs(float(n)) for n in numbers)))

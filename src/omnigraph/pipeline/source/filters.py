"""Filters of Spark as predicates of a plan.

What is pushed only has to keep every row Spark would keep: Spark applies its filters once more.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable
from decimal import Decimal

from pyspark.sql import datasource as spark_filters

from omnigraph.plan.expressions import (
    AnyOf,
    Comparator,
    Compare,
    Constant,
    ConstantValue,
    EntityId,
    InList,
    IsNull,
    NotP,
    Operand,
    Predicate,
    PropertyValue,
)
from omnigraph.types.property import FLOATS, INTEGERS, PropertyType, Scalar

ROW = "row"
_COMPARATORS: dict[type[spark_filters.Filter], Comparator] = {
    spark_filters.EqualTo: Comparator.EQ,
    spark_filters.GreaterThan: Comparator.GT,
    spark_filters.GreaterThanOrEqual: Comparator.GE,
    spark_filters.LessThan: Comparator.LT,
    spark_filters.LessThanOrEqual: Comparator.LE,
    spark_filters.StringStartsWith: Comparator.STARTS_WITH,
    spark_filters.StringEndsWith: Comparator.ENDS_WITH,
    spark_filters.StringContains: Comparator.CONTAINS,
}
_TEXTUAL = frozenset({Comparator.STARTS_WITH, Comparator.ENDS_WITH, Comparator.CONTAINS})
_PYTHON_TYPES: dict[Scalar, type] = {
    Scalar.STRING: str,
    Scalar.BOOL: bool,
    Scalar.DATE: datetime.date,
    Scalar.DATETIME: datetime.datetime,
}


def pushed(
    filters: Iterable[spark_filters.Filter], types: dict[str, PropertyType]
) -> tuple[Predicate, ...]:
    """Those filters that can be asked of the columns, which hold values of these types."""
    found = (_predicate(one, types) for one in filters)
    return tuple(predicate for predicate in found if predicate is not None)


def _predicate(one: spark_filters.Filter, types: dict[str, PropertyType]) -> Predicate | None:
    if isinstance(one, spark_filters.Not):
        return _negated(one.child, types)
    name = _column(one, types)
    if name is None:
        return None
    operand, type_ = _operand(name, types[name]), types[name]
    if isinstance(one, spark_filters.IsNull):
        return IsNull(operand)
    if isinstance(one, spark_filters.IsNotNull):
        return NotP(IsNull(operand))
    if isinstance(one, spark_filters.In):
        return _among(operand, type_, one.value)
    if isinstance(one, spark_filters.EqualNullSafe):
        if one.value is None:
            return IsNull(operand)
        return _compare(operand, type_, Comparator.EQ, one.value)
    op = _COMPARATORS.get(type(one))
    return None if op is None else _compare(operand, type_, op, one.value)  # type: ignore[attr-defined]


def _negated(one: spark_filters.Filter, types: dict[str, PropertyType]) -> Predicate | None:
    inner = _predicate(one, types)
    if inner is None:
        return None
    if isinstance(one, spark_filters.EqualNullSafe) and one.value is not None:
        name = _column(one, types)
        assert name is not None, "the filter was understood"
        return AnyOf((IsNull(_operand(name, types[name])), NotP(inner)))
    return NotP(inner)


def _column(one: spark_filters.Filter, types: dict[str, PropertyType]) -> str | None:
    path: tuple[str, ...] = getattr(one, "attribute", ())
    if len(path) != 1 or path[0] not in types:
        return None
    type_ = types[path[0]]
    nullness = isinstance(one, spark_filters.IsNull | spark_filters.IsNotNull)
    is_plain = not (type_.is_list or type_.is_vector or type_.is_blob)
    return path[0] if is_plain or nullness else None


def _operand(name: str, type_: PropertyType) -> Operand:
    return EntityId(ROW) if name == "id" else PropertyValue(ROW, name, type_)


def _compare(
    operand: Operand, type_: PropertyType, op: Comparator, value: object
) -> Predicate | None:
    constant = _value(value, type_)
    if constant is None or (op in _TEXTUAL and type_.scalar is not Scalar.STRING):
        return None
    return Compare(operand, op, Constant(constant, PropertyType(type_.scalar)))


def _among(operand: Operand, type_: PropertyType, values: Iterable[object]) -> Predicate | None:
    given = [value for value in values if value is not None]
    constants = tuple(_value(value, type_) for value in given)
    if any(constant is None for constant in constants):
        return None
    return InList(operand, Constant(constants, PropertyType(type_.scalar, is_list=True)))


def _value(value: object, type_: PropertyType) -> ConstantValue:
    """A value the column can be compared with exactly; None for any other."""
    if isinstance(value, Decimal):
        value = int(value) if value == value.to_integral_value() else None
    if isinstance(value, datetime.datetime) and value.tzinfo is None:
        return None  # it is not known which moment is meant
    if type_.scalar in INTEGERS | FLOATS:
        is_number = isinstance(value, int | float) and not isinstance(value, bool)
        return value if is_number else None  # type: ignore[return-value]
    fitting = _PYTHON_TYPES.get(type_.scalar)
    return value if fitting is not None and type(value) is fitting else None  # type: ignore[return-value]

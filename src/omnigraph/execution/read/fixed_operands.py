"""Operands that are the same for every row, as values; and walking predicates by operand."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import assert_never

from omnigraph.plan.expressions import (
    BOOL,
    STRING,
    AllOf,
    AnyOf,
    Comparator,
    Compare,
    Constant,
    InList,
    IsNull,
    NotP,
    NowValue,
    Operand,
    ParameterValue,
    Predicate,
    TextMatch,
    TypeNameValue,
)
from omnigraph.types.property import PropertyType


@dataclass(frozen=True, slots=True)
class Given:
    """The parameters and the moment of one execution."""

    parameters: Mapping[str, object]
    now: datetime.datetime

    def value(self, operand: Constant | ParameterValue | NowValue) -> object:
        """The value as plain Python; lists and vectors are lists or tuples."""
        match operand:
            case Constant():
                return operand.value
            case ParameterValue():
                return self.parameters[operand.name]
            case NowValue():
                return self.now
            case _:
                assert_never(operand)


def is_fixed(operand: Operand) -> bool:
    """Whether the operand has one value for all rows."""
    return isinstance(operand, Constant | ParameterValue | NowValue)


def get_scalar_type(operand: Operand) -> PropertyType:
    type_ = operand.type
    assert isinstance(type_, PropertyType), "no object stands in a condition"
    return type_


Change = Callable[[Operand], Operand]


def map_operands(predicate: Predicate, change: Change) -> Predicate:
    """The predicate with every operand replaced by `change(operand)`.

    A text condition that stands as a condition becomes whatever its replacement means.
    """
    match predicate:
        case Compare(left, op, right):
            return Compare(change(left), op, change(right))
        case InList(value, _):
            return replace(predicate, value=change(value))
        case IsNull(operand):
            return IsNull(change(operand))
        case TextMatch():
            return _as_condition(change(predicate))
        case AllOf(items):
            return AllOf(tuple(map_operands(item, change) for item in items))
        case AnyOf(items):
            return AnyOf(tuple(map_operands(item, change) for item in items))
        case NotP(item):
            return NotP(map_operands(item, change))
        case _:
            assert_never(predicate)


def _as_condition(operand: Operand) -> Predicate:
    if isinstance(operand, TextMatch):
        return operand
    return Compare(operand, Comparator.EQ, Constant(True, BOOL))


def restrict_to_type(predicate: Predicate, type_name: str) -> Predicate:
    """The predicate for nodes of one type: the name of the type is then a constant."""

    def change(operand: Operand) -> Operand:
        if isinstance(operand, TypeNameValue):
            return Constant(type_name, STRING)
        return operand

    return map_operands(predicate, change)

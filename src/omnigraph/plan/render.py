"""Expressions and predicates of a plan as the text a reader of queries would expect."""

from __future__ import annotations

import datetime
import json
from collections.abc import Iterable
from typing import assert_never

from omnigraph.plan.expressions import (
    AggregateValue,
    AllOf,
    AnyOf,
    Compare,
    Constant,
    ConstantValue,
    EntityId,
    FusedScore,
    HopCount,
    InList,
    IsNull,
    NotP,
    NowValue,
    ObjectValue,
    Output,
    OutputValue,
    ParameterValue,
    Predicate,
    PropertyValue,
    TextMatch,
    TextScore,
    TypeNameValue,
    VectorDistance,
)


def render_constant(value: ConstantValue) -> str:
    match value:
        case None:
            return "null"
        case bool():
            return "true" if value else "false"
        case str():
            return json.dumps(value, ensure_ascii=False)
        case datetime.datetime():
            return f'datetime("{value.isoformat()}")'
        case datetime.date():
            return f'date("{value.isoformat()}")'
        case tuple():
            return "[" + ", ".join(render_constant(item) for item in value) + "]"
        case int() | float():
            return repr(value)
        case _:
            assert_never(value)


def render_value(value: Output) -> str:
    match value:
        case Constant():
            return render_constant(value.value)
        case ParameterValue():
            return f"${value.name}"
        case NowValue():
            return "now()"
        case PropertyValue():
            return f"${value.variable}.{value.property}"
        case EntityId():
            return f"${value.variable}.id"
        case TypeNameValue():
            return f"type(${value.variable})"
        case HopCount():
            return f"${value.variable}"
        case VectorDistance():
            return f"nearest(${value.variable}.{value.property}, {render_value(value.query)})"
        case TextScore():
            return f"bm25(${value.variable}.{value.property}, {render_value(value.query)})"
        case FusedScore():
            parts = (value.first, value.second, value.constant)
            return f"rrf({', '.join(render_value(part) for part in parts)})"
        case TextMatch():
            return _render_text_match(value)
        case AggregateValue():
            inside = render_value(value.argument)
            return f"{value.function}({'distinct ' if value.distinct else ''}{inside})"
        case ObjectValue():
            return f"${value.variable} {{ {', '.join(name for name, _ in value.fields)} }}"
        case OutputValue():
            return value.column
        case _:
            assert_never(value)


def _render_text_match(value: TextMatch) -> str:
    inside = f"${value.variable}.{value.property}, {render_value(value.query)}"
    if value.distance is not None:
        inside += f", {render_value(value.distance)}"
    return f"{value.mode}({inside})"


def render_predicate(predicate: Predicate) -> str:
    match predicate:
        case Compare(left, op, right):
            return f"{render_value(left)} {op} {render_value(right)}"
        case InList(value, items):
            return f"{render_value(value)} in {render_value(items)}"
        case IsNull(operand):
            return f"{render_value(operand)} is null"
        case TextMatch():
            return render_value(predicate)
        case AllOf(items):
            return " and ".join(_render_grouped(item, AnyOf) for item in items)
        case AnyOf(items):
            return " or ".join(_render_grouped(item, AllOf) for item in items)
        case NotP(item):
            return f"not {_render_grouped(item, AllOf, AnyOf)}"
        case _:
            assert_never(predicate)


def _render_grouped(predicate: Predicate, *loose: type) -> str:
    text = render_predicate(predicate)
    return f"({text})" if isinstance(predicate, loose) else text


def render_all(predicates: Iterable[Predicate]) -> str:
    """Predicates that must all hold, as one line."""
    return " and ".join(_render_grouped(predicate, AnyOf) for predicate in predicates)

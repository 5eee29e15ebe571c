"""Inline property matches, `$x: Type { name: value }`: equality, or membership on a list."""

from __future__ import annotations

from omnigraph.language.query.query_ast import (
    Expression,
    ListLiteral,
    Literal,
    LiteralKind,
    NowCall,
    PropertyMatch,
    VariableRef,
)
from omnigraph.language.source import Span
from omnigraph.plan.bind_expressions import bind_literal, bind_parameter
from omnigraph.plan.bind_properties import (
    ID,
    find_property,
    hint_property,
    make_entity_id,
    make_property_value,
    suggest_variable,
)
from omnigraph.plan.expressions import (
    STRING,
    Comparator,
    Compare,
    Constant,
    NowValue,
    ParameterValue,
    Predicate,
)
from omnigraph.plan.literals import check_enum, describe_literal, round_constant
from omnigraph.plan.scope import BindContext, Block, NodeVariable
from omnigraph.types.property import PropertyType, are_comparable

Value = Constant | ParameterValue | NowValue


def bind_property_match(match: PropertyMatch, node: NodeVariable, block: Block) -> Predicate | None:
    """What the match says of the node, or None after reporting a mistake."""
    context = block.context
    if match.name == ID:
        value = _bind_matched_value(match, STRING, context)
        return None if value is None else Compare(make_entity_id(node), Comparator.EQ, value)
    type_ = find_property(node, match.name, context)
    if type_ is None:
        message = f"{node.describe()} has no property '{match.name}'"
        hint = hint_property(node, match.name, context)
        context.report("T2", message, find_name_span(match), hint=hint)
        return None
    if type_.is_blob or type_.is_vector:
        message = f"'{match.name}' is {type_} and cannot be matched by value"
        context.report("T3", message, match.value.span)
        return None
    element = type_.element() if type_.is_list else type_
    value = _bind_matched_value(match, element, context)
    if value is None:
        return None
    op = Comparator.HAS if type_.is_list else Comparator.EQ
    return Compare(make_property_value(node, match.name, type_), op, round_constant(value, element))


def find_name_span(match: PropertyMatch) -> Span:
    return Span(match.span.start, match.span.start + len(match.name))


def _bind_matched_value(
    match: PropertyMatch, type_: PropertyType, context: BindContext
) -> Value | None:
    """The value, if it can be compared with one of type `type_`."""
    value = bind_value(match.value, context)
    if value is None:
        return None
    target, span = f"'{match.name}'", match.value.span
    if isinstance(match.value, Literal) and match.value.kind is LiteralKind.NULL:
        message = f"null never matches {target}"
        hint = f"write a filter: `$x.{match.name} is null`"
        context.report("T3", message, span, hint=hint)
        return None
    if not are_comparable(type_, value.type):
        _report_mismatch(match.value, value, type_, target, context)
        return None
    if isinstance(value, Constant) and type_.enum_values is not None:
        member = check_enum(
            str(value.value),
            type_.enum_values,
            target,
            lambda message: context.report("T3", message, span),
        )
        return None if member is None else value
    return value


def _report_mismatch(
    expression: Expression, value: Value, type_: PropertyType, target: str, context: BindContext
) -> None:
    if isinstance(expression, Literal | ListLiteral):
        shown = describe_literal(expression)
        message = f"{target} is compared with {type_.display(nullable=False)}, not with {shown}"
        context.report("T3", message, expression.span)
        return
    message = f"{target} is {type_} and cannot be matched with a value of type {value.type}"
    context.report("T7", message, expression.span)


def bind_value(expression: Expression, context: BindContext) -> Value | None:
    """A literal, a parameter or `now()`; nothing else can stand as a value."""
    match expression:
        case Literal() | ListLiteral():
            return bind_literal(expression, context)
        case NowCall():
            return NowValue()
        case VariableRef():
            parameter = bind_parameter(expression, context)
            if parameter is not None:
                return parameter
            message = f"${expression.name} must be a declared query parameter"
            hint = suggest_variable(expression.name, context.parameters)
            context.report("T14", message, expression.span, hint=hint)
        case _:
            message = "the value must be a literal, a declared query parameter or now()"
            context.report("T14", message, expression.span)
    return None

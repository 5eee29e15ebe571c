"""The `return` clause: output columns, aggregates and objects."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import assert_never

from omnigraph.language.query.query_ast import (
    AggregateCall,
    AliasRef,
    Expression,
    FunctionCall,
    FunctionName,
    ListLiteral,
    Literal,
    NowCall,
    ObjectProjection,
    Projection,
    PropertyRef,
    VariableRef,
)
from omnigraph.plan.bind_aggregates import bind_aggregate
from omnigraph.plan.bind_conditions import describe_type
from omnigraph.plan.bind_expressions import MatchNames, bind_operand
from omnigraph.plan.bind_properties import (
    ID,
    EntityVariable,
    find_property,
    hint_property,
    list_properties,
    make_entity_id,
    make_property_value,
    report_unbound,
)
from omnigraph.plan.expressions import (
    EntityId,
    ObjectType,
    ObjectValue,
    Operand,
    Output,
    PropertyValue,
    TypeNameValue,
)
from omnigraph.plan.nodes import OutputColumn
from omnigraph.plan.scope import BrokenVariable, EdgeVariable, HopVariable, NodeVariable
from omnigraph.types.property import PropertyType

TYPE_FIELD = "type"

Field = PropertyValue | EntityId | TypeNameValue


@dataclass(frozen=True, slots=True)
class Returned:
    """A column with the expression it was written as, for ordering to find it again."""

    column: OutputColumn
    expression: Expression


def bind_projections(
    projections: tuple[Projection, ...], names: MatchNames
) -> tuple[Returned, ...]:
    """The columns of the result, in order; those with mistakes are reported and left out."""
    grouped = is_grouped(projections)
    found: list[Returned] = []
    taken: set[str] = set()
    for projection in projections:
        name = projection.alias or choose_default_name(projection.expression)
        if name in taken:
            message = f"two columns are called '{name}'"
            hint = "name one of them: `… as other_name`"
            names.context.report("T31", message, projection.span, hint=hint)
        taken.add(name)
        value = bind_output(projection.expression, names, grouped=grouped)
        if value is not None:
            column = OutputColumn(name, value, value.type)
            found.append(Returned(column, projection.expression))
    return tuple(found)


def is_grouped(projections: tuple[Projection, ...]) -> bool:
    return any(isinstance(p.expression, AggregateCall) for p in projections)


def choose_default_name(expression: Expression) -> str:
    """The name of a column without an alias; an aggregate takes its argument's."""
    match expression:
        case PropertyRef():
            return f"{expression.variable}.{expression.property}"
        case VariableRef() | AliasRef():
            return expression.name
        case ObjectProjection():
            return expression.variable
        case Literal() | ListLiteral():
            return "literal"
        case NowCall():
            return "now"
        case FunctionCall():
            return str(expression.function)
        case AggregateCall():
            return choose_default_name(expression.argument)
        case _:
            assert_never(expression)


def bind_output(expression: Expression, names: MatchNames, *, grouped: bool) -> Output | None:
    if isinstance(expression, AggregateCall):
        return bind_aggregate(expression, names)
    if grouped and not _can_be_group_key(expression, names):
        message = "beside an aggregate only variables and properties can be returned"
        names.context.report("T9", message, expression.span)
        return None
    if isinstance(expression, ObjectProjection):
        return bind_object(expression, names)
    value = bind_operand(expression, names)
    return None if value is None or not _is_readable(value, expression, names) else value


def _can_be_group_key(expression: Expression, names: MatchNames) -> bool:
    match expression:
        case PropertyRef():
            return True
        case VariableRef():
            return names.block.find(expression.name) is not None or (
                expression.name not in names.context.parameters
            )
        case FunctionCall():
            return expression.function is FunctionName.TYPE
        case _:
            return False


def _is_readable(value: Operand, expression: Expression, names: MatchNames) -> bool:
    if isinstance(value.type, PropertyType) and value.type.is_blob:
        names.context.report("T24", "a Blob cannot be read by a query", expression.span)
        return False
    return True


# --- objects ----------------------------------------------------------------------------------


def bind_object(expression: ObjectProjection, names: MatchNames) -> ObjectValue | None:
    """`$x { * }` or `$x { name, born }`."""
    context, name = names.context, expression.variable
    at = context.place(f"${name}", expression.span)
    variable = names.block.find(name)
    match variable:
        case NodeVariable() | EdgeVariable():
            return _bind_object(variable, expression, names)
        case HopVariable():
            context.report("T27", f"${name} counts hops and has no properties", at)
        case BrokenVariable():
            pass
        case None if name in context.parameters:
            context.report("T6", f"${name} is a parameter and has no properties", at)
        case None:
            report_unbound(name, at, names.block)
    return None


def _bind_object(
    variable: EntityVariable, expression: ObjectProjection, names: MatchNames
) -> ObjectValue | None:
    if expression.properties is None:
        found: list[tuple[str, Field | None]] = [(ID, make_entity_id(variable))]
        found += [
            (p.name, make_property_value(variable, p.name, p.type))
            for p in list_properties(variable, names.context)
            if not p.type.is_blob
        ]
    else:
        found = [
            (field, _bind_field(variable, field, expression, names))
            for field in expression.properties
        ]
        _report_repeated(expression.properties, expression, names)
    fields = tuple((name, value) for name, value in found if value is not None)
    if len(fields) < len(found):
        return None
    types = tuple((name, value.type) for name, value in fields)
    return ObjectValue(variable.name, fields, ObjectType(types, nullable=variable.nullable))


def _bind_field(
    variable: EntityVariable, name: str, expression: ObjectProjection, names: MatchNames
) -> Field | None:
    if name == ID:
        return make_entity_id(variable)
    type_ = find_property(variable, name, names.context)
    at = names.context.place(name, expression.span)
    if type_ is None:
        if name == TYPE_FIELD and isinstance(variable, NodeVariable):
            return describe_type(variable)
        hint = hint_property(variable, name, names.context)
        message = f"{variable.describe()} has no property '{name}'"
        names.context.report("T6", message, at, hint=hint)
        return None
    if type_.is_blob:
        names.context.report("T24", "a Blob cannot be read by a query", at)
        return None
    return make_property_value(variable, name, type_)


def _report_repeated(
    fields: tuple[str, ...], expression: ObjectProjection, names: MatchNames
) -> None:
    for name in sorted(name for name, times in Counter(fields).items() if times > 1):
        message = f"the object has two fields called '{name}'"
        names.context.report("T31", message, expression.span)

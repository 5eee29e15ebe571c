"""Bind the output of a read: `return` columns, aggregates, `order`, `limit` and `offset`."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import assert_never

from omnigraph.language.lexer import suggest_closest
from omnigraph.language.query_ast import (
    AggregateCall,
    AggregateName,
    AliasRef,
    Expression,
    FunctionCall,
    FunctionName,
    ListLiteral,
    Literal,
    LiteralKind,
    NowCall,
    ObjectProjection,
    Ordering,
    Projection,
    PropertyRef,
    VariableRef,
)
from omnigraph.plan.bind_conditions import describe_type
from omnigraph.plan.bind_expressions import MatchNames, bind_operand
from omnigraph.plan.expressions import (
    F64,
    I64,
    AggregateValue,
    Constant,
    EntityId,
    FusedScore,
    NowValue,
    ObjectType,
    ObjectValue,
    Operand,
    Output,
    OutputValue,
    ParameterValue,
    PropertyValue,
    Ranking,
    TextScore,
    TypeNameValue,
    VectorDistance,
)
from omnigraph.plan.plan_nodes import OutputColumn, SortKey
from omnigraph.plan.scope import (
    ID,
    BindContext,
    BrokenVariable,
    EdgeVariable,
    EntityVariable,
    HopVariable,
    NodeVariable,
    find_property,
    hint_property,
    list_properties,
    make_entity_id,
    make_property_value,
    report_unbound,
)
from omnigraph.types.property import INTEGER_BOUNDS, INTEGERS, UNSIGNED, PropertyType, Scalar

_TAKES_DISTINCT = (AggregateName.COUNT, AggregateName.COLLECT)


def bind_aggregate(call: AggregateCall, names: MatchNames) -> AggregateValue | None:
    """The aggregate with its result type, or None after reporting why it cannot be."""
    argument = call.argument
    if isinstance(argument, AggregateCall):
        message = f"{call.function}() cannot take another aggregate"
        names.context.report("T8", message, argument.span)
        return None
    if call.distinct and call.function not in _TAKES_DISTINCT:
        message = f"{call.function}() takes no `distinct`"
        names.context.report("T8", message, call.span)
        return None
    value = bind_operand(argument, names)
    if value is None:
        return None
    type_ = value.type
    assert isinstance(type_, PropertyType), "no object stands inside an aggregate"
    result = _find_result_type(call, type_, names)
    return None if result is None else AggregateValue(call.function, value, call.distinct, result)


def _find_result_type(
    call: AggregateCall, type_: PropertyType, names: MatchNames
) -> PropertyType | None:
    is_node = names.node(call.argument) is not None
    match call.function:
        case AggregateName.COUNT:
            if not type_.is_blob:
                return I64
            names.context.report("T24", "a Blob cannot be read by a query", call.argument.span)
            return None
        case AggregateName.SUM | AggregateName.AVG:
            fits, result, wanted = type_.is_numeric, F64.optional(), "a number"
        case AggregateName.SUM_INT:
            fits = type_.is_numeric and type_.scalar in INTEGERS
            scalar = Scalar.U64 if type_.scalar in UNSIGNED else Scalar.I64
            result, wanted = PropertyType(scalar, nullable=True), "a whole number"
        case AggregateName.MIN | AggregateName.MAX:
            fits = type_.is_plain_scalar and not is_node
            result, wanted = type_.optional(), "one value that can be ordered"
        case AggregateName.COLLECT:
            fits = type_.is_plain_scalar
            result, wanted = PropertyType(type_.scalar, is_list=True), "one value"
        case _:
            assert_never(call.function)
    if fits:
        return result
    _report_argument(call, type_, wanted, names)
    return None


def _report_argument(
    call: AggregateCall, type_: PropertyType, wanted: str, names: MatchNames
) -> None:
    shown, hint = str(type_), None
    if names.node(call.argument) is not None and isinstance(call.argument, VariableRef):
        shown, hint = "a node", f"its identity is `${call.argument.name}.id`"
    message = f"{call.function}() takes {wanted}, not {shown}"
    names.context.report("T8", message, call.argument.span, hint=hint)


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
    """Bind the result columns in order; invalid ones are reported and left out."""
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
    """Return the name of a column without alias; an aggregate has that of its argument."""
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
    at = context.locate(f"${name}", expression.span)
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
    at = names.context.locate(name, expression.span)
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


MAX_ROWS = INTEGER_BOUNDS[Scalar.I64][1]

_DIRECTION_CODES = {FunctionName.BM25: "T20", FunctionName.RRF: "T21"}


@dataclass(frozen=True, slots=True)
class BoundOrder:
    """The ordering of a read: a ranking first, when the first key is one, then plain keys."""

    ranking: Ranking | None = None
    keys: tuple[SortKey, ...] = ()


def bind_order(
    orderings: tuple[Ordering, ...],
    returned: tuple[Returned, ...],
    names: MatchNames,
    *,
    over_output: bool,
    has_limit: bool,
) -> BoundOrder:
    """Bind the ordering keys; `over_output` tells that they order result columns, not rows.

    Over rows, the alias of a column is replaced by its expression.
    """
    _refuse_alias_beside_nearest(orderings, names.context)
    ranking = None
    if orderings and not over_output and _rank_function(orderings[0].expression) is not None:
        ranking = _bind_ranking(orderings[0], names, has_limit=has_limit)
        orderings = orderings[1:]
    keys = []
    for ordering in orderings:
        value = _bind_key(ordering.expression, returned, names, over_output=over_output)
        if value is not None and _is_orderable(value, ordering, names.context):
            keys.append(SortKey(value, descending=bool(ordering.descending)))
    return BoundOrder(ranking, tuple(keys))


# --- rankings ---------------------------------------------------------------------------------


def _rank_function(expression: Expression) -> FunctionName | None:
    if not isinstance(expression, FunctionCall):
        return None
    ranks = (FunctionName.NEAREST, FunctionName.BM25, FunctionName.RRF)
    return expression.function if expression.function in ranks else None


def _bind_ranking(ordering: Ordering, names: MatchNames, *, has_limit: bool) -> Ranking | None:
    function, context = _rank_function(ordering.expression), names.context
    if not has_limit and function is FunctionName.NEAREST:
        message = "ordering by nearest() needs a limit"
        context.report("T17", message, ordering.span, hint="add `limit 10` after the order")
    if not has_limit and function is FunctionName.RRF:
        message = "ordering by rrf() needs a limit"
        context.report("T21", message, ordering.span, hint="add `limit 10` after the order")
    if function is FunctionName.NEAREST and ordering.descending:
        message = "nearest() as the first key always puts the nearest first"
        context.report("T34", message, ordering.span)
    if function in _DIRECTION_CODES and ordering.descending is False:
        message = f"{function}() as the first key always puts the best first; `asc` would reverse"
        context.report(_DIRECTION_CODES[function], message, ordering.span)
    value = bind_operand(ordering.expression, names)
    assert value is None or isinstance(value, VectorDistance | TextScore | FusedScore)
    return value


def _refuse_alias_beside_nearest(orderings: tuple[Ordering, ...], context: BindContext) -> None:
    if any(_rank_function(o.expression) is FunctionName.NEAREST for o in orderings):
        for ordering in orderings:
            if isinstance(ordering.expression, AliasRef):
                message = "a column's alias cannot be a key beside nearest()"
                hint = "write the expression instead of its alias"
                context.report("T18", message, ordering.span, hint=hint)


# --- plain keys -------------------------------------------------------------------------------


def _bind_key(
    expression: Expression, returned: tuple[Returned, ...], names: MatchNames, *, over_output: bool
) -> Operand | None:
    if isinstance(expression, AliasRef):
        found = next((r for r in returned if r.column.name == expression.name), None)
        if found is None:
            hint = suggest_closest(expression.name, [r.column.name for r in returned])
            message = f"no column of the result is called '{expression.name}'"
            names.context.report("T34", message, expression.span, hint=hint)
            return None
    elif over_output:
        found = next((r for r in returned if r.expression == expression), None)
        # A ranking here would neither drop rows nor have a direction; order by its column.
        if found is None or _rank_function(expression) is not None:
            _report_not_returned(expression, names)
            return None
    else:
        return bind_operand(expression, names)
    if over_output:
        return OutputValue(found.column.name, found.column.type)
    value = found.column.value
    if isinstance(value, ObjectValue):
        return OutputValue(found.column.name, value.type)
    assert not isinstance(value, AggregateValue), "rows of an aggregate are ordered by column"
    return value


def _report_not_returned(expression: Expression, names: MatchNames) -> None:
    """Report a key that is not a result column, unless it has an error of its own."""
    if bind_operand(expression, names) is None:
        return
    message = "after grouping or `distinct`, rows can be ordered by returned columns only"
    hint = "return it, and order by its alias"
    names.context.report("T34", message, expression.span, hint=hint)


def _is_orderable(value: Operand, ordering: Ordering, context: BindContext) -> bool:
    type_ = value.type
    if isinstance(type_, PropertyType) and type_.is_blob:
        context.report("T24", "a Blob cannot be read by a query", ordering.span)
        return False
    if isinstance(value, Constant | ParameterValue | NowValue):
        context.report("T34", "the key is the same for every row", ordering.span)
        return False
    if not isinstance(type_, PropertyType) or not type_.is_plain_scalar:
        shown = type_ if isinstance(type_, PropertyType) else "an object"
        context.report("T34", f"rows cannot be ordered by {shown}", ordering.span)
        return False
    return True


# --- limit and offset -------------------------------------------------------------------------


def bind_row_count(
    expression: Expression | None, word: str, context: BindContext
) -> Constant | ParameterValue | None:
    """Bind the row count of `limit` or `offset`."""
    if expression is None:
        return None
    if isinstance(expression, Literal) and expression.kind is LiteralKind.INTEGER:
        assert isinstance(expression.value, int)
        if expression.value > MAX_ROWS:
            context.report("T28", f"{word} is at most {MAX_ROWS}", expression.span)
            return None
        if expression.value >= 0:
            return Constant(expression.value, I64)
    elif isinstance(expression, VariableRef):
        type_ = context.parameters.get(expression.name)
        if type_ is not None and type_.scalar in INTEGERS and type_ == PropertyType(type_.scalar):
            return ParameterValue(expression.name, type_)
    message = f"{word} takes a whole number that is not negative, or a required integer parameter"
    context.report("T28", message, expression.span)
    return None

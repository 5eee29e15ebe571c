"""Aggregates: what each function takes and what it gives."""

from __future__ import annotations

from typing import assert_never

from omnigraph.language.query.query_ast import AggregateCall, AggregateName, VariableRef
from omnigraph.plan.bind_expressions import MatchNames, bind_operand
from omnigraph.plan.expressions import F64, I64, AggregateValue
from omnigraph.types.property import INTEGERS, UNSIGNED, PropertyType, Scalar

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

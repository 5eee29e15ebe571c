"""`order`, `limit` and `offset`: the tail of a read."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.language.cursor import suggest_closest
from omnigraph.language.query.query_ast import (
    AliasRef,
    Expression,
    FunctionCall,
    FunctionName,
    Literal,
    LiteralKind,
    Ordering,
    VariableRef,
)
from omnigraph.plan.bind_expressions import MatchNames, bind_operand
from omnigraph.plan.bind_return import Returned
from omnigraph.plan.expressions import (
    I64,
    AggregateValue,
    Constant,
    FusedScore,
    NowValue,
    ObjectValue,
    Operand,
    OutputValue,
    ParameterValue,
    Ranking,
    TextScore,
    VectorDistance,
)
from omnigraph.plan.nodes import SortKey
from omnigraph.plan.scope import BindContext
from omnigraph.types.property import INTEGER_BOUNDS, INTEGERS, PropertyType, Scalar

MOST_ROWS = INTEGER_BOUNDS[Scalar.I64][1]

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
    """The ordering keys; `over_output` says they order result columns rather than rows.

    Over rows a column's alias stands for the expression of the column.
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
        # A ranking here would neither drop rows nor know which end is best; its column can say.
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
    """Say that the key is no column, unless it has a mistake of its own."""
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
    """How many rows `limit` keeps or `offset` skips."""
    if expression is None:
        return None
    if isinstance(expression, Literal) and expression.kind is LiteralKind.INTEGER:
        assert isinstance(expression.value, int)
        if expression.value > MOST_ROWS:
            context.report("T28", f"{word} is at most {MOST_ROWS}", expression.span)
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

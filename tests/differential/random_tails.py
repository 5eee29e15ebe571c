"""Random tails of a read: what is returned, in which order, and how much of it."""

from __future__ import annotations

from dataclasses import dataclass, field

from differential.conditions import text_match, text_property, vector, vector_property, words
from differential.scopes import Draft, Scope, Variable
from omnigraph.language import query_ast
from omnigraph.types.property import INTEGERS, PropertyType, Scalar

_NUMERIC = (query_ast.AggregateName.SUM, query_ast.AggregateName.AVG)


@dataclass
class Tail:
    """The part of a read after its match."""

    projections: list[query_ast.Projection] = field(default_factory=list)
    distinct: bool = False
    order: list[query_ast.Ordering] = field(default_factory=list)
    limit: query_ast.Expression | None = None
    offset: query_ast.Expression | None = None


def make_tail(draft: Draft, scope: Scope) -> Tail:
    chance = draft.random.random()
    if chance < 0.25:
        tail = _grouped(draft, scope)
    else:
        count = draft.random.randint(1, 4)
        tail = Tail(_named([_column(draft, scope) for _ in range(count)], draft))
        tail.distinct = chance < 0.45
        _order_rows(draft, scope, tail)
    if tail.limit is None and draft.chance(0.25):
        tail.limit = _row_count(draft, (0, 1, 3, 5, 5, 20, 20, 100))
    if draft.chance(0.1):
        tail.offset = _row_count(draft, (0, 1, 1, 2, 4))
    return tail


def _named(expressions: list[query_ast.Expression], draft: Draft) -> list[query_ast.Projection]:
    """Columns, each with a name of its own if it needs one."""
    columns: list[query_ast.Projection] = []
    for number, expression in enumerate(expressions):
        before = [c.expression for c in columns]
        plain = isinstance(expression, query_ast.PropertyRef | query_ast.VariableRef)
        if plain and expression not in before and draft.chance(0.5):
            columns.append(query_ast.Projection(expression))
        else:
            columns.append(query_ast.Projection(expression, f"c{number}"))
    return columns


def _row_count(draft: Draft, choices: tuple[int, ...]) -> query_ast.Expression:
    number = draft.random.choice(choices)
    if draft.chance(0.3):
        return draft.declare(PropertyType(draft.random.choice(sorted(INTEGERS))), number)
    return query_ast.Literal(query_ast.LiteralKind.INTEGER, number)


# --- columns --------------------------------------------------------------------------------------


def _column(draft: Draft, scope: Scope) -> query_ast.Expression:
    chance = draft.random.random()
    if chance < 0.60:
        return _property_or_variable(draft, scope)
    if chance < 0.75:
        return _object(draft, scope)
    if chance < 0.82:
        return query_ast.FunctionCall(query_ast.FunctionName.TYPE, (_node(draft, scope).ref,))
    if chance < 0.86:
        return draft.random.choice((query_ast.NowCall(), _constant(draft)))
    if chance < 0.91:
        value = draft.random.choice((1, -1, 2**53 + 1))
        return draft.declare(PropertyType(Scalar.I64), value)
    if chance < 0.95:
        return text_match(draft, scope) or _property_or_variable(draft, scope)
    return _score(draft, scope) or _property_or_variable(draft, scope)


def _constant(draft: Draft) -> query_ast.Expression:
    kinds = query_ast.LiteralKind
    choices: tuple[query_ast.Expression, ...] = (
        query_ast.Literal(kinds.NULL, None),
        query_ast.Literal(kinds.FLOAT, -0.5),
        query_ast.Literal(kinds.DATE, "2024-02-29"),
        query_ast.Literal(kinds.DATETIME, "1969-12-31T23:59:59.999Z"),
        query_ast.Literal(kinds.INTEGER, 2**64 - 1),
        query_ast.Literal(kinds.STRING, 'a "b" 日'),
        query_ast.ListLiteral(
            (query_ast.Literal(kinds.INTEGER, 1), query_ast.Literal(kinds.FLOAT, 2.5))
        ),
    )
    return draft.random.choice(choices)


def _node(draft: Draft, scope: Scope) -> Variable:
    return draft.random.choice(scope.of("node"))


def _property_or_variable(draft: Draft, scope: Scope) -> query_ast.Expression:
    variable = draft.random.choice(scope.variables)
    if variable.kind == "hops":
        return variable.ref
    found = draft.property_of([variable], lambda t: not t.is_blob)
    if found is not None and draft.chance(0.7):
        return query_ast.PropertyRef(variable.name, found[1].name)
    if variable.kind == "edge" or draft.chance(0.3):
        return query_ast.PropertyRef(variable.name, "id")
    return variable.ref


def _object(draft: Draft, scope: Scope) -> query_ast.Expression:
    variable = draft.random.choice([v for v in scope.variables if v.kind != "hops"])
    names = ["id", *(p.name for p in draft.properties(variable) if not p.type.is_blob)]
    if variable.kind == "node":
        names.append("type")
    if draft.chance(0.3):
        return query_ast.ObjectProjection(variable.name, None)
    chosen = draft.random.sample(names, draft.random.randint(1, min(3, len(names))))
    return query_ast.ObjectProjection(variable.name, tuple(chosen))


# --- scores ---------------------------------------------------------------------------------------


def _score(draft: Draft, scope: Scope) -> query_ast.FunctionCall | None:
    """A ranking of a node: by vector, by text, or by both."""
    field, text = vector_property(draft, scope), text_property(draft, scope)
    arms = []
    if field is not None:
        arms.append(query_ast.FunctionCall(query_ast.FunctionName.NEAREST, (field, vector(draft))))
    if text is not None:
        arms.append(query_ast.FunctionCall(query_ast.FunctionName.BM25, (text, words(draft))))
    if len(arms) == 2 and field and text and field.variable == text.variable and draft.chance(0.6):
        draft.random.shuffle(arms)
        constant = (
            (query_ast.Literal(query_ast.LiteralKind.INTEGER, 7),) if draft.chance(0.3) else ()
        )
        return query_ast.FunctionCall(query_ast.FunctionName.RRF, (*arms, *constant))
    return draft.random.choice(arms) if arms else None


# --- groups ---------------------------------------------------------------------------------------


def _grouped(draft: Draft, scope: Scope) -> Tail:
    keys = [_group_key(draft, scope) for _ in range(draft.random.choice((0, 1, 1, 2)))]
    keys = list(dict.fromkeys(keys))
    calls = [_aggregate(draft, scope) for _ in range(draft.random.randint(1, 3))]
    columns = [*keys, *calls]
    draft.random.shuffle(columns)
    tail = Tail([query_ast.Projection(c, f"c{number}") for number, c in enumerate(columns)])
    if keys and draft.chance(0.6):
        for column in draft.random.sample(tail.projections, draft.random.randint(1, 2)):
            if not (isinstance(column.expression, query_ast.AggregateCall) and _is_list(column)):
                key: query_ast.Expression = query_ast.AliasRef(column.alias or "")
                tail.order.append(query_ast.Ordering(key, draft.random.choice((None, True, False))))
    return tail


def _is_list(column: query_ast.Projection) -> bool:
    call = column.expression
    return (
        isinstance(call, query_ast.AggregateCall)
        and call.function is query_ast.AggregateName.COLLECT
    )


def _group_key(draft: Draft, scope: Scope) -> query_ast.Expression:
    if draft.chance(0.15):
        return query_ast.FunctionCall(query_ast.FunctionName.TYPE, (_node(draft, scope).ref,))
    return _property_or_variable(draft, scope)


def _aggregate(draft: Draft, scope: Scope) -> query_ast.AggregateCall:
    names = query_ast.AggregateName
    function = draft.random.choice((names.COUNT, *names))
    distinct = function in (names.COUNT, names.COLLECT) and draft.chance(0.4)
    fits = {
        names.SUM: lambda t: t.is_numeric,
        names.AVG: lambda t: t.is_numeric,
        names.SUM_INT: lambda t: t.is_numeric and t.scalar in INTEGERS,
        names.MIN: lambda t: t.is_plain_scalar,
        names.MAX: lambda t: t.is_plain_scalar,
        names.COLLECT: lambda t: t.is_plain_scalar,
    }.get(function, lambda t: not t.is_blob)
    found = draft.property_of(scope.variables, fits)
    if function in (names.COUNT, names.COLLECT) and (found is None or draft.chance(0.3)):
        return query_ast.AggregateCall(function, _node(draft, scope).ref, distinct)
    counts = scope.of("hops")
    if counts and draft.chance(0.3):
        return query_ast.AggregateCall(function, draft.random.choice(counts).ref, distinct)
    if function in (names.MIN, names.MAX, names.AVG, names.SUM) and draft.chance(0.15):
        score = _score(draft, scope)
        if score is not None:
            return query_ast.AggregateCall(function, score)
    if found is None:
        return query_ast.AggregateCall(names.COUNT, _node(draft, scope).ref)
    return query_ast.AggregateCall(
        function, query_ast.PropertyRef(found[0].name, found[1].name), distinct
    )


# --- order ----------------------------------------------------------------------------------------


def _order_rows(draft: Draft, scope: Scope, tail: Tail) -> None:
    chance = draft.random.random()
    if chance < 0.12 and not tail.distinct:
        ranking = _score(draft, scope)
        if ranking is not None:
            tail.order.append(query_ast.Ordering(ranking))
            tail.limit = _row_count(draft, (1, 2, 5, 20))
            if draft.chance(0.4):
                tail.projections.append(query_ast.Projection(ranking, "rank"))
    if chance < 0.55:
        count = draft.random.randint(1, 2)
        tail.order += [_sort_key(draft, scope, tail) for _ in range(count)]


def _sort_key(draft: Draft, scope: Scope, tail: Tail) -> query_ast.Ordering:
    descending = draft.random.choice((None, True, False))
    if tail.distinct or draft.chance(0.2):
        column = draft.random.choice(tail.projections)
        if column.alias is not None:
            return query_ast.Ordering(query_ast.AliasRef(column.alias), descending)
        return query_ast.Ordering(column.expression, descending)
    score = _score(draft, scope) if draft.chance(0.08) else None
    if score is not None:
        return query_ast.Ordering(score, descending)
    found = draft.property_of(scope.variables, lambda t: t.is_plain_scalar)
    if found is None or draft.chance(0.2):
        candidates = [v.ref for v in scope.variables if v.kind != "edge"]
        return query_ast.Ordering(draft.random.choice(candidates), descending)
    return query_ast.Ordering(query_ast.PropertyRef(found[0].name, found[1].name), descending)

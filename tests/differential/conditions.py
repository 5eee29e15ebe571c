"""Random conditions over the variables in scope."""

from __future__ import annotations

from collections.abc import Callable

from differential.random_contents import VECTORS, WORDS
from differential.scopes import Draft, Scope, Variable, literal
from omnigraph.language import query_ast
from omnigraph.types.property import PropertyType, Scalar, are_comparable

ORDERED = (
    query_ast.CompareOp.EQ,
    query_ast.CompareOp.NE,
    query_ast.CompareOp.LT,
    query_ast.CompareOp.LE,
    query_ast.CompareOp.GT,
    query_ast.CompareOp.GE,
)
TEXTUAL = (
    query_ast.CompareOp.CONTAINS,
    query_ast.CompareOp.STARTS_WITH,
    query_ast.CompareOp.ENDS_WITH,
)

Maker = Callable[[Draft, Scope], query_ast.Condition | None]


def make_condition(draft: Draft, scope: Scope, depth: int = 0) -> query_ast.Condition:
    """A condition that mostly type-checks."""
    chance = draft.random.random()
    if depth < 2 and chance < 0.35:
        items = [make_condition(draft, scope, depth + 1) for _ in range(draft.random.randint(2, 3))]
        junction = query_ast.Or if chance < 0.2 else query_ast.And
        return junction(tuple(items))
    if depth < 3 and chance < 0.45:
        return query_ast.Not(make_condition(draft, scope, depth + 1))
    for _ in range(8):
        found = draft.random.choices(MAKERS, WEIGHTS)[0](draft, scope)
        if found is not None:
            return found
    operand = scope.variables[0]
    is_edge = operand.kind == "edge"
    return query_ast.NullTest(
        query_ast.PropertyRef(operand.name, "id") if is_edge else operand.ref, True
    )


# --- leaves -----------------------------------------------------------------------------------


def _with_value(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    found = draft.property_of(scope.variables, lambda t: t.is_plain_scalar)
    if found is None:
        return None
    variable, property_ = found
    value = draft.operand(draft.value_for(variable, property_), property_.type)
    if property_.type.is_numeric and draft.chance(0.15):
        value = literal(draft.random.choice((0.5, 1, 2.5, -1, 2**63, 2**53 + 1)), property_.type)
    # Ranges keep more rows than equality does.
    op = draft.random.choice(ORDERED if draft.chance(0.6) else ORDERED[1:])
    left = query_ast.PropertyRef(variable.name, property_.name)
    if draft.chance(0.15):
        return query_ast.Comparison(value, op, left)
    return query_ast.Comparison(left, op, value)


def _two_properties(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    found = draft.property_of(scope.variables, lambda t: t.is_plain_scalar)
    if found is None:
        return None
    variable, property_ = found
    other = draft.property_of(
        scope.variables, lambda t: t.is_plain_scalar and are_comparable(t, property_.type)
    )
    assert other is not None
    return query_ast.Comparison(
        query_ast.PropertyRef(variable.name, property_.name),
        draft.random.choice(ORDERED),
        query_ast.PropertyRef(other[0].name, other[1].name),
    )


def _membership(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    found = draft.property_of(scope.variables, lambda t: t.is_plain_scalar)
    if found is None:
        return None
    variable, property_ = found
    values = [draft.value_for(variable, property_) for _ in range(draft.random.randint(0, 3))]
    items: query_ast.Expression = query_ast.ListLiteral(
        tuple(literal(v, property_.type) for v in values)
    )
    if draft.chance(0.3):
        declared = PropertyType(property_.type.scalar, draft.chance(0.2), is_list=True)
        missing = declared.nullable and draft.chance(0.3)
        items = draft.declare(declared, None if missing else [_plain(v) for v in values])
    left = query_ast.PropertyRef(variable.name, property_.name)
    return query_ast.Membership(left, items, negated=draft.chance(0.3))


def _plain(value: object) -> object:
    return value if isinstance(value, bool | int | float | str) else str(literal(value, _ANY).value)


_ANY = PropertyType(Scalar.STRING)


def _list_contains(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    found = draft.property_of(scope.variables, lambda t: t.is_list)
    if found is None:
        return None
    variable, property_ = found
    value = draft.value_for(variable, property_)
    left = query_ast.PropertyRef(variable.name, property_.name)
    element = PropertyType(property_.type.scalar)
    if draft.chance(0.2):
        other = draft.property_of(
            scope.variables, lambda t: t.is_plain_scalar and are_comparable(t, element)
        )
        if other is not None:
            right = query_ast.PropertyRef(other[0].name, other[1].name)
            return query_ast.Comparison(left, query_ast.CompareOp.CONTAINS, right)
    return query_ast.Comparison(left, query_ast.CompareOp.CONTAINS, draft.operand(value, element))


def _textual(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    found = draft.property_of(scope.variables, lambda t: t.is_string)
    if found is None:
        return None
    variable, property_ = found
    text = str(draft.value_for(variable, property_))
    start = draft.random.randint(0, len(text))
    part = text[start : draft.random.randint(start, len(text))]
    left = query_ast.PropertyRef(variable.name, property_.name)
    right: query_ast.Expression = draft.operand(part, _ANY)
    if draft.chance(0.15):
        other = draft.property_of(scope.variables, lambda t: t.is_string)
        assert other is not None
        right = query_ast.PropertyRef(other[0].name, other[1].name)
    return query_ast.Comparison(left, draft.random.choice(TEXTUAL), right)


def _null_test(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    missing = [v for v in scope.variables if v.nullable and v.kind != "edge"]
    if missing and draft.chance(0.5):
        return query_ast.NullTest(draft.random.choice(missing).ref, negated=draft.chance(0.6))
    found = draft.property_of(scope.variables)
    if found is None:
        return None
    operand = query_ast.PropertyRef(found[0].name, found[1].name)
    return query_ast.NullTest(operand, negated=draft.chance(0.6))


def _truth(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    found = draft.property_of(scope.variables, lambda t: t.scalar is Scalar.BOOL and not t.is_list)
    if found is None:
        return None
    return query_ast.Truth(query_ast.PropertyRef(found[0].name, found[1].name))


def _identity(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    nodes = scope.of("node")
    if len(nodes) < 2:
        return None
    one, other = draft.random.sample(nodes, 2)
    op = query_ast.CompareOp.EQ if draft.chance(0.3) else query_ast.CompareOp.NE
    if draft.chance(0.3):
        left, right = query_ast.PropertyRef(one.name, "id"), query_ast.PropertyRef(other.name, "id")
        return query_ast.Comparison(left, draft.random.choice(ORDERED), right)
    if not set(one.types) & set(other.types):
        return None
    return query_ast.Comparison(one.ref, op, other.ref)


def _id_value(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    entities = [v for v in scope.variables if v.kind != "hops"]
    variable = draft.random.choice(entities) if entities else None
    ids = _ids(draft, variable) if variable is not None else []
    if variable is None or not ids:
        return None
    left = query_ast.PropertyRef(variable.name, "id")
    return query_ast.Comparison(
        left, draft.random.choice(ORDERED[1:]), literal(draft.random.choice(ids), _ANY)
    )


def _ids(draft: Draft, variable: Variable) -> list[str]:
    if variable.kind == "edge":
        return [edge.id for name in variable.types for edge in draft.data.edges[name]]
    return [node_id for name in variable.types for node_id in draft.data.nodes[name]]


def _type_name(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    nodes = scope.of("node")
    if not nodes:
        return None
    variable = draft.random.choice(nodes)
    call = query_ast.FunctionCall(query_ast.FunctionName.TYPE, (variable.ref,))
    name = draft.random.choice(sorted(draft.catalog.nodes))
    return query_ast.Comparison(call, draft.random.choice(ORDERED[:2]), literal(name, _ANY))


def _hops(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    counts = scope.of("hops")
    if not counts:
        return None
    number = query_ast.Literal(query_ast.LiteralKind.INTEGER, draft.random.randint(1, 3))
    return query_ast.Comparison(
        draft.random.choice(counts).ref, draft.random.choice(ORDERED), number
    )


def _now(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    found = draft.property_of(scope.variables, lambda t: t == _MOMENT or t == _MOMENT.optional())
    if found is None:
        return None
    left = query_ast.PropertyRef(found[0].name, found[1].name)
    return query_ast.Comparison(left, draft.random.choice(ORDERED), query_ast.NowCall())


_MOMENT = PropertyType(Scalar.DATETIME)


def _without_variable(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    """A condition that is the same for every row."""
    if draft.chance(0.3):
        return query_ast.Truth(draft.declare(PropertyType(Scalar.BOOL), draft.chance(0.8)))
    left = draft.parameter(draft.random.choice((0, 1, 2)), PropertyType(Scalar.I64))
    right = literal(draft.random.choice((0.5, 1, 2.5)), _ANY)
    return query_ast.Comparison(left, draft.random.choice(ORDERED), right)


def _among_given(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    """A list that is given, with the property on the right of `contains`."""
    fits = (Scalar.STRING, Scalar.I64, Scalar.U64, Scalar.DATE)
    found = draft.property_of(scope.variables, lambda t: t.is_plain_scalar and t.scalar in fits)
    if found is None:
        return None
    variable, property_ = found
    values = [draft.value_for(variable, property_) for _ in range(draft.random.randint(1, 3))]
    given: query_ast.Expression = query_ast.ListLiteral(tuple(literal(v, _ANY) for v in values))
    if draft.chance(0.5):
        declared = PropertyType(property_.type.scalar, is_list=True)
        given = draft.declare(declared, [_plain(v) for v in values])
    right = query_ast.PropertyRef(variable.name, property_.name)
    return query_ast.Comparison(given, query_ast.CompareOp.CONTAINS, right)


# --- search -----------------------------------------------------------------------------------


def text_property(draft: Draft, scope: Scope) -> query_ast.PropertyRef | None:
    """A property that holds plain words."""
    nodes = [v for v in scope.of("node") if any(p.name == "note" for p in draft.properties(v))]
    return query_ast.PropertyRef(draft.random.choice(nodes).name, "note") if nodes else None


def vector_property(draft: Draft, scope: Scope) -> query_ast.PropertyRef | None:
    found = draft.property_of(scope.of("node"), lambda t: t.is_vector)
    return query_ast.PropertyRef(found[0].name, found[1].name) if found else None


def words(draft: Draft, most: int = 2) -> query_ast.Expression:
    text = " ".join(draft.random.sample(WORDS, draft.random.randint(1, most)))
    if draft.chance(0.3):
        nullable = draft.chance(0.3)
        declared = PropertyType(Scalar.STRING, nullable)
        return draft.declare(declared, None if nullable and draft.chance(0.3) else text)
    return literal(text, _ANY)


def vector(draft: Draft) -> query_ast.Expression:
    """A point that has different distances to all stored ones."""
    base = draft.random.choice(VECTORS)
    point = [base[0] + 0.125, base[1] + 0.3125]
    if draft.chance(0.4):
        return draft.declare(PropertyType(Scalar.VECTOR, dimension=2), point)
    return query_ast.ListLiteral(tuple(literal(number, _ANY) for number in point))


def text_match(draft: Draft, scope: Scope) -> query_ast.FunctionCall | None:
    field = text_property(draft, scope)
    if field is None:
        return None
    names = (
        query_ast.FunctionName.SEARCH,
        query_ast.FunctionName.MATCH_TEXT,
        query_ast.FunctionName.FUZZY,
    )
    function = draft.random.choice(names)
    arguments: tuple[query_ast.Expression, ...] = (field, words(draft))
    if function is query_ast.FunctionName.FUZZY and draft.chance(0.6):
        arguments += (query_ast.Literal(query_ast.LiteralKind.INTEGER, draft.random.randint(0, 2)),)
    return query_ast.FunctionCall(function, arguments)


def _search(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    call = text_match(draft, scope)
    if call is None:
        return None
    if draft.chance(0.2):
        flag = query_ast.Literal(query_ast.LiteralKind.BOOL, draft.chance(0.5))
        return query_ast.Comparison(call, draft.random.choice(ORDERED[:2]), flag)
    return query_ast.Truth(call)


def _distance(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    field = vector_property(draft, scope)
    if field is None:
        return None
    call = query_ast.FunctionCall(query_ast.FunctionName.NEAREST, (field, vector(draft)))
    bound = query_ast.Literal(query_ast.LiteralKind.FLOAT, draft.random.choice((0.77, 1.33, 2.21)))
    return query_ast.Comparison(call, draft.random.choice(ORDERED[2:]), bound)


def _relevance(draft: Draft, scope: Scope) -> query_ast.Condition | None:
    field = text_property(draft, scope)
    if field is None:
        return None
    call = query_ast.FunctionCall(query_ast.FunctionName.BM25, (field, words(draft)))
    if draft.chance(0.5):
        return query_ast.NullTest(call, negated=draft.chance(0.7))
    bound = query_ast.Literal(query_ast.LiteralKind.FLOAT, draft.random.choice((0.3, 0.61, 1.07)))
    return query_ast.Comparison(call, draft.random.choice(ORDERED[2:]), bound)


MAKERS: tuple[Maker, ...] = (
    _with_value,
    _two_properties,
    _membership,
    _list_contains,
    _textual,
    _null_test,
    _truth,
    _identity,
    _id_value,
    _type_name,
    _hops,
    _now,
    _search,
    _distance,
    _relevance,
    _without_variable,
    _among_given,
)
WEIGHTS = (20, 8, 8, 6, 6, 8, 3, 5, 4, 3, 4, 3, 5, 2, 2, 2, 2)

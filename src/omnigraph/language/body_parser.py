"""Parse the parameters and the body of a query: a `match` with its `return`, or statements."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from omnigraph.language.clause_parser import parse_block
from omnigraph.language.error_recovery import (
    STATEMENT_WORDS,
    Boundary,
    check_room,
    close_block,
    expect_keyword,
    is_at_section,
    is_at_statement,
    is_first_of_line,
    is_symbol,
    skip,
    skip_header,
)
from omnigraph.language.expression_parser import (
    expect_name,
    parse_expression,
    parse_property_match,
    parse_where_condition,
    read_integer,
)
from omnigraph.language.lexer import Cursor, SyntaxStop, Token, TokenKind, suggest_closest
from omnigraph.language.query_ast import (
    AliasRef,
    Delete,
    Expression,
    FunctionCall,
    FunctionName,
    Insert,
    Literal,
    LiteralKind,
    MutationBody,
    ObjectProjection,
    Ordering,
    Parameter,
    Projection,
    PropertyMatch,
    ReadBody,
    Statement,
    Update,
    VariableRef,
)
from omnigraph.types.property import MAX_VECTOR_DIMENSION, PropertyType, Scalar

RESERVED_PARAMETER = "__nanograph_now"

_SCALARS = {scalar.value: scalar for scalar in Scalar if scalar is not Scalar.VECTOR}
_TYPE_HINT = f"the types are {', '.join(_SCALARS)} and Vector(N); [T] is a list, T? may be null"


def parse_parameters(cursor: Cursor) -> tuple[Parameter, ...]:
    """Parse the parameters `($a: T, $b: U)`; after an error, continue behind the list."""
    parameters: dict[str, Parameter] = {}
    try:
        cursor.expect_symbol("(", "after the query name")
        while not cursor.at_symbol(")"):
            if parameters and not cursor.accept_symbol(","):
                cursor.fail("expected `,` or `)`")
            _parse_parameter(cursor, parameters)
        cursor.advance()
    except SyntaxStop:
        skip_header(cursor, until=("@", "{"))
    return tuple(parameters.values())


def _parse_parameter(cursor: Cursor, parameters: dict[str, Parameter]) -> None:
    hint = None
    if cursor.token.kind is TokenKind.NAME:
        hint = f"a parameter is written with a dollar sign: `${cursor.token.value}`"
    if cursor.token.kind is not TokenKind.VARIABLE:
        cursor.fail("expected a parameter", hint=hint)
    token = cursor.advance()
    name = token.value[1:]
    if name == RESERVED_PARAMETER:
        message = f"parameter '{name}' is reserved for runtime timestamp injection"
        cursor.report("P114", message, token.span, hint="use `now()`")
    if name in parameters:
        cursor.report("P111", f"duplicate parameter '${name}'", token.span)
    cursor.expect_symbol(":", f"after `{token.value}`")
    declared = _parse_parameter_type(cursor)
    parameters.setdefault(name, Parameter(name, declared, token.span.to(cursor.previous.span)))


def _parse_parameter_type(cursor: Cursor) -> PropertyType:
    if cursor.accept_symbol("["):
        element = _parse_element(cursor)
        if cursor.at_symbol("?"):
            cursor.fail("expected `]`", hint="only the list as a whole can be optional: `[T]?`")
        cursor.expect_symbol("]")
        return PropertyType(element.scalar, cursor.accept_symbol("?"), is_list=True)
    plain = _parse_plain_type(cursor)
    return plain.optional() if cursor.accept_symbol("?") else plain


def _parse_element(cursor: Cursor) -> PropertyType:
    token = cursor.token
    element = _parse_plain_type(cursor)
    if element.is_vector:
        _refuse_type(cursor, token, f"[{element}]", "a list holds scalars")
    return element


def _parse_plain_type(cursor: Cursor) -> PropertyType:
    if cursor.token.kind not in (TokenKind.TYPE_NAME, TokenKind.NAME):
        cursor.fail("expected a parameter type")
    token = cursor.advance()
    if token.value == Scalar.VECTOR and token.kind is TokenKind.TYPE_NAME:
        return PropertyType(Scalar.VECTOR, dimension=_parse_dimension(cursor))
    scalar = _SCALARS.get(token.value)
    if scalar is not None:
        return PropertyType(scalar)
    if token.value == "enum":
        hint = "a parameter for an enum is a `String`"
    else:
        hint = suggest_closest(token.value, (*_SCALARS, Scalar.VECTOR)) or _TYPE_HINT
    _refuse_type(cursor, token, token.value, hint)
    if cursor.at_symbol("("):
        while not (cursor.at_symbol("{") or cursor.at_end() or cursor.accept_symbol(")")):
            cursor.advance()
    return PropertyType(Scalar.STRING)


def _refuse_type(cursor: Cursor, token: Token, name: str, hint: str) -> None:
    cursor.report("P115", f"unknown parameter type '{name}'", token.span, hint=hint)


def _parse_dimension(cursor: Cursor) -> int:
    cursor.expect_symbol("(", "and the dimension after `Vector`")
    token = cursor.expect(TokenKind.INTEGER, "the dimension of the vector")
    cursor.expect_symbol(")")
    mistakes_before = len(cursor.problems.found)
    dimension = read_integer(cursor, token.value, token.span)
    in_range = 1 <= dimension <= MAX_VECTOR_DIMENSION
    if not in_range and len(cursor.problems.found) == mistakes_before:
        message = f"a vector has 1 to {MAX_VECTOR_DIMENSION} dimensions, not {dimension}"
        cursor.report("P123", message, token.span)
    return dimension


Item = TypeVar("Item")


def is_at_statement_word(cursor: Cursor) -> bool:
    return cursor.token.kind is TokenKind.NAME and cursor.token.value in STATEMENT_WORDS


def parse_statements(cursor: Cursor) -> tuple[Statement, ...]:
    """Parse statements up to a `}` or a `match {`; an invalid one is reported and skipped."""
    statements: list[Statement] = []
    while not (cursor.at_symbol("}") or cursor.at_end() or is_at_section(cursor)):
        start, depth = cursor.position, cursor.depth()
        try:
            statements.append(_parse_statement(cursor))
        except SyntaxStop:
            cursor.restore_depth(depth)
            skip(cursor, start, is_at_statement)
    return tuple(statements)


def _parse_statement(cursor: Cursor) -> Statement:
    if not is_at_statement_word(cursor):
        cursor.fail("expected a statement or `}`", known=(*STATEMENT_WORDS, "and", "or"))
    word = cursor.advance()
    if cursor.token.kind is TokenKind.NAME:
        cursor.fail("expected a type name", hint="a type name starts in upper case")
    type_name = cursor.expect(TokenKind.TYPE_NAME, "a type name")
    if word.value == "delete":
        return _delete(cursor, word, type_name)
    if word.value == "update":
        return _update(cursor, word, type_name)
    assignments = _parse_assignments(cursor)
    span = word.span.to(cursor.previous.span)
    return Insert(type_name.value, assignments, word.value == "merge", span, type_name.span)


def _update(cursor: Cursor, word: Token, type_name: Token) -> Update:
    expect_keyword(cursor, "set", f"after `update {type_name.value}`")
    assignments = _parse_assignments(cursor)
    expect_keyword(cursor, "where", "after the assignments")
    where = parse_where_condition(cursor)
    span = word.span.to(cursor.previous.span)
    return Update(type_name.value, assignments, where, span, type_name.span)


def _delete(cursor: Cursor, word: Token, type_name: Token) -> Delete:
    expect_keyword(cursor, "where", f"after `delete {type_name.value}`")
    where = parse_where_condition(cursor)
    return Delete(type_name.value, where, word.span.to(cursor.previous.span), type_name.span)


def _parse_assignments(cursor: Cursor) -> tuple[PropertyMatch, ...]:
    return parse_loose_list(cursor, "assignments", parse_property_match, _is_at_assignment)


def _is_at_assignment(cursor: Cursor, bracketed: bool) -> bool:  # noqa: FBT001 - a Boundary
    if bracketed:
        return False
    named = cursor.token.kind is TokenKind.NAME and is_symbol(cursor.peek(), ":")
    return named or cursor.at_symbol(",")


def parse_loose_list(
    cursor: Cursor, what: str, parse_item: Callable[[Cursor], Item], boundary: Boundary
) -> tuple[Item, ...]:
    """Parse the items of `{ item [,] item [,] … }`, at least one; invalid items are skipped."""
    cursor.expect_symbol("{")
    mistakes_before, broken = len(cursor.problems.found), False
    items: list[Item] = []
    while not (cursor.at_end() or is_at_section(cursor)):
        if cursor.at_symbol("}") and (items or broken):
            break
        check_room(cursor, items, what)
        start, depth = cursor.position, cursor.depth()
        try:
            items.append(parse_item(cursor))
        except SyntaxStop:
            broken = True
            cursor.restore_depth(depth)
            if cursor.position > start or not cursor.at_symbol(","):
                skip(cursor, start, boundary)
        cursor.accept_symbol(",")
    close_block(cursor, mistakes_before)
    return tuple(items)


def parse_body(cursor: Cursor) -> ReadBody | MutationBody:
    """Parse the body of a query up to its closing `}`, which the caller consumes."""
    cursor.expect_symbol("{", "before the body of the query")
    if cursor.at_symbol("}"):
        hint = "a query holds a `match` and a `return`, or statements such as `insert`"
        cursor.report("P117", "the query has an empty body", cursor.token.span, hint=hint)
        return MutationBody(())
    if cursor.at_word("match") or _is_misspelled_match(cursor):
        body = _read(cursor)
        if is_at_statement_word(cursor):
            _refuse_mixture(cursor)
            parse_statements(cursor)
        return body
    if not is_at_statement_word(cursor):
        words = ("match", *STATEMENT_WORDS)
        expected = ", ".join(f"`{word}`" for word in words[:-1])
        cursor.fail(f"expected {expected} or `{words[-1]}`", known=words)
    statements = parse_statements(cursor)
    if cursor.at_word("match"):
        _refuse_mixture(cursor)
        _read(cursor)
    return MutationBody(statements)


def _is_misspelled_match(cursor: Cursor) -> bool:
    return (
        is_symbol(cursor.peek(), "{")
        and suggest_closest(cursor.token.value, ("match",)) is not None
    )


def _refuse_mixture(cursor: Cursor) -> None:
    message = f"a query reads or writes, not both: `{cursor.token.value}` is not allowed here"
    cursor.report("P117", message, cursor.token.span, hint="split it into two queries")


# --- reading -------------------------------------------------------------------------------------


def _read(cursor: Cursor) -> ReadBody:
    expect_keyword(cursor, "match")
    clauses = parse_block(cursor)
    expect_keyword(cursor, "return", "after the `match` block")
    distinct = cursor.accept_word("distinct")
    projections = parse_loose_list(cursor, "columns", _parse_projection, _is_at_projection)
    order = _order(cursor) if cursor.at_word("order") else ()
    limit = _parse_row_count(cursor, "limit")
    offset = _parse_row_count(cursor, "offset")
    return ReadBody(clauses, projections, distinct, order, limit, offset)


def _parse_projection(cursor: Cursor) -> Projection:
    start = cursor.token
    expression = _parse_projected(cursor)
    alias = None
    if cursor.accept_word("as"):
        alias = expect_name(cursor, "a column name after `as`", "a column name").value
    return Projection(expression, alias, start.span.to(cursor.previous.span))


def _parse_projected(cursor: Cursor) -> Expression:
    variable = cursor.token
    if variable.kind is not TokenKind.VARIABLE or not is_symbol(cursor.peek(), "{"):
        return parse_expression(cursor)
    cursor.advance()
    cursor.advance()
    if cursor.at_symbol("*"):
        cursor.advance()
        properties = None
        close = cursor.expect_symbol("}", "after `*`")
    else:
        properties = _parse_property_names(cursor)
        close = cursor.advance()
    return ObjectProjection(variable.value[1:], properties, variable.span.to(close.span))


def _parse_property_names(cursor: Cursor) -> tuple[str, ...]:
    names = [expect_name(cursor, "`*` or a property name", "a property name").value]
    while not cursor.at_symbol("}"):
        if not cursor.accept_symbol(","):
            cursor.fail("expected `,` or `}`")
        if not cursor.at_symbol("}"):
            check_room(cursor, names, "properties")
            names.append(expect_name(cursor, "a property name", "a property name").value)
    return tuple(names)


def _is_at_projection(cursor: Cursor, bracketed: bool) -> bool:  # noqa: FBT001 - a Boundary
    if bracketed:
        return False
    variable = cursor.token.kind is TokenKind.VARIABLE and is_first_of_line(cursor)
    return variable or cursor.at_symbol(",")


# --- order, limit, offset ------------------------------------------------------------------------


def _order(cursor: Cursor) -> tuple[Ordering, ...]:
    cursor.advance()
    cursor.expect_symbol("{", "after `order`")
    start, depth = cursor.position, cursor.depth()
    orderings: list[Ordering] = []
    try:
        while not (orderings and cursor.at_symbol("}")):
            if orderings and not cursor.accept_symbol(","):
                cursor.fail("expected `,` or `}`", known=("asc", "desc"))
            check_room(cursor, orderings, "keys")
            orderings.append(_parse_ordering(cursor))
    except SyntaxStop:
        cursor.restore_depth(depth)
        skip(cursor, start, lambda _cursor, _bracketed: False)
    if not cursor.accept_symbol("}"):
        raise SyntaxStop
    return tuple(orderings)


def _parse_ordering(cursor: Cursor) -> Ordering:
    start = cursor.token
    # A column may be called `null`; ordering by the constant says nothing.
    if cursor.at_word("null"):
        expression: Expression = AliasRef("null", cursor.advance().span)
    else:
        expression = parse_expression(cursor)
    descending = None
    if cursor.at_word("asc") or cursor.at_word("desc"):
        word = cursor.advance()
        descending = word.value == "desc"
        if isinstance(expression, FunctionCall) and expression.function is FunctionName.NEAREST:
            message = f"`nearest` takes no `{word.value}`: the nearest row comes first"
            cursor.report("P116", message, word.span)
    return Ordering(expression, descending, start.span.to(cursor.previous.span))


def _parse_row_count(cursor: Cursor, word: str) -> Expression | None:
    if not cursor.accept_word(word):
        return None
    token = cursor.token
    if token.kind is TokenKind.VARIABLE:
        cursor.advance()
        return VariableRef(token.value[1:], token.span)
    number = cursor.expect(TokenKind.INTEGER, f"a whole number or a parameter after `{word}`")
    value = read_integer(cursor, number.value, number.span)
    return Literal(LiteralKind.INTEGER, value, number.span)

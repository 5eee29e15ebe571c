"""Reading what a query does: a `match` with its `return`, or statements that change the graph."""

from __future__ import annotations

from omnigraph.language.cursor import Cursor, SyntaxStop, suggest_closest
from omnigraph.language.lexer import TokenKind
from omnigraph.language.query.clause_parser import parse_block
from omnigraph.language.query.error_recovery import (
    STATEMENT_WORDS,
    check_room,
    expect_keyword,
    is_first_of_line,
    is_symbol,
    skip,
)
from omnigraph.language.query.expression_parser import expect_name, parse_expression, read_integer
from omnigraph.language.query.query_ast import (
    AliasRef,
    Expression,
    FunctionCall,
    FunctionName,
    Literal,
    LiteralKind,
    MutationBody,
    ObjectProjection,
    Ordering,
    Projection,
    ReadBody,
    VariableRef,
)
from omnigraph.language.query.statement_parser import (
    is_at_statement_word,
    parse_loose_list,
    parse_statements,
)


def parse_body(cursor: Cursor) -> ReadBody | MutationBody:
    """The body of a query up to its closing `}`, which is left to the caller."""
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

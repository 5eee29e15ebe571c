"""Parse query text to a syntax tree, and list the words an editor may offer."""

from __future__ import annotations

from bisect import bisect_right

from omnigraph.errors import CompileError, Diagnostic
from omnigraph.language.body_parser import parse_body, parse_parameters
from omnigraph.language.error_recovery import (
    expect_keyword,
    is_at_query,
    skip_header,
    skip_to_query,
)
from omnigraph.language.expression_parser import (
    CALLABLE,
    CONSTANTS,
    OPERATOR_WORDS,
    expect_name,
    parse_where_condition,
)
from omnigraph.language.lexer import Cursor, SyntaxStop, Token, TokenKind, suggest_closest, tokenize
from omnigraph.language.query_ast import Condition, Parameter, QueryDecl, QueryFile
from omnigraph.language.source import Problems, SourceText

ANNOTATIONS = ("description", "instruction")
BODY_WORDS = ("match", "return", "insert", "update", "delete", "merge")
"""First tokens where the enclosing `query` was omitted."""
TAIL_WORDS = ("order", "limit", "offset")
"""Tokens that may follow a `return`."""


def parse_query_file(source: SourceText) -> QueryFile:
    """Parse the queries of a file, in order; an empty file has none.

    Raises:
        CompileError: the text has errors; all of them are attached.
    """
    source.require_encodable()
    problems = Problems(source, "parse")
    tokens = tokenize(source, problems)
    unreadable = tuple(problems.found)
    cursor = Cursor(tokens, problems)
    queries: list[QueryDecl] = []
    lines: dict[str, int] = {}
    while not cursor.at_end():
        start, mistakes_before = cursor.position, len(problems.found)
        try:
            queries.append(_parse_query(cursor, lines))
        except SyntaxStop:
            cursor.restore_depth(0)
        if len(problems.found) > mistakes_before:
            # After a broken query comes most likely the rest of it, up to the next one.
            skip_to_query(cursor, start)
    if problems.found:
        raise CompileError(_drop_echoes(problems.found, unreadable, tokens))
    return QueryFile(tuple(queries))


def parse_condition(source: SourceText) -> Condition:
    """Parse a single condition, written as in the `where` of a mutation.

    Raises:
        CompileError: the text has errors; all of them are attached.
    """
    source.require_encodable()
    problems = Problems(source, "parse")
    tokens = tokenize(source, problems)
    unreadable = tuple(problems.found)
    cursor = Cursor(tokens, problems)
    try:
        condition = parse_where_condition(cursor)
        if not cursor.at_end():
            cursor.fail("expected `and`, `or` or the end", known=("and", "or"))
    except SyntaxStop:
        raise CompileError(_drop_echoes(problems.found, unreadable, tokens)) from None
    problems.raise_if_any()
    return condition


def _drop_echoes(
    found: list[Diagnostic], unreadable: tuple[Diagnostic, ...], tokens: list[Token]
) -> list[Diagnostic]:
    """Drop the syntax errors right behind unreadable characters."""
    gaps = {bisect_right(tokens, d.start, key=lambda t: t.span.start) for d in unreadable}
    starts = {tokens[min(gap, len(tokens) - 1)].span.start for gap in gaps}
    return [d for d in found if d.code != "P107" or d.start not in starts]


# --- one query -----------------------------------------------------------------------------------


def _parse_query(cursor: Cursor, lines: dict[str, int]) -> QueryDecl:
    mistakes_before = len(cursor.problems.found)
    if cursor.token.value in BODY_WORDS:
        cursor.fail("expected `query`", hint=f"name it: query q() {{ {cursor.token.value} … }}")
    word = expect_keyword(cursor, "query")
    name, parameters, notes = _parse_header(cursor, lines)
    body = parse_body(cursor)
    _close(cursor, mistakes_before)
    return QueryDecl(
        name=name.value,
        parameters=parameters,
        body=body,
        description=notes.get("description"),
        instruction=notes.get("instruction"),
        span=word.span.to(cursor.previous.span),
        name_span=name.span,
    )


def _parse_header(
    cursor: Cursor, lines: dict[str, int]
) -> tuple[Token, tuple[Parameter, ...], dict[str, str]]:
    """Parse name, parameters and annotations; after an error, continue at the body."""
    name, notes = cursor.token, {}
    parameters: tuple[Parameter, ...] = ()
    try:
        name = expect_name(cursor, "a query name", "a query name")
        _check_new(cursor, name, lines)
        parameters = parse_parameters(cursor)
        notes = _parse_annotations(cursor)
    except SyntaxStop:
        skip_header(cursor, until="{")
    return name, parameters, notes


def _check_new(cursor: Cursor, name: Token, lines: dict[str, int]) -> None:
    line, _ = cursor.problems.source.line_and_column(name.span.start)
    if name.value in lines:
        hint = f"line {lines[name.value]} has a query of this name"
        cursor.report("P110", f"duplicate query '{name.value}'", name.span, hint=hint)
    else:
        lines[name.value] = line


_MISPLACED = {
    "match": "a query has one `match`",
    "return": "a query has one `return`, after its `match`",
    "order": "`order` comes between `return` and `limit`",
    "limit": "`limit` comes before `offset`",
    "offset": "a query has one `offset`",
}


def _close(cursor: Cursor, mistakes_before: int) -> None:
    if cursor.accept_symbol("}"):
        return
    if len(cursor.problems.found) > mistakes_before and (cursor.at_end() or is_at_query(cursor)):
        raise SyntaxStop
    hint = _MISPLACED.get(cursor.token.value) if cursor.token.kind is TokenKind.NAME else None
    cursor.fail("expected `}`", known=TAIL_WORDS, hint=hint)


# --- annotations ---------------------------------------------------------------------------------


def _parse_annotations(cursor: Cursor) -> dict[str, str]:
    found: dict[str, str] = {}
    while cursor.at_symbol("@"):
        at = cursor.advance()
        name = expect_name(cursor, "an annotation name", "an annotation name")
        span = at.span.to(name.span)
        if name.value not in ANNOTATIONS:
            message = f"unknown query annotation '@{name.value}'"
            cursor.report("P113", message, span, hint=suggest_closest(name.value, ANNOTATIONS))
            _skip_arguments(cursor)
            continue
        if name.value in found:
            cursor.report("P112", f"duplicate @{name.value}", span)
        cursor.expect_symbol("(", f"after `@{name.value}`")
        found[name.value] = cursor.expect(TokenKind.STRING, "a string").value
        cursor.expect_symbol(")")
    return found


def _skip_arguments(cursor: Cursor) -> None:
    if cursor.at_symbol("("):
        while not (cursor.at_end() or cursor.at_symbol(")") or cursor.at_symbol("{")):
            cursor.advance()
        cursor.accept_symbol(")")


QUERY_WORDS = frozenset(
    {
        "query",
        *(f"@{name}" for name in ANNOTATIONS),
        *BODY_WORDS,
        *TAIL_WORDS,
        *("distinct", "as", "asc", "desc", "not", "optional", "hops", "set", "where"),
        *OPERATOR_WORDS,
        *CALLABLE,
        *CONSTANTS,
    }
)
"""Every word with a meaning of its own somewhere in a query."""

"""Reading the statements of a mutation: `insert`, `merge`, `update` and `delete`."""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeVar

from omnigraph.language.cursor import Cursor, SyntaxStop
from omnigraph.language.lexer import Token, TokenKind
from omnigraph.language.query.clause_parser import parse_property_match
from omnigraph.language.query.condition_parser import parse_where_condition
from omnigraph.language.query.error_recovery import (
    STATEMENT_WORDS,
    Boundary,
    check_room,
    close_block,
    expect_keyword,
    is_at_section,
    is_at_statement,
    is_symbol,
    skip,
)
from omnigraph.language.query.query_ast import Delete, Insert, PropertyMatch, Statement, Update

Item = TypeVar("Item")


def is_at_statement_word(cursor: Cursor) -> bool:
    return cursor.token.kind is TokenKind.NAME and cursor.token.value in STATEMENT_WORDS


def parse_statements(cursor: Cursor) -> tuple[Statement, ...]:
    """The statements up to a `}` or a `match {`; a bad one is reported and stepped over."""
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
    """The items of `{ item [,] item [,] … }`, at least one; bad items are stepped over."""
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

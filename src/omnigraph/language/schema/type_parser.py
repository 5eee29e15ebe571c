"""Property types: `String`, `[I64]?`, `enum(a, b)`, `Vector(3)`."""

from __future__ import annotations

import re
from typing import NoReturn

from omnigraph.language.cursor import Cursor, SyntaxStop, suggest_closest
from omnigraph.language.lexer import Token, TokenKind
from omnigraph.language.source import Span
from omnigraph.types.property import MAX_VECTOR_DIMENSION, PropertyType, Scalar

_ENUM_VALUE = re.compile(r"[A-Za-z0-9_-]+")
_ENUM_PIECES = frozenset(
    {TokenKind.TYPE_NAME, TokenKind.NAME, TokenKind.INTEGER, TokenKind.WORD, TokenKind.FLOAT}
)
_SCALARS = {str(scalar): scalar for scalar in Scalar}
_TYPE_WORDS = (*_SCALARS, "enum")


def parse_type(cursor: Cursor) -> tuple[PropertyType, Span]:
    """The type that starts here, and where it is."""
    start = cursor.token.span
    core = _list(cursor) if cursor.at_symbol("[") else _parse_core(cursor)
    if cursor.accept_symbol("?"):
        core = core.optional()
    return core, start.to(cursor.previous.span)


def parse_unsigned(token: Token, limit: int) -> int | None:
    """The value of an integer token, or None if it is above `limit`."""
    digits = token.value.lstrip("0") or "0"
    # Compared by length first: Python refuses to read a number of thousands of digits.
    if len(digits) > len(str(limit)) or int(digits) > limit:
        return None
    return int(digits)


def _parse_core(cursor: Cursor) -> PropertyType:
    token = cursor.token
    if cursor.at_word("enum") and _parse_before(cursor, "("):
        return _parse_enum(cursor)
    if cursor.at(TokenKind.TYPE_NAME, Scalar.VECTOR):
        return _parse_vector(cursor)
    if token.kind is not TokenKind.TYPE_NAME or token.value not in _SCALARS:
        _refuse_type(cursor)
    cursor.advance()
    return PropertyType(_SCALARS[token.value])


def _parse_before(cursor: Cursor, symbol: str) -> bool:
    following = cursor.peek()
    return following.kind is TokenKind.SYMBOL and following.value == symbol


def _refuse_type(cursor: Cursor) -> NoReturn:
    token = cursor.token
    is_word = token.kind in (TokenKind.TYPE_NAME, TokenKind.NAME)
    if is_word and not _parse_before(cursor, ":"):
        _refuse_unknown(cursor)
    cursor.fail("expected a type", hint="such as `String`, `I64?`, `[String]` or `enum(a, b)`")


def _refuse_unknown(cursor: Cursor) -> NoReturn:
    token = cursor.advance()
    hint = None
    if token.value == "enum":
        hint = "an enum lists its values: `enum(a, b)`"
    elif len(token.value) <= 40:
        by_case = {word.lower(): word for word in _TYPE_WORDS}
        same = by_case.get(token.value.lower())
        hint = f"did you mean `{same}`?" if same else suggest_closest(token.value, _TYPE_WORDS)
    cursor.report("P131", f"unknown type {token.describe()}", token.span, hint=hint)
    raise SyntaxStop


def _list(cursor: Cursor) -> PropertyType:
    cursor.expect_symbol("[")
    start = cursor.token.span
    if cursor.at_symbol("["):
        cursor.report("P135", "list of lists is not supported", start)
        raise SyntaxStop
    member = _parse_core(cursor)
    span = start.to(cursor.previous.span)
    if not member.is_plain_scalar or member.is_enum:
        word = "enum" if member.is_enum else str(member.scalar)
        cursor.report("P135", f"list of {word} is not supported", span)
    if cursor.accept_symbol("?"):
        cursor.report(
            "P135",
            "a list member takes no `?`",
            cursor.previous.span,
            hint=f"any member may be null; an optional list is `[{member.scalar}]?`",
        )
    cursor.expect_symbol("]", "after the member type of the list")
    return PropertyType(member.scalar, is_list=True)


def _parse_enum(cursor: Cursor) -> PropertyType:
    cursor.advance()
    cursor.expect_symbol("(")
    values: set[str] = set()
    while True:
        value, span = _parse_enum_value(cursor)
        if value in values:
            cursor.report("P132", f"enum has duplicate values: '{value}'", span)
        values.add(value)
        if not cursor.accept_symbol(","):
            break
    cursor.expect_symbol(")", "after the values of the enum")
    return PropertyType(Scalar.STRING, enum_values=tuple(sorted(values)))


def _parse_enum_value(cursor: Cursor) -> tuple[str, Span]:
    """One value, which may run over several tokens: `low-fi`, `3d`, `-1`, `2024-06`."""
    first = cursor.token
    pieces: list[str] = []
    while cursor.token.kind in _ENUM_PIECES or cursor.at_symbol("-"):
        touching = cursor.touches_next()
        pieces.append(cursor.advance().value)
        if not touching:
            break
    value, span = "".join(pieces), first.span.to(cursor.previous.span)
    hint = "letters, digits, `_` and `-`, without quotes"
    if not pieces:
        cursor.fail("expected an enum value", hint=hint)
    if not _ENUM_VALUE.fullmatch(value):
        cursor.report("P107", f"expected an enum value, found '{value[:40]}'", span, hint=hint)
        raise SyntaxStop
    return value, span


def _parse_vector(cursor: Cursor) -> PropertyType:
    cursor.advance()
    cursor.expect_symbol("(", "and the number of dimensions after `Vector`")
    token = cursor.expect(TokenKind.INTEGER, "the number of dimensions")
    dimension = parse_unsigned(token, MAX_VECTOR_DIMENSION)
    if dimension == 0:
        cursor.report("P133", "Vector dimension must be greater than zero", token.span)
    if dimension is None:
        message = f"Vector dimension exceeds maximum supported {MAX_VECTOR_DIMENSION}"
        cursor.report("P134", message, token.span)
    cursor.expect_symbol(")", "after the number of dimensions")
    return PropertyType(Scalar.VECTOR, dimension=dimension or 1)

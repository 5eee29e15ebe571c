"""Parse property types, annotations, constraints and cardinalities of a schema."""

from __future__ import annotations

import re
from typing import NoReturn

from omnigraph.language.lexer import Cursor, SyntaxStop, Token, TokenKind, suggest_closest
from omnigraph.language.schema_ast import (
    AnnotationArgument,
    AnnotationDecl,
    Cardinality,
    ConstraintArgument,
    ConstraintClause,
    NameRef,
    RangeBounds,
    SchemaLiteral,
)
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


CONSTRAINT_WORDS = frozenset({"key", "unique", "index", "range", "check"})
_NUMBERS = (TokenKind.INTEGER, TokenKind.FLOAT)
MAX_CARDINALITY = 2**32 - 1
_TRUTH_WORDS = ("true", "false")


def is_at_constraint(cursor: Cursor) -> bool:
    """Return whether a constraint such as `@key(` starts here."""
    return cursor.at_symbol("@") and is_constraint(cursor.peek(1), cursor.peek(2))


def is_constraint(word: Token, following: Token) -> bool:
    return (
        word.kind is TokenKind.NAME
        and word.value in CONSTRAINT_WORDS
        and following.kind is TokenKind.SYMBOL
        and following.value == "("
    )


def parse_annotations(cursor: Cursor) -> tuple[AnnotationDecl, ...]:
    """Parse annotations up to the next constraint or other token."""
    annotations = []
    while cursor.at_symbol("@") and not is_at_constraint(cursor):
        annotations.append(parse_annotation(cursor))
    return tuple(annotations)


def parse_annotation(cursor: Cursor) -> AnnotationDecl:
    start = cursor.expect_symbol("@").span
    name = _parse_annotation_name(cursor)
    if name == "card":
        _refuse_misplaced_card(cursor, start.start)
        return AnnotationDecl(name)
    argument: AnnotationArgument | None = None
    keywords: list[tuple[str, SchemaLiteral]] = []
    if cursor.accept_symbol("("):
        argument = _parse_first_argument(cursor)
        while cursor.accept_symbol(","):
            _parse_more_arguments(cursor, keywords)
        cursor.expect_symbol(")", f"after the arguments of `@{name}`")
    return AnnotationDecl(name, argument, tuple(keywords), start.to(cursor.previous.span))


def _parse_annotation_name(cursor: Cursor) -> str:
    token = cursor.token
    if token.kind is TokenKind.TYPE_NAME:
        hint = f"write `@{token.value[:1].lower()}{token.value[1:40]}`"
        cursor.report("P147", "an annotation name starts in lower case", token.span, hint=hint)
        return cursor.advance().value
    return cursor.expect(TokenKind.NAME, "the name of an annotation after `@`").value


def _refuse_misplaced_card(cursor: Cursor, start: int) -> None:
    span = cursor.previous.span._replace(start=start)
    cursor.report("P139", "`@card` belongs in an edge header, after the target type", span)
    while cursor.token.kind is TokenKind.INTEGER or cursor.token.value in ("(", "..", "*"):
        cursor.advance()
    cursor.accept_symbol(")")


def _parse_first_argument(cursor: Cursor) -> AnnotationArgument | None:
    if cursor.at_symbol(")"):
        cursor.report(
            "P144",
            "an annotation with parentheses needs a value",
            cursor.token.span,
            hint="without a value it has no parentheses",
        )
        return None
    if _is_at_keyword(cursor):
        message = "the first value of an annotation has no name"
        cursor.report("P144", message, cursor.token.span)
        _parse_keyword(cursor)
        return None
    return _parse_value(cursor)


def _parse_more_arguments(cursor: Cursor, keywords: list[tuple[str, SchemaLiteral]]) -> None:
    if _is_at_keyword(cursor):
        keywords.append(_parse_keyword(cursor))
        return
    start = cursor.token.span
    _parse_value(cursor)
    cursor.report(
        "P144",
        "only the first value of an annotation has no name",
        start.to(cursor.previous.span),
        hint="write `name=value`",
    )


def _is_at_keyword(cursor: Cursor) -> bool:
    following = cursor.peek()
    return (
        cursor.token.kind is TokenKind.NAME
        and following.kind is TokenKind.SYMBOL
        and following.value == "="
    )


def _parse_keyword(cursor: Cursor) -> tuple[str, SchemaLiteral]:
    """Parse `name=literal`; the span of the literal covers the name as well."""
    name = cursor.advance()
    cursor.expect_symbol("=")
    literal = _parse_literal(cursor)
    if literal is None:
        cursor.fail("expected a string, a number, `true` or `false`")
    whole = name.span.to(cursor.previous.span)
    return name.value, SchemaLiteral(literal.kind, literal.text, whole)


def _parse_value(cursor: Cursor) -> AnnotationArgument:
    literal = _parse_literal(cursor)
    if literal is not None:
        return literal
    token = cursor.token
    if token.kind is not TokenKind.NAME:
        quoted = f'in quotes: `"{token.value[:40]}"`'
        hint = quoted if token.kind is TokenKind.TYPE_NAME else None
        cursor.fail("expected a string, a number, `true`, `false` or a name", hint=hint)
    cursor.advance()
    return NameRef(token.value, token.span)


def _parse_literal(cursor: Cursor) -> SchemaLiteral | None:
    """Parse a literal; None, without consuming anything, if there is none."""
    token = cursor.token
    if token.kind is TokenKind.STRING:
        cursor.advance()
        return SchemaLiteral("string", token.value, token.span)
    if token.kind is TokenKind.NAME and token.value in _TRUTH_WORDS:
        cursor.advance()
        return SchemaLiteral("bool", token.value, token.span)
    return _number(cursor)


def _number(cursor: Cursor) -> SchemaLiteral | None:
    first, sign = cursor.token, ""
    if cursor.at_symbol("-") and cursor.touches_next() and cursor.peek().kind in _NUMBERS:
        cursor.advance()
        sign = "-"
    if cursor.token.kind not in _NUMBERS:
        return None
    token = cursor.advance()
    kind = "integer" if token.kind is TokenKind.INTEGER else "float"
    return SchemaLiteral(kind, sign + token.value, first.span.to(token.span))


# --- constraints ---------------------------------------------------------------------------------


def parse_constraint(cursor: Cursor) -> ConstraintClause:
    """Parse `@unique(a, b)` or `@range(a, 0..10)`; the catalog checks the arguments."""
    start = cursor.expect_symbol("@").span
    kind = cursor.expect(TokenKind.NAME, "the name of a constraint").value
    cursor.expect_symbol("(")
    arguments = [_parse_constraint_argument(cursor)]
    while cursor.accept_symbol(","):
        arguments.append(_parse_constraint_argument(cursor))
    cursor.expect_symbol(")", f"after the arguments of `@{kind}`")
    return ConstraintClause(kind, tuple(arguments), start.to(cursor.previous.span))


def _parse_constraint_argument(cursor: Cursor) -> ConstraintArgument:
    if cursor.at_symbol(".."):
        return _parse_bounds(cursor, None)
    literal = _parse_literal(cursor)
    if literal is None:
        return _parse_member_name(cursor)
    if literal.kind in ("integer", "float") and cursor.at_symbol(".."):
        return _parse_bounds(cursor, literal)
    return literal


def _parse_bounds(cursor: Cursor, low: SchemaLiteral | None) -> RangeBounds:
    dots = cursor.expect_symbol("..")
    high = _number(cursor)
    if high is None and low is None:
        cursor.fail("expected a number after `..`", hint="a range has at least one bound")
    for bound in (low, high):
        if bound is not None and "e" in bound.text.lower():
            hint = "write the number without an exponent"
            cursor.report("P145", "a bound is a plain decimal number", bound.span, hint=hint)
    start = low.span if low else dots.span
    return RangeBounds(
        low.text if low else None,
        high.text if high else None,
        start.to(cursor.previous.span),
    )


def _parse_member_name(cursor: Cursor) -> NameRef:
    if cursor.token.kind is not TokenKind.NAME:
        cursor.fail("expected a property name, a range or a literal")
    token = cursor.advance()
    return NameRef(token.value, token.span)


# --- cardinality ---------------------------------------------------------------------------------


def parse_cardinality(cursor: Cursor) -> Cardinality | None:
    """`@card(m..n)` if it is here."""
    word = cursor.peek()
    if not (cursor.at_symbol("@") and word.kind is TokenKind.NAME and word.value == "card"):
        return None
    start = cursor.advance().span
    cursor.advance()
    cursor.expect_symbol("(", "after `@card`")
    minimum = _parse_minimum(cursor)
    maximum = _parse_maximum(cursor)
    cursor.expect_symbol(")", "after the bounds of `@card`")
    return Cardinality(minimum, maximum, start.to(cursor.previous.span))


def _parse_minimum(cursor: Cursor) -> int:
    if cursor.token.kind is not TokenKind.INTEGER:
        _refuse_bound(cursor, "a cardinality starts with the lower bound", "`@card(0..1)`")
    lower = cursor.advance()
    if not cursor.accept_symbol(".."):
        exactly = lower.value[:10]
        hint = f"exactly {exactly} is `@card({exactly}..{exactly})`"
        _refuse_bound(cursor, "expected `..` after the lower bound", hint)
    return _parse_bound(cursor, lower)


def _parse_maximum(cursor: Cursor) -> int | None:
    if cursor.token.kind is TokenKind.INTEGER:
        return _parse_bound(cursor, cursor.advance())
    if not cursor.at_symbol(")"):
        hint = "leave out the upper bound if there is none: `@card(0..)`"
        _refuse_bound(cursor, "an upper bound is a number", hint)
    return None


def _parse_bound(cursor: Cursor, token: Token) -> int:
    value = parse_unsigned(token, MAX_CARDINALITY)
    if value is None:
        message = f"cardinality bound exceeds maximum supported {MAX_CARDINALITY}"
        cursor.report("P138", message, token.span)
    return value or 0


def _refuse_bound(cursor: Cursor, message: str, hint: str) -> NoReturn:
    found = cursor.token
    cursor.report("P137", f"{message}, found {found.describe()}", found.span, hint=hint)
    raise SyntaxStop

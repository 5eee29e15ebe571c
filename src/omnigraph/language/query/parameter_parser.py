"""Reading the parameter list of a query."""

from __future__ import annotations

from omnigraph.language.cursor import Cursor, SyntaxStop, suggest_closest
from omnigraph.language.lexer import Token, TokenKind
from omnigraph.language.query.error_recovery import skip_header
from omnigraph.language.query.expression_parser import read_integer
from omnigraph.language.query.query_ast import Parameter
from omnigraph.types.property import MAX_VECTOR_DIMENSION, PropertyType, Scalar

RESERVED_PARAMETER = "__nanograph_now"

_SCALARS = {scalar.value: scalar for scalar in Scalar if scalar is not Scalar.VECTOR}
_TYPE_HINT = f"the types are {', '.join(_SCALARS)} and Vector(N); [T] is a list, T? may be null"


def parse_parameters(cursor: Cursor) -> tuple[Parameter, ...]:
    """The parameters of `($a: T, $b: U)`; after a bad list reading goes on behind it."""
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

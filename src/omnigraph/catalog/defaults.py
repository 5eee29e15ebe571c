"""The value of `@default(…)`, read as the type of its property."""

from __future__ import annotations

from omnigraph.catalog.catalog import DefaultValue
from omnigraph.language.schema.schema_ast import SchemaLiteral
from omnigraph.types.json_value import RANGE_NAMES, convert_finite_float
from omnigraph.types.problems import ValueRefused
from omnigraph.types.property import FLOATS, INTEGER_BOUNDS, INTEGERS, PropertyType, Scalar
from omnigraph.types.temporal import parse_date, parse_datetime, render_date, render_datetime

_MAX_INTEGER_DIGITS = 20


def read_default(literal: SchemaLiteral, type_: PropertyType) -> DefaultValue:
    """The JSON value of a literal for a property of this type.

    Dates and instants are written in one way, so that two spellings of one instant are equal.

    Raises:
        ValueRefused: If the literal is no value of the type.
    """
    scalar = type_.scalar
    if scalar in INTEGERS:
        return DefaultValue(_parse_integer(literal, scalar))
    if scalar in FLOATS:
        return DefaultValue(_parse_float(literal, scalar))
    if scalar is Scalar.BOOL:
        _expect_kind(literal, "bool", "`true` or `false`")
        return DefaultValue(literal.text == "true")
    if scalar is Scalar.DATE:
        _expect_kind(literal, "string", 'a date such as "2024-06-01"')
        return DefaultValue(render_date(parse_date(literal.text)))
    if scalar is Scalar.DATETIME:
        _expect_kind(literal, "string", 'a date and time such as "2024-06-01T12:00:00Z"')
        return DefaultValue(render_datetime(parse_datetime(literal.text)))
    return DefaultValue(_parse_string(literal, type_))


def _expect_kind(literal: SchemaLiteral, kind: str, expected: str) -> None:
    if literal.kind != kind:
        raise ValueRefused(f"expected {expected}")


def _parse_integer(literal: SchemaLiteral, scalar: Scalar) -> int:
    _expect_kind(literal, "integer", "an integer")
    low, high = INTEGER_BOUNDS[scalar]
    digits = literal.text.removeprefix("-").lstrip("0")
    # Python refuses to read a number of thousands of digits.
    value = int(literal.text) if len(digits) <= _MAX_INTEGER_DIGITS else None
    if value is None or not low <= value <= high:
        raise ValueRefused(f"exceeds {RANGE_NAMES[scalar]} range ({low} to {high})")
    return value


def _parse_float(literal: SchemaLiteral, scalar: Scalar) -> float:
    if literal.kind not in ("integer", "float"):
        raise ValueRefused("expected a number")
    value = float(literal.text)
    convert_finite_float(value, scalar)
    # Kept at full width: what is stored is rounded when it is stored, and a plan shows it as given.
    return value


def _parse_string(literal: SchemaLiteral, type_: PropertyType) -> str:
    _expect_kind(literal, "string", "a string in quotes")
    if type_.enum_values is not None and literal.text not in type_.enum_values:
        raise ValueRefused(f"expected one of {', '.join(type_.enum_values)}")
    return literal.text

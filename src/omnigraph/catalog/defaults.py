"""The value of `@default(…)`, read as the type of its property."""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime

from omnigraph.catalog.model import DefaultValue
from omnigraph.language.schema.ast import Literal
from omnigraph.types.property import FLOATS, INTEGER_BOUNDS, INTEGERS, PropertyType, Scalar

_DATE = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")
_DATETIME = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2}"
    r"(T[0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]+)?(Z|[+-][0-9]{2}:[0-9]{2})?)?"
)
_MAX_INTEGER_DIGITS = 20


class DefaultMisfit(Exception):
    """A literal that is no value of the type; the text says why."""


def read_default(literal: Literal, type_: PropertyType) -> DefaultValue:
    """The JSON value of a literal for a property of this type.

    Date-times are brought to UTC and milliseconds, so that two spellings of one instant are equal.

    Raises:
        DefaultMisfit: If the literal is no value of the type.
    """
    if type_.scalar in INTEGERS:
        return DefaultValue(_integer(literal, type_.scalar))
    if type_.scalar in FLOATS:
        return DefaultValue(_float(literal, type_.scalar))
    if type_.scalar is Scalar.BOOL:
        _expect_kind(literal, "bool", "`true` or `false`")
        return DefaultValue(literal.text == "true")
    if type_.scalar is Scalar.DATE:
        return DefaultValue(_date(literal))
    if type_.scalar is Scalar.DATETIME:
        return DefaultValue(_datetime(literal))
    return DefaultValue(_string(literal, type_))


def _expect_kind(literal: Literal, kind: str, expected: str) -> None:
    if literal.kind != kind:
        raise DefaultMisfit(f"expected {expected}")


def _integer(literal: Literal, scalar: Scalar) -> int:
    _expect_kind(literal, "integer", "an integer")
    low, high = INTEGER_BOUNDS[scalar]
    digits = literal.text.removeprefix("-").lstrip("0")
    # Python refuses to read a number of thousands of digits.
    value = int(literal.text) if len(digits) <= _MAX_INTEGER_DIGITS else None
    if value is None or not low <= value <= high:
        raise DefaultMisfit(f"outside the range {low} to {high}")
    return value


def _float(literal: Literal, scalar: Scalar) -> float:
    if literal.kind not in ("integer", "float"):
        raise DefaultMisfit("expected a number")
    value = float(literal.text)
    if math.isinf(value) or (scalar is Scalar.F32 and not _fits_f32(value)):
        raise DefaultMisfit(f"too large for {scalar}")
    return value


def _fits_f32(value: float) -> bool:
    try:
        struct.pack("<f", value)
    except OverflowError:
        return False
    return True


def _date(literal: Literal) -> str:
    _expect_kind(literal, "string", 'a date such as "2024-06-01"')
    if not _DATE.fullmatch(literal.text):
        raise DefaultMisfit("expected a date written YYYY-MM-DD")
    try:
        return date.fromisoformat(literal.text).isoformat()
    except ValueError as error:
        raise DefaultMisfit(str(error)) from error


def _datetime(literal: Literal) -> str:
    _expect_kind(literal, "string", 'a date and time such as "2024-06-01T12:00:00Z"')
    if not _DATETIME.fullmatch(literal.text):
        raise DefaultMisfit("expected a date and time written YYYY-MM-DDThh:mm:ssZ")
    try:
        given = datetime.fromisoformat(literal.text)
        instant = given.replace(tzinfo=given.tzinfo or UTC).astimezone(UTC)
    except (ValueError, OverflowError) as error:
        raise DefaultMisfit(str(error)) from error
    detail = "milliseconds" if instant.microsecond >= 1000 else "seconds"
    return instant.replace(tzinfo=None).isoformat(timespec=detail) + "Z"


def _string(literal: Literal, type_: PropertyType) -> str:
    _expect_kind(literal, "string", "a string in quotes")
    if type_.enum_values is not None and literal.text not in type_.enum_values:
        raise DefaultMisfit(f"expected one of {', '.join(type_.enum_values)}")
    return literal.text

"""JSON values as stored values: one at a time, with the reason when one does not fit.

Nothing is guessed: `3.0` and `"3"` are no integers, `1` is no boolean, and a value outside the
range of its type is refused rather than wrapped.
"""

from __future__ import annotations

import binascii
import math
import struct
from datetime import date, datetime

from omnigraph.types.problems import ValueRefused, name_json_kind, quote_for_message
from omnigraph.types.property import INTEGER_BOUNDS, PropertyType, Scalar
from omnigraph.types.temporal import (
    from_epoch_days,
    from_epoch_milliseconds,
    parse_date,
    parse_datetime,
)

Blob = dict[str, bytes | str | None]
Stored = str | bool | int | float | date | datetime | Blob | list[object]
"""A value as Arrow takes it for its column; a blob is a dictionary of `data` and `uri`."""

RANGE_NAMES = {
    Scalar.I32: "Int32",
    Scalar.I64: "Int64",
    Scalar.U32: "UInt32",
    Scalar.U64: "UInt64",
    Scalar.F32: "Float32",
    Scalar.F64: "Float64",
}
BASE64_PREFIX = "base64:"
LARGEST_SAFE_INTEGER = 2**53 - 1
"""The integer up to which a double holds all of them, and so a JavaScript number."""


def convert_value(value: object, wanted: PropertyType) -> Stored | None:
    """The stored form of one JSON value; `null` gives `None`, whatever the type says of it."""
    if value is None:
        return None
    if wanted.is_vector:
        assert wanted.dimension is not None, "a vector has a dimension"
        return list(_convert_vector(value, wanted.dimension))
    if wanted.is_list:
        return _list(value, wanted.element())
    return _convert_scalar(value, wanted.scalar)


def _convert_scalar(value: object, scalar: Scalar) -> Stored:
    match scalar:
        case Scalar.STRING:
            return _convert_text(value)
        case Scalar.BOOL:
            if isinstance(value, bool):
                return value
            raise _make_expected_error("true or false", value)
        case Scalar.I32 | Scalar.I64 | Scalar.U32 | Scalar.U64:
            return _convert_integer(value, scalar)
        case Scalar.F32 | Scalar.F64:
            return convert_finite_float(value, scalar)
        case Scalar.DATE:
            return _convert_date(value)
        case Scalar.DATETIME:
            return _convert_datetime(value)
        case Scalar.BLOB:
            return decode_blob(_convert_text(value))
        case Scalar.VECTOR:
            raise AssertionError("a vector is not a scalar")


def _convert_text(value: object) -> str:
    if not isinstance(value, str):
        raise _make_expected_error("a string", value)
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueRefused("is not Unicode text: half a surrogate pair") from None
    return value


def _convert_integer(value: object, scalar: Scalar) -> int:
    if not _is_integer(value):
        raise _make_expected_error("an integer", value)
    assert isinstance(value, int)
    low, high = INTEGER_BOUNDS[scalar]
    if not low <= value <= high:
        raise ValueRefused(f"exceeds {RANGE_NAMES[scalar]} range")
    return value


def convert_finite_float(value: object, scalar: Scalar) -> float:
    """A number rounded to the width of its type; refused if it is not finite there."""
    if not (isinstance(value, float) or _is_integer(value)):
        raise _make_expected_error("a number", value)
    assert isinstance(value, int | float)
    try:
        number = float(value)
    except OverflowError:
        number = math.inf
    number = round_to_float32(number) if scalar is Scalar.F32 else number
    if not math.isfinite(number):
        raise ValueRefused(f"exceeds {RANGE_NAMES[scalar]} range")
    return number


def round_to_float32(value: float) -> float:
    """The nearest 32-bit float, as a Python float; infinite when beyond the largest one."""
    try:
        (rounded,) = struct.unpack("=f", struct.pack("=f", value))
    except OverflowError:
        return math.copysign(math.inf, value)
    assert isinstance(rounded, float)
    return rounded


def _convert_date(value: object) -> date:
    if isinstance(value, str):
        return parse_date(value)
    if _is_integer(value):
        assert isinstance(value, int)
        return from_epoch_days(value)
    raise _make_expected_error("a date string or integer days", value)


def _convert_datetime(value: object) -> datetime:
    if isinstance(value, str):
        return parse_datetime(value)
    if _is_integer(value):
        assert isinstance(value, int)
        return from_epoch_milliseconds(value)
    raise _make_expected_error("a timestamp string or integer milliseconds", value)


def _list(value: object, element: PropertyType) -> list[object]:
    if not isinstance(value, list):
        raise ValueRefused(f"expects a JSON array, got {name_json_kind(value)}")
    return [_convert_item(item, index, element) for index, item in enumerate(value)]


def _convert_item(value: object, index: int, element: PropertyType) -> Stored:
    if value is None:
        raise ValueRefused(f"null or invalid item at {index}: null")
    try:
        return _convert_scalar(value, element.scalar)
    except ValueRefused as refused:
        raise ValueRefused(f"null or invalid item at {index}: {refused.reason}") from None


def _convert_vector(value: object, dimension: int) -> list[float]:
    if not isinstance(value, list):
        raise ValueRefused(f"expects a JSON array, got {name_json_kind(value)}")
    if len(value) != dimension:
        raise ValueRefused(f"expects {dimension} dimensions, got {len(value)}")
    if not all(isinstance(item, float) or _is_integer(item) for item in value):
        raise ValueRefused("vector elements must be numeric")
    return [convert_finite_float(item, Scalar.F32) for item in value]


def decode_blob(text: str) -> Blob:
    """A blob from its JSON text: bytes behind `base64:`, otherwise the address of a file."""
    if not text.startswith(BASE64_PREFIX):
        if not text:
            raise ValueRefused(f"expects '{BASE64_PREFIX}…' or a URI, got an empty string")
        return {"data": None, "uri": text}
    encoded = text.removeprefix(BASE64_PREFIX)
    try:
        data = binascii.a2b_base64(encoded, strict_mode=True)
    except ValueError as error:
        raise ValueRefused(f"invalid base64: {error}") from None
    # The decoder lets stray padding and unused bits pass; one value must have one spelling.
    last = data[len(data) - 1 - (len(data) - 1) % 3 :] if data else b""
    if not encoded.endswith(binascii.b2a_base64(last, newline=False).decode()):
        raise ValueRefused(
            f"invalid base64: {quote_for_message(encoded[-4:])} is not a proper ending"
        )
    return {"data": data, "uri": None}


def _is_integer(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _make_expected_error(what: str, value: object) -> ValueRefused:
    return ValueRefused(f"expects {what}, got {name_json_kind(value)}")

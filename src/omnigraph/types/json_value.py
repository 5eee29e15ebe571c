"""Parse JSON strictly, and convert one JSON value to a stored value, or refuse it with a reason."""

from __future__ import annotations

import binascii
import json
import math
import re
import struct
from datetime import date, datetime
from typing import NoReturn

from omnigraph.types.property import INTEGER_BOUNDS, PropertyType, Scalar
from omnigraph.types.row_problems import (
    ProblemCode,
    ValueRefused,
    name_json_kind,
    quote_for_message,
)
from omnigraph.types.temporal import (
    from_epoch_days,
    from_epoch_milliseconds,
    parse_date,
    parse_datetime,
)

_MAX_INTEGER_DIGITS = 400
_BEYOND_ALL_TYPES: int = 10**_MAX_INTEGER_DIGITS
"""Placeholder for integers of more digits: out of range for every type, and slow to parse."""

_SURROGATE = re.compile("[\ud800-\udfff]")
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


def parse_json(text: str | bytes) -> object:
    """The value of one JSON text: `3` is an int, `3.0` a float; raises `ValueRefused`."""
    try:
        decoded = text if isinstance(text, str) else text.decode("utf-8")
        value = _DECODER.decode(decoded)
        # Half a surrogate pair can only come in as an escape, or within a Python string.
        if _SURROGATE_ESCAPE.search(decoded) or _SURROGATE.search(decoded):
            _require_text(value)
    except UnicodeDecodeError as error:
        raise _make_malformed_error(f"invalid UTF-8 at byte {error.start + 1}") from None
    except json.JSONDecodeError as error:
        raise _make_malformed_error(
            f"invalid JSON at character {error.pos + 1}: {error.msg}"
        ) from None
    except RecursionError:
        raise _make_malformed_error("JSON is nested too deeply") from None
    return value


def _make_malformed_error(reason: str) -> ValueRefused:
    return ValueRefused(reason, ProblemCode.MALFORMED)


def _check_members(pairs: list[tuple[str, object]]) -> dict[str, object]:
    members = dict(pairs)
    if len(members) == len(pairs):
        return members
    seen: set[str] = set()
    for name, _ in pairs:
        if name in seen:
            raise ValueRefused(
                f"duplicate JSON member {quote_for_message(name)}", ProblemCode.DUPLICATE_MEMBER
            )
        seen.add(name)
    raise AssertionError("fewer names than members, yet none repeated")


def _parse_integer(digits: str) -> int:
    if len(digits) <= _MAX_INTEGER_DIGITS:
        return int(digits)
    return -_BEYOND_ALL_TYPES if digits.startswith("-") else _BEYOND_ALL_TYPES


def _parse_constant(word: str) -> NoReturn:
    raise _make_malformed_error(f"invalid JSON: {word} is not a JSON value")


def _require_text(value: object) -> None:
    """Refuse strings that are no Unicode text."""
    match value:
        case str() if _SURROGATE.search(value):
            raise _make_malformed_error("invalid JSON: half a surrogate pair in a string")
        case list():
            for item in value:
                _require_text(item)
        case dict():
            for name, member in value.items():
                _require_text(name)
                _require_text(member)
        case _:
            pass


_DECODER = json.JSONDecoder(
    object_pairs_hook=_check_members, parse_int=_parse_integer, parse_constant=_parse_constant
)


Blob = dict[str, bytes | str | None]
Stored = str | bool | int | float | date | datetime | Blob | list[object]
"""A value as Arrow accepts it for its column; a blob is a dictionary of `data` and `uri`."""

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
"""The largest integer up to which every integer is a double, and so a JavaScript number."""


def convert_value(value: object, target: PropertyType) -> Stored | None:
    """Convert one JSON value to its stored form; `null` gives `None` for any type."""
    if value is None:
        return None
    if target.is_vector:
        assert target.dimension is not None, "a vector has a dimension"
        return list(_convert_vector(value, target.dimension))
    if target.is_list:
        return _list(value, target.element())
    return _convert_scalar(value, target.scalar)


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
    """Decode a blob from its JSON text: bytes after `base64:`, otherwise the address of a file."""
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

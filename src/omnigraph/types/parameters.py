"""Convert query parameters and literals to the typed values that a query runs with."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import date, datetime

from omnigraph.errors import BadRequest, ParameterError
from omnigraph.types.json_value import (
    LARGEST_SAFE_INTEGER,
    Stored,
    convert_finite_float,
    convert_value,
)
from omnigraph.types.property import (
    FLOATS,
    INTEGER_BOUNDS,
    INTEGERS,
    UNSIGNED,
    PropertyType,
    Scalar,
)
from omnigraph.types.row_problems import ValueRefused, name_json_kind
from omnigraph.types.temporal import (
    from_epoch_milliseconds,
    parse_date,
    parse_datetime,
    to_epoch_milliseconds,
)


def assign_value(value: object, target: PropertyType) -> Stored | None:
    """The stored form of a literal or parameter value; raises `ValueRefused`."""
    if value is None:
        if not target.nullable:
            raise ValueRefused("null is not accepted: the property is non-nullable")
        return None
    if target.is_vector:
        return convert_value(value, target)
    if target.is_list:
        if not isinstance(value, list):
            raise _make_conversion_error(value, target)
        return [_assign_scalar(item, target.element()) for item in value]
    return _assign_scalar(value, target)


def _assign_scalar(value: object, target: PropertyType) -> Stored:
    if isinstance(value, datetime):
        if target.scalar is not Scalar.DATETIME:
            raise _make_conversion_error(value, target)
        return from_epoch_milliseconds(to_epoch_milliseconds(value))
    if isinstance(value, date):
        if target.scalar is not Scalar.DATE:
            raise _make_conversion_error(value, target)
        return value
    if target.scalar in INTEGERS and isinstance(value, float):
        if not value.is_integer():
            raise _make_conversion_error(value, target)
        value = int(value)
    if target.scalar in FLOATS and type(value) is int:
        return _convert_exact_float(value, target)
    if target.scalar in (Scalar.DATE, Scalar.DATETIME) and not isinstance(value, str):
        raise _make_conversion_error(value, target)
    stored = convert_value(value, PropertyType(target.scalar))
    if stored is None:
        raise _make_conversion_error(value, target)
    return stored


def _convert_exact_float(value: int, target: PropertyType) -> float:
    number = convert_finite_float(value, target.scalar)
    if number != value:
        raise ValueRefused(
            f"cannot convert {value} to {target.scalar} exactly; write it as a float to round it"
        )
    return number


def _make_conversion_error(value: object, target: PropertyType) -> ValueRefused:
    return ValueRefused(
        f"cannot convert {name_json_kind(value)} to {target.display(nullable=False)}"
    )


_DECIMAL = re.compile("-?0*(?P<digits>[0-9]+)")
_MAX_DECIMAL_DIGITS = 40
_BEYOND_ALL_TYPES: int = 10**_MAX_DECIMAL_DIGITS
"""Placeholder for decimal texts of more digits: out of range without being parsed."""


@dataclass(frozen=True, slots=True)
class _ParameterReader:
    """One parameter being read: its name for messages, and the dialect of JSON."""

    name: str
    javascript: bool

    def refuse(self, problem: str) -> ParameterError:
        return ParameterError(self.name, problem)


def coerce_parameters(
    declared: Sequence[tuple[str, PropertyType]], given: object, *, javascript: bool = False
) -> dict[str, object]:
    """Convert the values of all declared parameters, in the order of declaration.

    Args:
        declared: Names, without `$`, and types.
        given: The JSON object of values, as a mapping; `None` is an empty one.
        javascript: Whether numbers are doubles: an integer may then be written `3.0`, and one that
        a double cannot represent must be a string.
    """
    values = {} if given is None else given
    if not isinstance(values, Mapping):
        raise BadRequest("params must be a JSON object")
    known = {name for name, _ in declared}
    for name in values:
        if name not in known:
            raise ParameterError(str(name), "unknown parameter")
    return {
        name: _convert_value(values, type, _ParameterReader(name, javascript=javascript))
        for name, type in declared
    }


def _convert_value(
    values: Mapping[str, object], type: PropertyType, reading: _ParameterReader
) -> object:
    value = values.get(reading.name)
    if value is None:
        if type.nullable:
            return None
        if reading.name not in values:
            raise reading.refuse("missing required parameter")
        raise reading.refuse("null is not accepted for non-nullable parameter")
    if type.is_vector:
        return _convert_vector(value, type, reading)
    if type.is_list:
        if not isinstance(value, list | tuple):
            raise reading.refuse(f"expected array for {type.display(nullable=False)}")
        return [_convert_scalar(item, type.scalar, reading) for item in value]
    return _convert_scalar(value, type.scalar, reading)


def _convert_scalar(value: object, scalar: Scalar, reading: _ParameterReader) -> object:
    if scalar in INTEGERS:
        return _convert_integer(value, scalar, reading)
    if scalar in FLOATS:
        return _convert_float(value, scalar, reading)
    if scalar is Scalar.BOOL:
        if not isinstance(value, bool):
            raise reading.refuse("expected boolean")
        return value
    text = _convert_text(value, scalar, reading)
    try:
        match scalar:
            case Scalar.DATE:
                return parse_date(text)
            case Scalar.DATETIME:
                return parse_datetime(text)
            case _:
                return text
    except ValueRefused as refused:
        raise reading.refuse(f"{_EXPECTED[scalar]}: {refused.reason}") from None


_EXPECTED = {
    Scalar.STRING: "expected string",
    Scalar.BLOB: "expected blob URI string",
    Scalar.DATE: "expected date string",
    Scalar.DATETIME: "expected datetime string",
}


def _convert_text(value: object, scalar: Scalar, reading: _ParameterReader) -> str:
    if not isinstance(value, str):
        raise reading.refuse(_EXPECTED[scalar])
    try:
        value.encode()
    except UnicodeEncodeError:
        raise reading.refuse(f"{_EXPECTED[scalar]}: half a surrogate pair is not text") from None
    return value


def _convert_integer(value: object, scalar: Scalar, reading: _ParameterReader) -> int:
    expected = "expected unsigned integer" if scalar in UNSIGNED else "expected integer"
    number = _convert_whole_number(value, reading)
    if number is None or (scalar in UNSIGNED and number < 0):
        raise reading.refuse(expected)
    low, high = INTEGER_BOUNDS[scalar]
    if not low <= number <= high:
        raise reading.refuse(f"exceeds {scalar}")
    return number


def _convert_whole_number(value: object, reading: _ParameterReader) -> int | None:
    """Convert a value to an integer: a number, or decimal text of any size."""
    if isinstance(value, bool):
        return None
    if isinstance(value, str):
        return _convert_decimal(value)
    if reading.javascript and isinstance(value, float) and value.is_integer():
        value = int(value)
    if not isinstance(value, int):
        return None
    if reading.javascript and abs(value) > LARGEST_SAFE_INTEGER:
        raise reading.refuse("integer beyond ±(2^53 − 1) must be given as a string")
    return value


def _convert_decimal(text: str) -> int | None:
    found = _DECIMAL.fullmatch(text)
    if found is None:
        return None
    size = (
        int(found["digits"]) if len(found["digits"]) <= _MAX_DECIMAL_DIGITS else _BEYOND_ALL_TYPES
    )
    return -size if text.startswith("-") else size


def _convert_float(value: object, scalar: Scalar, reading: _ParameterReader) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise reading.refuse("expected float")
    try:
        return convert_finite_float(value, scalar)
    except ValueRefused:
        raise reading.refuse(f"exceeds {scalar}") from None


def _convert_vector(value: object, type: PropertyType, reading: _ParameterReader) -> list[float]:
    shape = type.display(nullable=False)
    if not isinstance(value, list | tuple):
        raise reading.refuse(f"expected array for {shape}")
    if len(value) != type.dimension:
        raise reading.refuse(f"expected {type.dimension} values for {shape}, got {len(value)}")
    if any(isinstance(item, bool) or not isinstance(item, int | float) for item in value):
        raise reading.refuse("vector element is not numeric")
    return [_convert_float(item, Scalar.F32, reading) for item in value]

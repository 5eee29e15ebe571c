"""Values of literals and parameters as values a property stores.

A mutation's values are typed already, but not always as the property is: an integer may be meant
for a float, and a whole float for an integer, as long as nothing is lost.
"""

from __future__ import annotations

from datetime import date, datetime

from omnigraph.types.json_value import Stored, convert_finite_float, convert_value
from omnigraph.types.problems import ValueRefused, name_json_kind
from omnigraph.types.property import FLOATS, INTEGERS, PropertyType, Scalar
from omnigraph.types.temporal import from_epoch_milliseconds, to_epoch_milliseconds


def assign_value(value: object, wanted: PropertyType) -> Stored | None:
    """The stored form of a literal or parameter value; raises `ValueRefused`."""
    if value is None:
        if not wanted.nullable:
            raise ValueRefused("null is not accepted: the property is non-nullable")
        return None
    if wanted.is_vector:
        return convert_value(value, wanted)
    if wanted.is_list:
        if not isinstance(value, list):
            raise _make_conversion_error(value, wanted)
        return [_assign_scalar(item, wanted.element()) for item in value]
    return _assign_scalar(value, wanted)


def _assign_scalar(value: object, wanted: PropertyType) -> Stored:
    if isinstance(value, datetime):
        if wanted.scalar is not Scalar.DATETIME:
            raise _make_conversion_error(value, wanted)
        return from_epoch_milliseconds(to_epoch_milliseconds(value))
    if isinstance(value, date):
        if wanted.scalar is not Scalar.DATE:
            raise _make_conversion_error(value, wanted)
        return value
    if wanted.scalar in INTEGERS and isinstance(value, float):
        if not value.is_integer():
            raise _make_conversion_error(value, wanted)
        value = int(value)
    if wanted.scalar in FLOATS and type(value) is int:
        return _convert_exact_float(value, wanted)
    if wanted.scalar in (Scalar.DATE, Scalar.DATETIME) and not isinstance(value, str):
        raise _make_conversion_error(value, wanted)
    stored = convert_value(value, PropertyType(wanted.scalar))
    if stored is None:
        raise _make_conversion_error(value, wanted)
    return stored


def _convert_exact_float(value: int, wanted: PropertyType) -> float:
    number = convert_finite_float(value, wanted.scalar)
    if number != value:
        raise ValueRefused(
            f"cannot convert {value} to {wanted.scalar} exactly; write it as a float to round it"
        )
    return number


def _make_conversion_error(value: object, wanted: PropertyType) -> ValueRefused:
    return ValueRefused(
        f"cannot convert {name_json_kind(value)} to {wanted.display(nullable=False)}"
    )

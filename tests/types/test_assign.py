"""Values of literals and parameters on their way into a property."""

from datetime import UTC, date, datetime

import pytest

from omnigraph.types.parameters import assign_value
from omnigraph.types.property import PropertyType, Scalar
from omnigraph.types.row_problems import ValueRefused

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)


def of(scalar: Scalar, **more: object) -> PropertyType:
    return PropertyType(scalar, **more)


ACCEPTED = [
    (of(Scalar.I32), 5, 5),
    (of(Scalar.I32), 5.0, 5),
    (of(Scalar.U64), 2.0**63, 2**63),
    (of(Scalar.F64), 5, 5.0),
    (of(Scalar.F32), 0.1, 0.10000000149011612),
    (of(Scalar.F32), 2**24, 16777216.0),
    (of(Scalar.STRING), "x", "x"),
    (of(Scalar.BOOL), True, True),
    (of(Scalar.DATE), date(2024, 6, 1), date(2024, 6, 1)),
    (of(Scalar.DATE), "2024-06-01", date(2024, 6, 1)),
    (of(Scalar.DATETIME), NOON.replace(microsecond=1999), NOON.replace(microsecond=1000)),
    (of(Scalar.BLOB), "base64:QQ==", {"data": b"A", "uri": None}),
    (of(Scalar.BLOB), "s3://b/k", {"data": None, "uri": "s3://b/k"}),
    (of(Scalar.F64, is_list=True), [1, 0.5], [1.0, 0.5]),
    (of(Scalar.DATE, is_list=True), [date(2024, 6, 1)], [date(2024, 6, 1)]),
    (of(Scalar.VECTOR, dimension=2), [1, 0.5], [1.0, 0.5]),
    (of(Scalar.I32, nullable=True), None, None),
]


@pytest.mark.parametrize(("type", "value", "stored"), ACCEPTED)
def test_a_value_that_loses_nothing_is_stored(type, value, stored):
    assigned = assign_value(value, type)
    assert assigned == stored
    assert assigned.__class__ is stored.__class__


REFUSED = [
    (of(Scalar.I32), 2**31, "exceeds Int32 range"),
    (of(Scalar.I32), 1e10, "exceeds Int32 range"),
    (of(Scalar.I32), 1.5, "cannot convert the number 1.5 to I32"),
    (of(Scalar.I32), float("inf"), "cannot convert"),
    (of(Scalar.I32), True, "expects an integer"),
    (of(Scalar.F64), 2**53 + 1, "cannot convert 9007199254740993 to F64 exactly"),
    (of(Scalar.F32), 2**24 + 1, "cannot convert 16777217 to F32 exactly"),
    (of(Scalar.F32), 1e39, "exceeds Float32 range"),
    (of(Scalar.F64), float("nan"), "exceeds Float64 range"),
    (of(Scalar.STRING), 5, "expects a string"),
    (of(Scalar.DATE), NOON, "cannot convert a datetime to Date"),
    (of(Scalar.DATETIME), date(2024, 6, 1), "cannot convert a date to DateTime"),
    (of(Scalar.DATE), 3346, "cannot convert an integer to Date"),
    (of(Scalar.DATE), "soon", "invalid Date literal"),
    (of(Scalar.I32, is_list=True), 5, "cannot convert an integer to [I32]"),
    (of(Scalar.I32, is_list=True), [None], "cannot convert null to I32"),
    (of(Scalar.VECTOR, dimension=2), [1], "expects 2 dimensions, got 1"),
    (of(Scalar.VECTOR, dimension=2), [1, "a"], "elements must be numeric"),
    (of(Scalar.I32), None, "non-nullable"),
]


@pytest.mark.parametrize(("type", "value", "reason"), REFUSED)
def test_a_value_that_would_change_is_refused(type, value, reason):
    with pytest.raises(ValueRefused) as caught:
        assign_value(value, type)
    assert reason in caught.value.reason

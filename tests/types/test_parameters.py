"""Query parameters from JSON."""

import math
from datetime import UTC, date, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.errors import BadRequest, ParameterError
from omnigraph.types.parameters import coerce_parameters
from omnigraph.types.property import INTEGER_BOUNDS, PropertyType, Scalar


def of(scalar: Scalar, **more: object) -> PropertyType:
    return PropertyType(scalar, **more)


VECTOR = of(Scalar.VECTOR, dimension=2)

ACCEPTED = [
    (of(Scalar.STRING), "ä", "ä"),
    (of(Scalar.STRING, enum_values=("a", "b")), "c", "c"),
    (of(Scalar.BLOB), "s3://b/k", "s3://b/k"),
    (of(Scalar.BOOL), False, False),
    (of(Scalar.I32), -5, -5),
    (of(Scalar.I64), "-9223372036854775808", -(2**63)),
    (of(Scalar.I64), "007", 7),
    (of(Scalar.I64), "0" * 100 + "7", 7),
    (of(Scalar.U32), "4294967295", 2**32 - 1),
    (of(Scalar.U64), 2**64 - 1, 2**64 - 1),
    (of(Scalar.U64), "18446744073709551615", 2**64 - 1),
    (of(Scalar.U64), "-0", 0),
    (of(Scalar.F64), 1, 1.0),
    (of(Scalar.F64), 0.1, 0.1),
    (of(Scalar.F32), 0.1, 0.10000000149011612),
    (of(Scalar.DATE), "2024-06-01", date(2024, 6, 1)),
    (of(Scalar.DATE), "2024-06-01T23:00:00-02:00", date(2024, 6, 2)),
    (of(Scalar.DATETIME), "2024-06-01", datetime(2024, 6, 1, tzinfo=UTC)),
    (
        of(Scalar.DATETIME),
        "2024-06-01T14:00:00.1239+02:00",
        datetime(2024, 6, 1, 12, 0, 0, 123_000, tzinfo=UTC),
    ),
    (of(Scalar.I32, is_list=True), [1, "2"], [1, 2]),
    (of(Scalar.DATE, is_list=True), [], []),
    (VECTOR, [1, 0.1], [1.0, 0.10000000149011612]),
    (of(Scalar.STRING, nullable=True), None, None),
]


@pytest.mark.parametrize(("type", "given_value", "expected"), ACCEPTED)
def test_a_value_of_the_declared_type_is_accepted(type, given_value, expected):
    values = coerce_parameters([("x", type)], {"x": given_value})
    assert values == {"x": expected}
    assert values["x"].__class__ is expected.__class__


REFUSED = [
    (of(Scalar.STRING), 1, "expected string"),
    (of(Scalar.STRING), "\ud800", "expected string"),
    (of(Scalar.BLOB), 1, "expected blob URI string"),
    (of(Scalar.BOOL), 1, "expected boolean"),
    (of(Scalar.BOOL), "true", "expected boolean"),
    (of(Scalar.I32), 1.0, "expected integer"),
    (of(Scalar.I32), True, "expected integer"),
    (of(Scalar.I32), "1.0", "expected integer"),
    (of(Scalar.I32), "", "expected integer"),
    (of(Scalar.I32), " 1", "expected integer"),
    (of(Scalar.I32), "+1", "expected integer"),
    (of(Scalar.I32), "٣", "expected integer"),
    (of(Scalar.I32), [], "expected integer"),
    (of(Scalar.I32), 2**31, "exceeds I32"),
    (of(Scalar.I64), "9223372036854775808", "exceeds I64"),
    (of(Scalar.I64), "9" * 10_000, "exceeds I64"),
    (of(Scalar.U32), -1, "expected unsigned integer"),
    (of(Scalar.U64), "-1", "expected unsigned integer"),
    (of(Scalar.U32), 2**32, "exceeds U32"),
    (of(Scalar.U64), 2**64, "exceeds U64"),
    (of(Scalar.F64), "1.5", "expected float"),
    (of(Scalar.F64), True, "expected float"),
    (of(Scalar.F64), 10**400, "exceeds F64"),
    (of(Scalar.F64), math.inf, "exceeds F64"),
    (of(Scalar.F32), 1e39, "exceeds F32"),
    (of(Scalar.DATE), 3346, "expected date string"),
    (of(Scalar.DATE), "soon", "expected date string: invalid Date literal 'soon'"),
    (of(Scalar.DATETIME), 0, "expected datetime string"),
    (of(Scalar.DATETIME), "noon", "expected datetime string: invalid DateTime literal 'noon'"),
    (of(Scalar.I32, is_list=True), 1, "expected array for [I32]"),
    (of(Scalar.I32, is_list=True), [1, None], "expected integer"),
    (of(Scalar.STRING, is_list=True), [["a"]], "expected string"),
    (VECTOR, "1,2", "expected array for Vector(2)"),
    (VECTOR, [1], "expected 2 values for Vector(2), got 1"),
    (VECTOR, [1, "2"], "vector element is not numeric"),
    (VECTOR, [1, None], "vector element is not numeric"),
    (VECTOR, [1, False], "vector element is not numeric"),
    (of(Scalar.STRING), None, "null is not accepted for non-nullable parameter"),
]


@pytest.mark.parametrize(("type", "given_value", "problem"), REFUSED)
def test_another_value_is_refused_by_name(type, given_value, problem):
    with pytest.raises(ParameterError) as caught:
        coerce_parameters([("ok", of(Scalar.BOOL)), ("x", type)], {"ok": True, "x": given_value})
    assert caught.value.parameter == "x"
    assert problem in caught.value.problem
    assert str(caught.value).startswith("param 'x': ")


def test_a_required_parameter_must_be_given():
    with pytest.raises(ParameterError, match="param 'x': missing required parameter"):
        coerce_parameters([("x", of(Scalar.I64))], {})
    assert coerce_parameters([("x", of(Scalar.I64, nullable=True))], None) == {"x": None}


def test_an_undeclared_parameter_is_refused():
    with pytest.raises(ParameterError, match="param 'y': unknown parameter"):
        coerce_parameters([], {"y": 1})


@pytest.mark.parametrize("given_value", [[], "x", 5])
def test_parameters_are_an_object(given_value):
    with pytest.raises(BadRequest, match="params must be a JSON object"):
        coerce_parameters([], given_value)


def test_values_come_in_the_order_of_declaration():
    declared = [("b", of(Scalar.I64)), ("a", of(Scalar.I64))]
    assert list(coerce_parameters(declared, {"a": 1, "b": 2})) == ["b", "a"]


@pytest.mark.parametrize("value", [3.0, 3, "3"])
def test_javascript_may_write_an_integer_as_a_whole_float(value):
    declared = [("x", of(Scalar.U32))]
    assert coerce_parameters(declared, {"x": value}, javascript=True) == {"x": 3}


@pytest.mark.parametrize("value", [2**53, -(2**53), 2.0**53, 1e300])
def test_javascript_must_write_large_integers_as_strings(value):
    declared = [("x", of(Scalar.I64))]
    with pytest.raises(ParameterError, match="must be given as a string"):
        coerce_parameters(declared, {"x": value}, javascript=True)
    text = str(int(value))
    if abs(int(value)) < 2**63:
        assert coerce_parameters(declared, {"x": text}, javascript=True) == {"x": int(value)}


@pytest.mark.parametrize("value", [3.5, math.nan, math.inf])
def test_javascript_floats_that_are_not_whole_are_no_integers(value):
    with pytest.raises(ParameterError, match="expected integer"):
        coerce_parameters([("x", of(Scalar.I64))], {"x": value}, javascript=True)


@given(st.sampled_from(sorted(INTEGER_BOUNDS)), st.integers(-(2**66), 2**66), st.booleans())
def test_an_integer_is_accepted_exactly_within_its_bounds(scalar, number, as_text):
    low, high = INTEGER_BOUNDS[scalar]
    supplied = {"x": str(number) if as_text else number}
    if low <= number <= high:
        assert coerce_parameters([("x", of(scalar))], supplied) == {"x": number}
    else:
        with pytest.raises(ParameterError):
            coerce_parameters([("x", of(scalar))], supplied)

"""JSON values as stored columns."""

import base64
import math
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.column_values import convert_column, find_required_errors
from omnigraph.types.json_value import convert_value, round_to_float32
from omnigraph.types.property import INTEGER_BOUNDS, PropertyType, Scalar
from omnigraph.types.row_problems import ValueRefused
from omnigraph.types.to_json import export_values

STRING, BOOL, BLOB = (PropertyType(s) for s in (Scalar.STRING, Scalar.BOOL, Scalar.BLOB))
I32, I64, U32, U64 = (PropertyType(s) for s in (Scalar.I32, Scalar.I64, Scalar.U32, Scalar.U64))
F32, F64 = PropertyType(Scalar.F32), PropertyType(Scalar.F64)
DATE, DATETIME = PropertyType(Scalar.DATE), PropertyType(Scalar.DATETIME)
VECTOR = PropertyType(Scalar.VECTOR, dimension=3)
STRINGS = PropertyType(Scalar.STRING, is_list=True)
INTEGERS = PropertyType(Scalar.I32, is_list=True)
DATES = PropertyType(Scalar.DATE, is_list=True)

ACCEPTED = [
    (STRING, "ä", "ä"),
    (STRING, "", ""),
    (BOOL, True, True),
    (I32, 2**31 - 1, 2**31 - 1),
    (I32, -(2**31), -(2**31)),
    (I64, -(2**63), -(2**63)),
    (U32, 2**32 - 1, 2**32 - 1),
    (U64, 2**64 - 1, 2**64 - 1),
    (F64, 1, 1.0),
    (F64, 9007199254740993, 9007199254740992.0),
    (F64, 2**100, 2.0**100),
    (F64, -0.5, -0.5),
    (F32, 0.1, 0.10000000149011612),
    (F32, 16777217, 16777216.0),
    (F32, 3.4028235677973362e38, 3.4028234663852886e38),
    (F32, 1e-60, 0.0),
    (DATE, "1979-03-01", date(1979, 3, 1)),
    (DATE, 3346, date(1979, 3, 1)),
    (DATE, "2024-06-01T23:30:00-02:00", date(2024, 6, 2)),
    (DATETIME, "2024-06-01T12:00:00.5Z", datetime(2024, 6, 1, 12, 0, 0, 500_000, tzinfo=UTC)),
    (DATETIME, "2024-06-01", datetime(2024, 6, 1, tzinfo=UTC)),
    (DATETIME, -1, datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC)),
    (VECTOR, [1, 0.5, -2], [1.0, 0.5, -2.0]),
    (STRINGS, [], []),
    (STRINGS, ["a", ""], ["a", ""]),
    (INTEGERS, [1, -1], [1, -1]),
    (DATES, ["1970-01-02", 2], [date(1970, 1, 2), date(1970, 1, 3)]),
    (BLOB, "base64:", {"data": b"", "uri": None}),
    (BLOB, "base64:AAH/", {"data": b"\x00\x01\xff", "uri": None}),
    (BLOB, "s3://bucket/key", {"data": None, "uri": "s3://bucket/key"}),
]


@pytest.mark.parametrize(("type", "value", "stored"), ACCEPTED)
def test_a_value_that_fits_is_stored(type, value, stored):
    assert convert_value(value, type) == stored
    converted = convert_column([value, None, value], type)
    assert converted.errors == ()
    assert converted.array.type == to_arrow_type(type)
    assert converted.array.to_pylist() == [stored, None, stored]


REFUSED = [
    (STRING, 1, "expects a string, got an integer"),
    (STRING, True, "expects a string, got a boolean"),
    (STRING, ["a"], "expects a string, got an array"),
    (STRING, "\ud800", "not Unicode text"),
    (BOOL, 1, "expects true or false"),
    (BOOL, "true", "expects true or false"),
    (I32, 3.0, "expects an integer, got the number 3.0"),
    (I32, "3", "expects an integer, got a string"),
    (I32, True, "expects an integer, got a boolean"),
    (I32, 2**31, "exceeds Int32 range"),
    (I32, -(2**31) - 1, "exceeds Int32 range"),
    (I64, 2**63, "exceeds Int64 range"),
    (I64, 10**400, "exceeds Int64 range"),
    (U32, -1, "exceeds UInt32 range"),
    (U32, 2**32, "exceeds UInt32 range"),
    (U64, -1, "exceeds UInt64 range"),
    (U64, 2**64, "exceeds UInt64 range"),
    (F64, "1", "expects a number"),
    (F64, True, "expects a number"),
    (F64, math.inf, "exceeds Float64 range"),
    (F64, math.nan, "exceeds Float64 range"),
    (F64, 10**400, "exceeds Float64 range"),
    (F32, 1e39, "exceeds Float32 range"),
    (F32, 3.4028235677973366e38, "exceeds Float32 range"),
    (F32, -(10**39), "exceeds Float32 range"),
    (DATE, 3346.0, "expects a date string or integer days"),
    (DATE, "yesterday", "invalid Date literal 'yesterday'"),
    (DATE, True, "expects a date string or integer days"),
    (DATE, 10**7, "exceeds Date range"),
    (DATE, 2**40, "exceeds Date range"),
    (DATETIME, "noon", "invalid DateTime literal 'noon'"),
    (DATETIME, 1.5, "expects a timestamp string or integer milliseconds"),
    (DATETIME, 10**15, "exceeds DateTime range"),
    (DATETIME, 2**70, "exceeds DateTime range"),
    (VECTOR, [1, 2], "expects 3 dimensions, got 2"),
    (VECTOR, [1, 2, 3, 4], "expects 3 dimensions, got 4"),
    (VECTOR, [1, 2, None], "elements must be numeric"),
    (VECTOR, [1, 2, "3"], "elements must be numeric"),
    (VECTOR, [1, 2, True], "elements must be numeric"),
    (VECTOR, [1, 2, 1e39], "exceeds Float32 range"),
    (VECTOR, "1,2,3", "expects a JSON array"),
    (STRINGS, "a", "expects a JSON array"),
    (STRINGS, {"a": 1}, "expects a JSON array, got an object"),
    (STRINGS, ["a", None], "null or invalid item at 1: null"),
    (STRINGS, ["a", 1], "null or invalid item at 1: expects a string"),
    (STRINGS, [["a"]], "null or invalid item at 0: expects a string, got an array"),
    (INTEGERS, [2**31], "null or invalid item at 0: exceeds Int32 range"),
    (DATES, ["x"], "null or invalid item at 0: invalid Date literal"),
    (BLOB, 5, "expects a string"),
    (BLOB, "", "expects 'base64:…' or a URI"),
    (BLOB, "base64:QQ", "invalid base64"),
    (BLOB, "base64:QQ=", "invalid base64"),
    (BLOB, "base64:QR==", "invalid base64"),
    (BLOB, "base64:AAAA=", "invalid base64"),
    (BLOB, "base64:QQ==\n", "invalid base64"),
    (BLOB, "base64:Q-_=", "invalid base64"),
    (BLOB, "base64:é", "invalid base64"),
]


@pytest.mark.parametrize(("type", "value", "reason"), REFUSED)
def test_a_value_that_does_not_fit_is_refused_with_its_reason(type, value, reason):
    with pytest.raises(ValueRefused) as caught:
        convert_value(value, type)
    assert reason in caught.value.reason
    good = next(v for t, v, _ in ACCEPTED if t == type)
    converted = convert_column([good, value, None, good], type)
    assert converted.errors == ((1, caught.value.reason),)
    assert converted.array.is_null().to_pylist() == [False, True, True, False]


def test_null_where_a_value_is_needed_is_reported_by_row():
    column = convert_column(["a", None, "b", None], STRING).array
    reason = "non-nullable property 'name' has null or invalid values"
    assert find_required_errors(column, "name", STRING) == [(1, reason), (3, reason)]
    assert find_required_errors(column, "name", STRING.optional()) == []
    excused = pa.array([False, False, False, True])
    assert find_required_errors(column, "name", STRING, excused) == [(1, reason)]


def test_a_column_of_nothing_is_a_column():
    for type in (STRING, I32, F32, DATE, DATETIME, VECTOR, STRINGS, BLOB):
        assert convert_column([], type).array.type == to_arrow_type(type)
        assert convert_column([None], type).array.to_pylist() == [None]


def scalars(scalar: Scalar) -> st.SearchStrategy:
    if scalar in INTEGER_BOUNDS:
        return st.integers(*INTEGER_BOUNDS[scalar])
    strategies = {
        Scalar.STRING: st.text(st.characters(exclude_categories=["Cs"]), max_size=10),
        Scalar.BOOL: st.booleans(),
        Scalar.F32: st.floats(allow_nan=False, allow_infinity=False, width=32),
        Scalar.F64: st.floats(allow_nan=False, allow_infinity=False),
        Scalar.DATE: st.integers(-719162, 2932896),
        Scalar.DATETIME: st.integers(-62135596800000, 253402300799999),
        Scalar.BLOB: st.binary(max_size=20).map(
            lambda data: "base64:" + base64.b64encode(data).decode()
        ),
    }
    return strategies[scalar]


@st.composite
def typed_columns(draw):
    scalar = draw(st.sampled_from(list(Scalar)))
    if scalar is Scalar.VECTOR:
        size = draw(st.integers(1, 4))
        type = PropertyType(scalar, dimension=size)
        cells = st.lists(scalars(Scalar.F32), min_size=size, max_size=size)
    else:
        is_list = scalar is not Scalar.BLOB and draw(st.booleans())
        type = PropertyType(scalar, is_list=is_list)
        cells = st.lists(scalars(scalar), max_size=3) if is_list else scalars(scalar)
    return type, draw(st.lists(st.none() | cells, max_size=8))


@given(typed_columns())
def test_exported_rows_equal_the_loaded_ones(column):
    type, values = column
    converted = convert_column(values, type)
    assert converted.errors == ()
    assert export_values(converted.array) == values


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**70), 2**70)
    | st.floats()
    | st.text(max_size=4)
    | st.sampled_from(["2024-01-01", "base64:QQ=="]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text("ab"), inner, max_size=2),
    max_leaves=4,
)


@given(typed_columns(), st.lists(JSON, max_size=5))
def test_a_column_is_converted_as_its_values_are(column, strange):
    type, values = column
    mixed = [*values, *strange]
    expected, errors = [], []
    for row, value in enumerate(mixed):
        try:
            expected.append(convert_value(value, type))
        except ValueRefused as refused:
            expected.append(None)
            errors.append((row, refused.reason))
    converted = convert_column(mixed, type)
    assert list(converted.errors) == errors
    assert converted.array.equals(pa.array(expected, to_arrow_type(type)))


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_rounding_to_32_bits_is_what_arrow_does(value):
    assert pa.array([value], pa.float32()).to_pylist() == [round_to_float32(value)]


@given(st.text("AQgw01+/=", max_size=9))
def test_bytes_have_one_spelling_in_base64(text):
    try:
        data = base64.b64decode(text, validate=True)
        one_spelling = base64.b64encode(data).decode() == text
    except ValueError:
        one_spelling = False
    converted = convert_column([f"base64:{text}"], BLOB)
    assert (converted.errors == ()) == one_spelling
    if one_spelling:
        assert converted.array.to_pylist() == [{"data": data, "uri": None}]

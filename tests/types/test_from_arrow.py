"""Arrow columns from elsewhere as columns of a property type."""

from datetime import UTC, date, datetime
from decimal import Decimal

import pyarrow as pa
import pytest

from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.column_values import convert_array, convert_column
from omnigraph.types.property import PropertyType, Scalar

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)

ACCEPTED = {
    "large strings": (Scalar.STRING, pa.array(["a", None], pa.large_string()), ["a", None]),
    "string views": (Scalar.STRING, pa.array(["a"], pa.string_view()), ["a"]),
    "dictionaries": (Scalar.STRING, pa.array(["a", "a"]).dictionary_encode(), ["a", "a"]),
    "nulls": (Scalar.I32, pa.nulls(2), [None, None]),
    "booleans": (Scalar.BOOL, pa.array([True, None]), [True, None]),
    "narrow integers": (Scalar.U64, pa.array([1, None], pa.int8()), [1, None]),
    "wide integers": (Scalar.I32, pa.array([-5], pa.int64()), [-5]),
    "integers as floats": (Scalar.F64, pa.array([2**53 + 1], pa.int64()), [2.0**53]),
    "doubles as narrow floats": (Scalar.F32, pa.array([0.1]), [0.10000000149011612]),
    "half floats": (Scalar.F32, pa.array([0.5], pa.float32()).cast(pa.float16()), [0.5]),
    "dates": (Scalar.DATE, pa.array([date(2024, 1, 2), None]), [date(2024, 1, 2), None]),
    "date64": (Scalar.DATE, pa.array([date(2024, 1, 2)], pa.date64()), [date(2024, 1, 2)]),
    "days": (Scalar.DATE, pa.array([1], pa.int64()), [date(1970, 1, 2)]),
    "date texts": (Scalar.DATE, pa.array(["2024-01-02"]), [date(2024, 1, 2)]),
    "timestamps as dates": (
        Scalar.DATE,
        pa.array([-1, 86_400_000_000], pa.timestamp("us")),
        [date(1969, 12, 31), date(1970, 1, 2)],
    ),
    "seconds": (Scalar.DATETIME, pa.array([1717243200], pa.timestamp("s")), [NOON]),
    "nanoseconds": (
        Scalar.DATETIME,
        pa.array([-1, None], pa.timestamp("ns", "America/New_York")),
        [datetime(1969, 12, 31, 23, 59, 59, 999_000, tzinfo=UTC), None],
    ),
    "dates as midnights": (
        Scalar.DATETIME,
        pa.array([date(2024, 6, 1)]),
        [datetime(2024, 6, 1, tzinfo=UTC)],
    ),
    "timestamp texts": (Scalar.DATETIME, pa.array(["2024-06-01T12:00:00Z"]), [NOON]),
    "bytes": (Scalar.BLOB, pa.array([b"", None]), [{"data": b"", "uri": None}, None]),
    "addresses": (Scalar.BLOB, pa.array(["s3://b/k"]), [{"data": None, "uri": "s3://b/k"}]),
}


@pytest.mark.parametrize(("scalar", "array", "expected"), ACCEPTED.values(), ids=ACCEPTED)
def test_a_column_of_a_compatible_type_is_accepted(scalar, array, expected):
    type = PropertyType(scalar)
    converted = convert_column(array, type)
    assert converted.errors == ()
    assert converted.array.type == to_arrow_type(type)
    assert converted.array.to_pylist() == expected
    converted.array.validate(full=True)


REFUSED = {
    "strings for integers": (Scalar.I32, pa.array(["3"]), "expects I32, got string"),
    "floats for integers": (Scalar.I32, pa.array([3.5]), "expects I32, got 3.5"),
    "integers for strings": (Scalar.STRING, pa.array([3]), "expects String, got int64"),
    "integers for booleans": (Scalar.BOOL, pa.array([1]), "expects Bool, got int64"),
    "times for dates": (Scalar.DATE, pa.array([1], pa.time32("s")), "expects Date, got time32[s]"),
    "lists for strings": (Scalar.STRING, pa.array([["a"]]), "expects String, got list<item:"),
    "a wide integer": (Scalar.I32, pa.array([2**31]), "exceeds Int32 range"),
    "a negative one": (Scalar.U64, pa.array([-1]), "exceeds UInt64 range"),
    "an unsigned one": (Scalar.I64, pa.array([2**63], pa.uint64()), "exceeds Int64 range"),
    "a wide float": (Scalar.F32, pa.array([1e39]), "exceeds Float32 range"),
    "an infinite one": (Scalar.F64, pa.array([float("-inf")]), "exceeds Float64 range"),
    "no number": (Scalar.F64, pa.array([float("nan")]), "exceeds Float64 range"),
    "a day out of range": (Scalar.DATE, pa.array([10**9], pa.int64()), "exceeds Date range"),
    "seconds out of range": (
        Scalar.DATETIME,
        pa.array([2**62], pa.timestamp("s")),
        "exceeds DateTime range",
    ),
    "a bad date": (Scalar.DATE, pa.array(["never"]), "invalid Date literal 'never'"),
    "bad base64": (Scalar.BLOB, pa.array(["base64:!"]), "invalid base64"),
}


@pytest.mark.parametrize(("scalar", "array", "reason"), REFUSED.values(), ids=REFUSED)
def test_a_value_of_another_meaning_is_refused(scalar, array, reason):
    with_nulls = pa.concat_arrays([pa.nulls(1, array.type), array])
    converted = convert_column(with_nulls, PropertyType(scalar))
    assert [row for row, _ in converted.errors] == [1]
    assert reason in converted.errors[0][1]
    assert converted.array.type == to_arrow_type(PropertyType(scalar))
    assert converted.array.to_pylist() == [None, None]


@pytest.mark.parametrize("kind", [pa.list_, pa.large_list], ids=["list", "large list"])
def test_lists_are_converted_by_item(kind):
    wanted = PropertyType(Scalar.I32, is_list=True)
    rows = [[1, 2], None, [], [3, 2**40], [4, None], [5]]
    converted = convert_column(pa.array(rows, kind(pa.int64())), wanted)
    assert converted.array.to_pylist() == [[1, 2], None, [], None, None, [5]]
    assert converted.array.type == to_arrow_type(wanted)
    assert converted.errors == (
        (3, "null or invalid item at 1: exceeds Int32 range"),
        (4, "null or invalid item at 1: null"),
    )


def test_vectors_are_converted_from_lists_of_any_numbers():
    wanted = PropertyType(Scalar.VECTOR, dimension=2)
    rows = [[1, 2], None, [1], [1, None], [3, 4]]
    converted = convert_column(pa.array(rows, pa.list_(pa.int64())), wanted)
    assert converted.array.to_pylist() == [[1.0, 2.0], None, None, None, [3.0, 4.0]]
    assert converted.array.type == to_arrow_type(wanted)
    assert converted.errors == (
        (2, "expects 2 dimensions, got 1"),
        (3, "vector elements must be numeric"),
    )
    fixed = pa.array([[0.5, 1e39], None, [1, 2]], pa.list_(pa.float64(), 2))
    converted = convert_column(fixed, wanted)
    assert converted.array.to_pylist() == [None, None, [1.0, 2.0]]
    assert converted.errors == ((0, "exceeds Float32 range"),)
    texts = convert_column(pa.array([["a", "b"]]), wanted)
    assert texts.errors == ((0, "vector elements must be numeric"),)
    assert convert_column(pa.array([1.0]), wanted).errors == ((0, "expects Vector(2), got double"),)


def test_a_blob_column_is_accepted_unchanged():
    cells = [{"data": b"x", "uri": None}, None]
    array = pa.array(cells, to_arrow_type(PropertyType(Scalar.BLOB)))
    assert convert_column(array, PropertyType(Scalar.BLOB)).array.to_pylist() == cells


def test_whole_decimals_are_integers_within_the_bounds_of_the_type():
    given = pa.array([Decimal(1), None, Decimal(2**64 - 1), Decimal(2**64)], pa.decimal128(20, 0))
    found = convert_array(given, PropertyType(Scalar.U64))
    assert found.array.to_pylist() == [1, None, 2**64 - 1, None]
    assert found.errors == ((3, "exceeds UInt64 range"),)
    fraction = pa.array([Decimal("1.5")], pa.decimal128(5, 1))
    assert convert_array(fraction, PropertyType(Scalar.I32)).errors

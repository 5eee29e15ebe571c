"""Canonical strings of stored values, and ids of composite keys."""

import json
import math
import struct
from datetime import UTC, date, datetime
from decimal import Decimal

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.canonical_strings import (
    encode_canonical,
    encode_canonical_column,
    encode_composite_ids,
)
from omnigraph.types.property import PropertyType, Scalar
from omnigraph.types.row_problems import ValueRefused

STRING, BOOL = PropertyType(Scalar.STRING), PropertyType(Scalar.BOOL)
F32, F64 = PropertyType(Scalar.F32), PropertyType(Scalar.F64)

RENDERED = [
    (STRING, "x y", "x y"),
    (STRING, "", ""),
    (PropertyType(Scalar.STRING, enum_values=("de", "jp")), "jp", "jp"),
    (BOOL, True, "true"),
    (BOOL, False, "false"),
    (PropertyType(Scalar.I32), -(2**31), "-2147483648"),
    (PropertyType(Scalar.I64), 0, "0"),
    (PropertyType(Scalar.U32), 2**32 - 1, "4294967295"),
    (PropertyType(Scalar.U64), 2**64 - 1, "18446744073709551615"),
    (PropertyType(Scalar.DATE), date(1979, 3, 1), "3346"),
    (PropertyType(Scalar.DATE), date(1969, 12, 31), "-1"),
    (PropertyType(Scalar.DATETIME), datetime(2024, 6, 1, 12, tzinfo=UTC), "1717243200000"),
    (PropertyType(Scalar.DATETIME), datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC), "-1000"),
    (F64, 1.0, "1"),
    (F64, 0.1, "0.1"),
    (F64, -0.0, "0"),
    (F64, 0.0, "0"),
    (F64, 100.0, "100"),
    (F64, -2.5, "-2.5"),
    (F64, 1e15, "1000000000000000"),
    (F64, 1e21, "1000000000000000000000"),
    (F64, 1.5e-7, "0.00000015"),
    (F64, 5e-324, "0." + "0" * 323 + "5"),
    (F64, 0.30000000000000004, "0.30000000000000004"),
    (F32, 0.10000000149011612, "0.1"),
    (F32, 16777216.0, "16777216"),
    (F32, 1.401298464324817e-45, "0." + "0" * 44 + "1"),
    (F32, 3.4028234663852886e38, "34028235" + "0" * 31),
]


@pytest.mark.parametrize(("type", "value", "expected"), RENDERED)
def test_a_stored_value_has_one_string(type, value, expected):
    assert encode_canonical(value, type) == expected
    column = pa.array([value, None], to_arrow_type(type))
    assert encode_canonical_column(column, type).to_pylist() == [expected, None]


def test_an_integer_meant_for_a_narrow_float_is_rendered_as_it_is_stored():
    stored = pa.array([16777217.0], pa.float32())
    assert encode_canonical_column(stored, F32).to_pylist() == ["16777216"]


@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
def test_a_non_finite_number_has_no_string(value):
    with pytest.raises(ValueRefused, match="non-finite"):
        encode_canonical(value, F64)
    with pytest.raises(ValueRefused, match="non-finite"):
        encode_canonical_column(pa.array([1.0, value]), F64)


@pytest.mark.parametrize(
    "type",
    [
        PropertyType(Scalar.STRING, is_list=True),
        PropertyType(Scalar.VECTOR, dimension=2),
        PropertyType(Scalar.BLOB),
    ],
)
def test_a_value_that_is_no_scalar_has_no_string(type):
    with pytest.raises(ValueRefused, match="unsupported column type"):
        encode_canonical_column(pa.nulls(1, to_arrow_type(type)), type)
    with pytest.raises(ValueRefused, match="unsupported column type"):
        encode_canonical(None, type)


def shortest(value: float, width: type) -> str:
    """The shortest positional decimal, found by trying precisions upward."""
    if value == 0:
        return "0"
    for precision in range(1, 18):
        text = f"{value:.{precision - 1}e}"
        with np.errstate(over="ignore"):
            reads_back = width(text) == width(value)
        if reads_back:
            return format(Decimal(text).normalize(), "f")
    raise AssertionError(value)


def digit_count(text: str) -> int:
    return len(text.replace(".", "").strip("-0"))


FINITE = st.floats(allow_nan=False, allow_infinity=False)
FINITE_32 = st.floats(allow_nan=False, allow_infinity=False, width=32)


@given(st.lists(FINITE, min_size=1, max_size=20))
@example([2.0**70, 9007199254740993.0, 5e-324, 1.7976931348623157e308, 9.5e-7, 123456789e13])
def test_doubles_are_rendered_with_the_fewest_digits_that_read_back(values):
    texts = encode_canonical_column(pa.array(values), F64).to_pylist()
    assert texts == [encode_canonical(value, F64) for value in values]
    for value, text in zip(values, texts, strict=True):
        assert float(text) == value
        assert digit_count(text) <= digit_count(shortest(value, float))
        assert "e" not in text.lower()
        assert not text.endswith(".0")
        assert text != "-0"


@given(st.lists(FINITE_32, min_size=1, max_size=20))
def test_narrow_floats_are_rendered_with_the_fewest_digits_at_their_width(values):
    texts = encode_canonical_column(pa.array(values, pa.float32()), F32).to_pylist()
    assert texts == [encode_canonical(value, F32) for value in values]
    for value, text in zip(values, texts, strict=True):
        assert np.float32(text) == np.float32(value)
        assert digit_count(text) <= digit_count(shortest(value, np.float32))


def test_every_power_of_two_is_rendered_alike_by_value_and_by_column():
    powers = [math.ldexp(1.0, exponent) for exponent in range(-1074, 1024)]
    texts = encode_canonical_column(pa.array(powers), F64).to_pylist()
    assert texts == [encode_canonical(value, F64) for value in powers]
    assert [float(text) for text in texts] == powers


def test_many_random_bit_patterns_are_rendered_alike_by_value_and_by_column():
    bits = np.random.default_rng(20240601).integers(0, 2**32, 20_000, dtype=np.uint32)
    floats = [v for (v,) in struct.iter_unpack("=f", bits.tobytes()) if math.isfinite(v)]
    texts = encode_canonical_column(pa.array(floats, pa.float32()), F32).to_pylist()
    assert texts == [encode_canonical(value, F32) for value in floats]


TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=12)


@given(st.lists(st.tuples(TEXT, TEXT, TEXT), min_size=1, max_size=10))
@example([('a"b', "back\\slash", "line\nbreak\x00\x1f\x7f"), ("ä", "😀", "\u2028</script>")])
def test_a_composite_id_is_a_compact_json_array(rows):
    columns = [pa.array(part, pa.string()) for part in zip(*rows, strict=True)]
    expected = [json.dumps(list(r), ensure_ascii=False, separators=(",", ":")) for r in rows]
    assert encode_composite_ids(columns).to_pylist() == expected


def test_tuples_that_would_join_to_the_same_text_have_different_ids():
    left, right = pa.array(["a,b", 'a","b', "a"]), pa.array(["c", "c", 'b","c'])
    assert len(set(encode_composite_ids([left, right]).to_pylist())) == 3


def test_a_composite_id_with_a_null_member_is_null():
    assert encode_composite_ids([pa.array(["a", None]), pa.array(["b", "c"])]).to_pylist() == [
        '["a","b"]',
        None,
    ]


def test_a_float_column_of_nulls_alone_is_no_mistake() -> None:
    empty = pa.array([None, None], pa.float64())
    assert encode_canonical_column(empty, PropertyType(Scalar.F64, nullable=True)).to_pylist() == [
        None,
        None,
    ]

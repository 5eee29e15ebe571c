"""Columns as JSON values: of query results, and of an export."""

import json
import math
from datetime import UTC, date, datetime

import pyarrow as pa
import pytest

from omnigraph.errors import BadRequest
from omnigraph.identity import EntityKind
from omnigraph.types.arrow import BLOB, DATETIME
from omnigraph.types.jsonl_parser import parse_lines
from omnigraph.types.jsonl_records import PropertySpec, TypeSpec
from omnigraph.types.property import PropertyType, Scalar
from omnigraph.types.to_json import (
    encode_lines,
    encode_rows,
    encode_values_as_json,
    export_lines,
    export_values,
)

NOON = datetime(2024, 6, 1, 12, tzinfo=UTC)
BIG = 2**53

RESULTS = {
    "strings": (pa.array(["a", None, ""]), ["a", None, ""]),
    "dictionary": (pa.array(["a", "b", "a"]).dictionary_encode(), ["a", "b", "a"]),
    "booleans": (pa.array([True, None]), [True, None]),
    "integers": (pa.array([2**64 - 1, 0], pa.uint64()), [2**64 - 1, 0]),
    "narrow floats": (pa.array([0.1, None], pa.float32()), [0.10000000149011612, None]),
    "non-finite": (
        pa.array([1.5, math.nan, math.inf, -math.inf]),
        [1.5, "NaN", "Infinity", "-Infinity"],
    ),
    "dates": (pa.array([date(1, 1, 1), None]), ["0001-01-01", None]),
    "instants": (
        pa.array([NOON, None], DATETIME),
        ["2024-06-01T12:00:00.000Z", None],
    ),
    "finer instants": (
        pa.array([1_717_243_200_123_999], pa.timestamp("us")),
        ["2024-06-01T12:00:00.123Z"],
    ),
    "lists": (pa.array([["a", None], None, []]), [["a", None], None, []]),
    "lists of dates": (pa.array([[date(2024, 1, 2)], None]), [["2024-01-02"], None]),
    "lists of floats": (pa.array([[math.nan, 1.0]]), [["NaN", 1.0]]),
    "large lists": (pa.array([[1], None], pa.large_list(pa.int64())), [[1], None]),
    "vectors": (
        pa.array([[0.1, math.inf], None, [1, 2]], pa.list_(pa.float32(), 2)),
        [[0.10000000149011612, None], None, [1.0, 2.0]],
    ),
    "objects": (
        pa.array([{"day": date(2024, 1, 2)}, None]),
        [{"day": "2024-01-02"}, None],
    ),
    "nulls": (pa.nulls(2), [None, None]),
}


@pytest.mark.parametrize(("array", "expected"), RESULTS.values(), ids=RESULTS)
def test_a_result_column_is_given_as_json_values(array, expected):
    assert encode_values_as_json(array) == expected
    assert encode_values_as_json(array.slice(1)) == expected[1:]
    assert encode_values_as_json(pa.chunked_array([array, array])) == expected * 2


def test_integers_a_double_cannot_hold_are_strings_for_javascript():
    column = pa.array([BIG - 1, BIG, -BIG + 1, -BIG, None])
    assert encode_values_as_json(column, javascript=True) == [
        BIG - 1,
        str(BIG),
        1 - BIG,
        str(-BIG),
        None,
    ]
    assert encode_values_as_json(column) == [BIG - 1, BIG, 1 - BIG, -BIG, None]
    unsigned = pa.array([2**64 - 1, 1], pa.uint64())
    assert encode_values_as_json(unsigned, javascript=True) == [str(2**64 - 1), 1]
    narrow = pa.array([-(2**31)], pa.int32())
    assert encode_values_as_json(narrow, javascript=True) == [-(2**31)]
    nested = pa.array([[BIG], None])
    assert encode_values_as_json(nested, javascript=True) == [[str(BIG)], None]


def test_result_rows_keep_the_order_of_columns():
    table = pa.table({"b.x": [1, 2], "a": ["x", None]})
    assert [list(row.items()) for row in encode_rows(table)] == [
        [("b.x", 1), ("a", "x")],
        [("b.x", 2), ("a", None)],
    ]
    assert b"".join(encode_lines(table)) == b'{"b.x":1,"a":"x"}\n{"b.x":2,"a":null}\n'


def test_rows_without_columns_are_empty_objects():
    table = pa.table({"a": [1, 2]}).select([])
    assert encode_rows(table) == [{}, {}]
    assert b"".join(encode_lines(table)) == b"{}\n{}\n"


def test_a_blob_is_never_a_result():
    with pytest.raises(BadRequest, match="Blob"):
        encode_values_as_json(pa.nulls(1, BLOB))


EXPORTS = {
    "dates": (pa.array([date(1979, 3, 1), None]), [3346, None]),
    "instants": (pa.array([NOON, None], DATETIME), [1717243200000, None]),
    "narrow floats": (pa.array([0.1], pa.float32()), [0.10000000149011612]),
    "wide integers": (pa.array([2**64 - 1], pa.uint64()), [2**64 - 1]),
    "lists of dates": (pa.array([[date(1970, 1, 2)], None, []]), [[1], None, []]),
    "vectors": (pa.array([None, [0.5, 1]], pa.list_(pa.float32(), 2)), [None, [0.5, 1.0]]),
    "blobs": (
        pa.array(
            [
                {"data": b"\x00\xff", "uri": None},
                {"data": b"", "uri": None},
                None,
                {"data": None, "uri": "s3://b/k"},
            ],
            BLOB,
        ),
        ["base64:AP8=", "base64:", None, "s3://b/k"],
    ),
}


@pytest.mark.parametrize(("array", "expected"), EXPORTS.values(), ids=EXPORTS)
def test_an_exported_column_is_given_as_it_is_stored(array, expected):
    assert export_values(array) == expected


def test_a_node_line_names_its_type_and_every_property():
    batch = pa.record_batch(
        {
            "id": ["wave"],
            "country": pa.array([None], pa.string()),
            "founded": [date(1979, 3, 1)],
            "name": ['Wä"ve'],
        }
    )
    assert export_lines("Label", EntityKind.NODE, batch).decode() == (
        '{"type":"Label","data":{"id":"wave","country":null,"founded":3346,"name":"Wä\\"ve"}}\n'
    )


def test_an_edge_line_has_its_ends_outside_the_data():
    batch = pa.record_batch({"id": ["i1"], "src": ["a"], "dst": ["b"], "weight": [0.5]})
    assert export_lines("Likes", EntityKind.EDGE, batch) == (
        b'{"edge":"Likes","from":"a","to":"b","data":{"id":"i1","weight":0.5}}\n'
    )
    assert export_lines("Likes", EntityKind.EDGE, batch.slice(1)) == b""


@pytest.mark.parametrize(
    "column",
    [
        pa.array([1.0, math.nan]),
        pa.array([[1.0], [math.inf]]),
        pa.array([[1.0, 2.0], [0.0, -math.inf]], pa.list_(pa.float32(), 2)),
    ],
    ids=["float", "list", "vector"],
)
def test_a_non_finite_number_stops_an_export(column):
    batch = pa.record_batch({"id": ["a", "b"], "p": column})
    with pytest.raises(BadRequest, match=r"cannot export T\.p: non-finite"):
        export_lines("T", EntityKind.NODE, batch)


def test_an_export_loads_as_the_same_rows():
    types = {
        "at": PropertyType(Scalar.DATETIME, nullable=True),
        "cover": PropertyType(Scalar.BLOB, nullable=True),
        "days": PropertyType(Scalar.DATE, nullable=True, is_list=True),
        "plays": PropertyType(Scalar.U64, nullable=True),
        "title": PropertyType(Scalar.STRING),
        "vibe": PropertyType(Scalar.VECTOR, nullable=True, dimension=2),
    }
    spec = TypeSpec("Album", EntityKind.NODE, tuple(PropertySpec(n, t) for n, t in types.items()))
    rows = [
        {"id": "a", "at": "2024-06-01T12:00:00Z", "cover": "base64:AAE=", "plays": 2**64 - 1},
        {"id": "b", "days": ["2024-01-01", 5], "vibe": [0.1, -2], "cover": "file:///x"},
    ]
    lines = "\n".join(
        json.dumps({"type": "Album", "data": {"title": "t\n\u2028", **row}}) for row in rows
    )
    loaded = parse_lines(lines.encode(), [spec]).rows["node:Album"].columns
    (batch,) = loaded.combine_chunks().to_batches()
    again = parse_lines(export_lines("Album", EntityKind.NODE, batch), [spec])
    assert again.problems == ()
    assert again.rows["node:Album"].columns.equals(loaded)


def test_an_instant_beyond_the_calendar_is_an_error_and_not_a_null():
    far = pa.array([2**60], pa.int64()).cast(DATETIME)
    for convert in (encode_values_as_json, export_values):
        with pytest.raises(BadRequest, match="DateTime"):
            convert(far)

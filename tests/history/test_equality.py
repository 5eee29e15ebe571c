"""Equality of two rows."""

from __future__ import annotations

import math
import random
import struct

import pyarrow as pa
import pytest

from omnigraph.history.equality import compare_images, compare_rows, compare_values, read_images
from omnigraph.storage.tables.lance_errors import mark_primary_key
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import stage_create
from omnigraph.storage.tables.table import ROW_ADDRESS
from omnigraph.storage.tables.table_columns import make_blob_array, make_blob_field
from omnigraph.storage.tables.table_commit import commit_exact

NAN = math.nan
VECTOR = pa.list_(pa.field("item", pa.float32(), nullable=True), 2)


@pytest.mark.parametrize(
    ("kind", "left", "right", "is_equal"),
    [
        (pa.string(), None, "", False),
        (pa.string(), "", "", True),
        (pa.string(), None, None, True),
        (pa.string(), "\u00e9", "e\u0301", False),
        (pa.int64(), 0, None, False),
        (pa.float64(), NAN, NAN, True),
        (pa.float64(), 0.0, -0.0, False),
        (pa.float32(), 1.5, 1.5, True),
        (pa.bool_(), False, None, False),
        (pa.list_(pa.string()), [], None, False),
        (pa.list_(pa.string()), [], [], True),
        (pa.list_(pa.string()), [None], [""], False),
        (pa.list_(pa.string()), ["a"], ["a", "b"], False),
        (pa.list_(pa.float64()), [1.0, NAN], [1.0, NAN], True),
        (pa.list_(pa.list_(pa.int64())), [[1], []], [[1], None], False),
        (pa.list_(pa.list_(pa.int64())), [[1], [2, 3]], [[1], [2, 3]], True),
        (VECTOR, [1.0, 2.0], [1.0, 2.0], True),
        (VECTOR, [1.0, 2.0], [1.0, 2.5], False),
        (VECTOR, None, [0.0, 0.0], False),
    ],
)
def test_values_are_compared_with_their_types(kind, left, right, is_equal):
    mask = compare_values(pa.array([left, None], kind), pa.array([right, None], kind))
    assert mask.tolist() == [is_equal, True]


def same(left: object, right: object) -> bool:
    """Compare two values by the rule for rows."""
    if isinstance(left, list) and isinstance(right, list):
        return len(left) == len(right) and all(map(same, left, right))
    if isinstance(left, float) and isinstance(right, float):
        both = math.isnan(left) and math.isnan(right)
        return both or struct.pack("d", left) == struct.pack("d", right)
    return type(left) is type(right) and left == right


@pytest.mark.parametrize("seed", range(20))
def test_columns_agree_with_the_comparison_value_by_value(seed):
    chance = random.Random(seed)
    numbers = [None, 0.0, -0.0, 1.0, NAN]
    texts = [None, "", "a", "b"]
    columns = {
        "number": ([chance.choice(numbers) for _ in range(400)], pa.float64()),
        "text": ([chance.choice(texts) for _ in range(400)], pa.string()),
        "list": (
            [
                None if chance.random() < 0.2 else chance.choices(numbers, k=chance.randrange(3))
                for _ in range(400)
            ],
            pa.list_(pa.float64()),
        ),
        "vector": (
            [
                None if chance.random() < 0.2 else [chance.choice([0.0, 1.0]), 1.0]
                for _ in range(400)
            ],
            VECTOR,
        ),
    }
    left = pa.table(
        {name: pa.array(values[:200], kind) for name, (values, kind) in columns.items()}
    )
    right = pa.table(
        {name: pa.array(values[200:], kind) for name, (values, kind) in columns.items()}
    )
    rows = zip(left.to_pylist(), right.to_pylist(), strict=True)
    wanted = [all(same(mine[name], theirs[name]) for name in columns) for mine, theirs in rows]
    assert compare_rows(left, right).tolist() == wanted
    # Slices start within their buffers.
    assert compare_rows(left.slice(7), right.slice(7)).tolist() == wanted[7:]


BLOBS = mark_primary_key(pa.schema([pa.field("id", pa.string()), make_blob_field("b")]), "id")


def test_blobs_are_distinguished_by_size_and_then_by_content(tmp_path):
    big = b"x" * 100_000
    mine = [b"one", b"two", None, b"", big, big, b"longer"]
    theirs = [b"one", b"2wo", b"", b"", big, big[:-1] + b"y", b"long"]
    images = []
    for name, values in (("mine", mine), ("theirs", theirs)):
        rows = pa.table(
            {"id": [str(n) for n in range(7)], "b": make_blob_array(values)}, schema=BLOBS
        )
        location = TableLocation(str(tmp_path / name))
        table = commit_exact(stage_create(location, BLOBS, rows, properties={})).table
        places = table.scan([ROW_ADDRESS]).column(ROW_ADDRESS).combine_chunks()
        images.append(read_images(table, places))
    expected = [True, False, False, True, True, False, False]
    assert compare_images(*images).tolist() == expected

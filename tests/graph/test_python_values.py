"""Python values in a load: stored as what they are, or refused by name."""

from __future__ import annotations

import datetime as dt
import enum
import math
import uuid
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import BadRequest, CompileError, RowsRejected

SCHEMA = """
node Item {
    slug: String @key
    n: I64?
    big: U64?
    x: F64?
    on: Bool?
    day: Date?
    at: DateTime?
    names: [String]?
    counts: [I32]?
    v: Vector(3)?
    file: Blob?
}
edge Next: Item -> Item { weight: F64? }
"""


class Colour(enum.Enum):
    RED = "red"


@pytest.fixture
def items(tmp_path):
    with omnigraph.init(tmp_path / "items.omni", SCHEMA) as graph:
        yield graph


def load_item(graph: omnigraph.Graph, **data: object) -> None:
    graph.load([{"type": "Item", "data": {"slug": "a", **data}}], "append")


def stored(graph: omnigraph.Graph, name: str) -> Any:
    return graph.nodes("Item").to_arrow().column(name)[0].as_py()


UTC = dt.UTC
STORED = {
    "numpy integer": ("n", np.int32(7), 7),
    "numpy unsigned": ("big", np.uint64(2**64 - 1), 2**64 - 1),
    "numpy float": ("x", np.float32(0.5), 0.5),
    "numpy truth": ("on", np.bool_(True), True),
    "numpy text": ("slug", np.str_("a"), "a"),
    "numpy day": ("day", np.datetime64("2024-06-01"), dt.date(2024, 6, 1)),
    "numpy time": (
        "at",
        np.datetime64("2024-06-01T12:00:00.123456789"),
        dt.datetime(2024, 6, 1, 12, 0, 0, 123000, UTC),
    ),
    "numpy's missing time": ("at", np.datetime64("NaT"), None),
    "numpy vector": ("v", np.array([0.5, 1, 2], np.float32), [0.5, 1.0, 2.0]),
    "numpy integers": ("counts", np.array([1, 2]), [1, 2]),
    "date": ("day", dt.date(2024, 6, 1), dt.date(2024, 6, 1)),
    "time with a zone": (
        "at",
        dt.datetime(2024, 6, 1, 14, tzinfo=dt.timezone(dt.timedelta(hours=2))),
        dt.datetime(2024, 6, 1, 12, tzinfo=UTC),
    ),
    "whole decimal": ("n", Decimal("7.00"), 7),
    "decimal": ("x", Decimal("0.25"), 0.25),
    "set": ("names", {"b", "a"}, ["a", "b"]),
    "tuple": ("names", ("b", "a"), ["b", "a"]),
    "uuid": ("slug", uuid.UUID(int=7), str(uuid.UUID(int=7))),
    "enumeration": ("names", [Colour.RED], ["red"]),
    "largest floats": ("v", [3e38, 3e38, 1.0], [pytest.approx(3e38), pytest.approx(3e38), 1.0]),
}


@pytest.mark.parametrize("case", STORED)
def test_a_value_is_stored_as_what_it_is(items, case):
    name, value, expected = STORED[case]
    load_item(items, **{name: value})
    assert stored(items, name) == expected


@pytest.mark.parametrize("data", [b"\x00\xff", bytearray(b"\x00\xff"), memoryview(b"\x00\xff")])
def test_bytes_are_the_bytes_of_a_blob(items, data):
    load_item(items, file=data)
    assert items.read_blob("Item", "a", "file").read() == b"\x00\xff"


REFUSED = {
    "not a number": ("x", math.nan, "nan is not a value"),
    "infinite": ("x", -math.inf, "-inf is not a value"),
    "not a number in a vector": ("v", [1.0, math.nan, 2.0], "nan is not a value"),
    "both infinities": ("v", [math.inf, -math.inf, 1.0], "inf is not a value"),
    "numpy's not a number": ("x", np.float64("nan"), "nan is not a value"),
    "decimal's not a number": ("x", Decimal("NaN"), "NaN is not a value"),
    "fraction": ("n", Decimal("7.5"), "expects I64, got Decimal 7.5"),
    "bytes as text": ("slug", b"a", "expects String, got bytes"),
    "duration": ("n", dt.timedelta(1), "expects I64, got datetime.timedelta"),
    "date as text": ("slug", dt.date(2024, 6, 1), "expects String, got datetime.date"),
    "time of day": ("at", dt.time(12), "expects DateTime, got datetime.time"),
    "anything": ("n", object(), "expects I64, got object"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_a_value_that_cannot_be_stored_is_refused_by_name(items, case):
    name, value, reason = REFUSED[case]
    with pytest.raises(BadRequest) as refused:
        load_item(items, **{name: value})
    assert f"record 1: property '{name}': {reason}" in str(refused.value)
    assert items.nodes("Item").to_arrow().num_rows == 0


def test_an_unknown_member_is_refused_by_its_name_whatever_it_holds(items):
    with pytest.raises(RowsRejected, match="unknown input field 'sise'"):
        load_item(items, sise=np.int64(7))


def test_any_mapping_is_a_record(items):
    record = MappingProxyType({"type": "Item", "data": MappingProxyType({"slug": "a", "n": 1})})
    items.load([record], "append")
    assert stored(items, "n") == 1


def test_plain_dictionaries_are_rows_of_a_given_type(items):
    items.load(
        [{"slug": "a", "count": 1}, {"slug": "b"}], "append", type="Item", columns={"n": "count"}
    )
    items.load([{"from": "a", "dst": "b", "weight": 0.5}], "append", type="Next")
    assert items.nodes("Item").to_arrow().column("n").to_pylist() == [1, None]
    assert items.edges("Next").to_arrow().select(["src", "dst", "weight"]).to_pylist() == [
        {"src": "a", "dst": "b", "weight": 0.5}
    ]


def test_of_plain_dictionaries_only_the_selected_members_are_read(items):
    row = {"slug": "a", "n": 1, "x": 2.0, "note": "not a property"}
    items.load([row], "append", type="Item", select=["slug", "n"])
    assert (stored(items, "n"), stored(items, "x")) == (1, None)


@pytest.mark.parametrize("wrong", [7, {"type": "Item"}, None])
def test_a_value_that_cannot_be_loaded_is_reported_plainly(items, wrong):
    with pytest.raises(BadRequest, match=f"cannot load {type(wrong).__name__}"):
        items.load(wrong, "append")


def test_whole_floats_fit_an_integer_property(items):
    # pandas keeps integers that way in a column with nulls
    frame = pa.table({"slug": ["a", "b", "c"], "n": pa.array([3.0, None, -(2.0**63)])})
    items.load(frame, "append", type="Item")
    assert items.nodes("Item").to_arrow().column("n").to_pylist() == [3, None, -(2**63)]


@pytest.mark.parametrize("wrong", [3.5, math.nan, math.inf, 2.0**63])
def test_other_floats_do_not_fit_an_integer_property(items, wrong):
    with pytest.raises(RowsRejected, match="property 'n': expects I64"):
        items.load(pa.table({"slug": ["a"], "n": [wrong]}), "append", type="Item")


@pytest.mark.parametrize("nothing", [[], b"", b"\n\n", iter([])])
def test_an_empty_load_makes_no_commit(items, nothing):
    before = items.commits()
    result = items.load(nothing, "append")
    assert (result.commit, result.total_entities) == (None, 0)
    assert items.commits() == before


def test_an_empty_table_makes_no_commit(items, tmp_path):
    before = items.commits()
    assert (
        items.load(pa.table({"slug": pa.array([], pa.string())}), "append", type="Item").commit
        is None
    )
    empty = tmp_path / "empty.csv"
    empty.write_text("slug,n\n")
    assert items.load(Path(empty), "append", type="Item").commit is None
    assert items.commits() == before


def test_a_load_whose_rows_were_all_skipped_makes_no_commit(items):
    before = items.commits()
    result = items.load([{"type": "Item", "data": {"n": 1}}], "append", on_error="skip")
    assert (result.commit, result.skipped.total) == (None, 1)
    assert items.commits() == before


def test_schemas_and_queries_may_be_files(tmp_path):
    schema, query = tmp_path / "s.pg", tmp_path / "q.gq"
    schema.write_text("node Item { slug: String @key }")
    query.write_text("query q() { match { $i: Item } return { $i.slg } }")
    with omnigraph.init(tmp_path / "g.omni", schema, actor="maria") as graph:
        assert graph.commits()[0].actor_id == "maria"
        with pytest.raises(CompileError, match=r"slg") as refused:
            graph.query(query)
        assert str(query) in refused.value.render()
        with pytest.raises(BadRequest, match=r"cannot read .*gone\.gq"):
            graph.query(tmp_path / "gone.gq")

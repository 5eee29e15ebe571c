"""What readers of the data source give, asked as Spark asks them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql import datasource as spark_filters
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import omnigraph
from omnigraph.errors import BadRequest, BranchNotFound, TypeNotFound
from omnigraph.pipeline.source.datasource import FilteringSource, PlainSource


def columns(**types):
    return StructType([StructField(name, type_) for name, type_ in types.items()])


def source(graph, kind=FilteringSource, **options):
    return kind({"path": graph.uri, **options})


def read(graph, schema=None, filters=(), kind=FilteringSource, **options):
    """The rows of a read, and how many partitions it has."""
    made = source(graph, kind, **options)
    reader = made.reader(schema=made.schema() if schema is None else schema)
    if filters:
        assert list(reader.pushFilters(list(filters))) == list(filters)
    partitions = reader.partitions() or [None]
    batches = [batch for part in partitions for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()], len(partitions)


def ids(graph, filters=(), **options):
    rows, _ = read(graph, filters=filters, type="Person", **options)
    return sorted(row["id"] for row in rows)


def test_a_type_is_read_with_the_types_spark_has(graph):
    schema = source(graph, type="Person").schema()
    assert {field.name: field.dataType.simpleString() for field in schema} == {
        "id": "string",
        "age": "int",
        "big": "decimal(20,0)",
        "born": "date",
        "good": "boolean",
        "key": "string",
        "numbers": "array<decimal(20,0)>",
        "photo": "binary",
        "place": "array<float>",
        "score": "double",
        "seen": "timestamp",
        "small": "bigint",
        "tags": "array<string>",
    }
    rows, _ = read(graph, type="Person")
    (second,) = [row for row in rows if row["id"] == "p1"]
    assert second["big"] == Decimal(2**64 - 2)
    assert second["small"] == 2**32 - 2
    assert second["born"] == datetime.date(1581, 1, 2)
    assert second["numbers"] == [Decimal(2**64 - 1), Decimal(1)]
    assert second["photo"] == b"hi"
    assert second["place"] == [1.0, 1.0]
    (third,) = [row for row in rows if row["id"] == "p3"]
    assert set(third.values()) == {"p3", None}


def test_an_edge_type_has_its_ends(graph):
    rows, _ = read(graph, type="Knows")
    assert {"id": "k0", "src": "p0", "dst": "p1", "since": 0} in rows
    assert len(rows) == 9


def test_columns_are_chosen_by_option_or_by_schema(graph):
    rows, _ = read(graph, type="Person", columns="age, id")
    assert [*rows[0]] == ["age", "id"]
    rows, _ = read(graph, columns(id=StringType(), age=LongType()), type="Person")
    assert {"id": "p2", "age": 2} in rows


def test_an_unknown_column_is_refused_by_name(graph):
    with pytest.raises(BadRequest, match="no column 'hight'"):
        source(graph, type="Person", columns="hight").schema()
    with pytest.raises(BadRequest, match="no column 'hight'"):
        read(graph, columns(hight=IntegerType()), type="Person")


F = spark_filters
FILTERS = [
    (F.EqualTo(("age",), 4), ["p4"]),
    (F.EqualNullSafe(("age",), 4), ["p4"]),
    (F.EqualNullSafe(("age",), None), ["p3", "p7"]),
    (F.Not(F.EqualNullSafe(("age",), 4)), [f"p{n}" for n in range(10) if n != 4]),
    (F.GreaterThan(("age",), 7), ["p8", "p9"]),
    (F.LessThanOrEqual(("score",), 0.25), ["p0", "p1"]),
    (F.In(("id",), ("p1", "p2", None)), ["p1", "p2"]),
    (F.Not(F.In(("age",), (0, 1, 2, 4, 5, 6))), ["p8", "p9"]),
    (F.IsNull(("photo",)), ["p3", "p7"]),
    (F.IsNotNull(("tags",)), [f"p{n}" for n in range(10) if n % 4 != 3]),
    (F.StringStartsWith(("key",), "p1"), ["p1"]),
    (F.StringContains(("id",), "9"), ["p9"]),
    (F.GreaterThanOrEqual(("big",), Decimal(2**64 - 2)), ["p0", "p1"]),
    (F.EqualTo(("small",), 2**32 - 1), ["p0"]),
    (F.EqualTo(("born",), datetime.date(1581, 1, 3)), ["p2"]),
    (F.EqualTo(("good",), True), ["p0", "p2", "p4", "p6", "p8"]),
    (F.EqualTo(("seen",), datetime.datetime(2024, 6, 1, 12, 0, 0, 5000, datetime.UTC)), ["p5"]),
]


@pytest.mark.parametrize(("asked", "expected"), FILTERS, ids=repr)
def test_a_filter_that_is_handed_over_leaves_rows_unread(graph, asked, expected):
    assert ids(graph, [asked]) == expected


def test_filters_that_cannot_be_asked_exactly_are_left_to_spark(graph):
    naive = F.EqualTo(("seen",), datetime.datetime(2024, 6, 1, 12))
    for asked in (naive, F.EqualTo(("tags",), ["all"]), F.EqualTo(("age", "x"), 1)):
        assert len(ids(graph, [asked])) == 10
    rows, _ = read(
        graph,
        columns(id=StringType(), age=StringType()),
        [F.LessThan(("age",), "10")],
        type="Person",
    )
    assert len(rows) == 10, "as text another order holds than among numbers"


def test_the_plain_source_takes_no_filters(graph):
    reader = source(graph, PlainSource, type="Person").reader(
        schema=source(graph, type="Person").schema()
    )
    assert type(reader).pushFilters is spark_filters.DataSourceReader.pushFilters
    off = source(graph, type="Person", pushdown="false").reader(schema=columns(id=StringType()))
    assert type(off).pushFilters is spark_filters.DataSourceReader.pushFilters


def test_every_group_of_fragments_is_a_partition(graph):
    for number in range(3):
        graph.load([{"type": "Note", "data": {"text": f"n{number}"}}], "append")
    assert read(graph, type="Note")[1] == 1
    rows, partitions = read(graph, type="Note", rowsPerPartition="1")
    assert partitions == 3
    assert sorted(row["text"] for row in rows) == ["n0", "n1", "n2"]


def test_a_type_without_rows_is_read_as_no_rows(empty):
    assert read(empty, type="Person") == ([], 1)


def test_branches_and_commits_are_read(graph):
    before = graph.commits()[0].commit_id
    graph.create_branch("draft")
    graph.load([{"type": "Person", "data": {"key": "x"}}], "append", branch="draft")
    graph.load([{"type": "Person", "data": {"key": "y"}}], "append")
    assert "x" in ids(graph, branch="draft")
    assert "y" in ids(graph)
    assert len(ids(graph, commit=before)) == 10
    with pytest.raises(BranchNotFound):
        ids(graph, branch="nowhere")


def test_a_name_of_a_node_and_an_edge_needs_its_kind(tmp_path):
    schema = "node Links { a: String } edge Likes: Links -> Links { b: String? }"
    made = omnigraph.init(tmp_path / "g.omni", schema)
    assert source(made, type="edge:Likes").schema().names == ["id", "src", "dst", "b"]
    with pytest.raises(TypeNotFound):
        source(made, type="Nothing").schema()


def test_the_result_of_a_query_is_read(graph):
    text = """
    query older($age: I32) { match { $p: Person  $p.age >= $age  $p knows $q }
      return { $p.key as who, $q.big as n } }
    """
    options = {"query": text, "params": '{"age": 8}', "name": "older"}
    made = source(graph, **options)
    assert made.schema().simpleString() == "struct<who:string,n:decimal(20,0)>"
    rows, _ = read(graph, **options)
    assert rows == [{"who": "p8", "n": Decimal(2**64 - 10)}]


def test_options_that_make_no_sense_say_so(graph):
    for options, text in [
        ({"type": "Person", "query": "query q() {}"}, "not both"),
        ({}, "option 'type'"),
        ({"type": "Person", "commit": "a", "snapshot": "b"}, "one of commit and snapshot"),
        ({"type": "Person", "pushdown": "maybe"}, "true or false"),
        ({"type": "Person", "rowsPerPartition": "0"}, "positive"),
        ({"query": "query q() {}", "params": "{"}, "JSON object"),
    ]:
        with pytest.raises(BadRequest, match=text):
            source(graph, **options).schema()
    with pytest.raises(BadRequest, match="where the graph is"):
        FilteringSource({"type": "Person"}).schema()


def test_batches_have_exactly_the_schema_spark_wants(graph):
    made = source(graph, type="Person")
    reader = made.reader(schema=made.schema())
    (batch,) = reader.read(reader.partitions()[0])
    assert batch.schema.field("seen").type == pa.timestamp("us", tz="UTC")
    assert not batch.schema.field("id").nullable

"""Readers of the data source, called as Spark calls them."""

from __future__ import annotations

import datetime
from decimal import Decimal

import pyarrow as pa
import pytest
from pyspark.sql.datasource import DataSourceReader
from pyspark.sql.types import IntegerType, LongType, StringType, StructField, StructType

import omnigraph
from omnigraph.errors import BadRequest, BranchNotFound, CompileError, TypeNotFound
from omnigraph.spark_source.datasource import GraphSource


def columns(**types):
    return StructType([StructField(name, type_) for name, type_ in types.items()])


def source(graph, **options):
    return GraphSource({"path": graph.uri, **options})


def read(graph, schema=None, **options):
    """The rows of a read, and how many partitions it has."""
    made = source(graph, **options)
    reader = made.reader(schema=made.schema() if schema is None else schema)
    partitions = reader.partitions() or [None]
    batches = [batch for part in partitions for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()], len(partitions)


def ids(graph, **options):
    rows, _ = read(graph, type="Person", **options)
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
    with pytest.raises(BadRequest, match="no such column 'hight'"):
        source(graph, type="Person", columns="hight").schema()
    with pytest.raises(BadRequest, match="no such column 'hight'"):
        read(graph, columns(hight=IntegerType()), type="Person")


CONDITIONS = [
    ("age = 4", ["p4"]),
    ("age is null", ["p3", "p7"]),
    ("age != 4", ["p0", "p1", "p2", "p5", "p6", "p8", "p9"]),
    ("age != 4 or age is null", [f"p{n}" for n in range(10) if n != 4]),
    ("age > 7", ["p8", "p9"]),
    ("age > 7.5", ["p8", "p9"]),
    ("score <= 0.25", ["p0", "p1"]),
    ('id in ["p1", "p2"]', ["p1", "p2"]),
    ("age not in [0, 1, 2, 4, 5, 6]", ["p8", "p9"]),
    ("photo is null", ["p3", "p7"]),
    ("tags is not null", [f"p{n}" for n in range(10) if n % 4 != 3]),
    ('tags contains "t5"', ["p5"]),
    ('key starts_with "p1"', ["p1"]),
    ('id contains "9"', ["p9"]),
    (f"big >= {2**64 - 2}", ["p0", "p1"]),
    (f"small = {2**32 - 1}", ["p0"]),
    ('born = date("1581-01-03")', ["p2"]),
    ("good", ["p0", "p2", "p4", "p6", "p8"]),
    ("not good and age < 6", ["p1", "p5"]),
    ('seen = datetime("2024-06-01T12:00:00.005Z")', ["p5"]),
    ("seen < now() and age >= 9", ["p9"]),
]


@pytest.mark.parametrize(("where", "expected"), CONDITIONS)
def test_a_condition_leaves_rows_unread(graph, where, expected):
    assert ids(graph, where=where) == expected
    assert ids(graph, where=where, columns="id") == expected


def test_a_condition_names_the_ends_of_an_edge_by_word_or_by_column(graph):
    for where in ('from = "p3"', 'src = "p3"', 'to = "p4"', 'dst = "p4" and since = 3'):
        rows, _ = read(graph, type="Knows", where=where)
        assert [row["id"] for row in rows] == ["k3"]


@pytest.mark.parametrize(
    ("where", "text"),
    [
        ("hight > 3", "has no property 'hight'"),
        ("", "expected a property name"),
        ("age > 3 age", "expected `and`, `or` or the end"),
        ("key = 'p1'", "unexpected character"),
        ("$p.age > 3", "expected a property name"),
        ("age > $least", "must be a declared query parameter"),
        ('age > "3"', "cannot compare I32"),
        ("upper(key) = 3", "expected `and`, `or` or the end"),
    ],
)
def test_a_condition_that_is_not_supported_is_refused_with_its_position(graph, where, text):
    with pytest.raises(CompileError, match=text) as refused:
        source(graph, type="Person", where=where).schema()
    assert "<where>:1:" in str(refused.value)


def test_no_reader_takes_filters_of_a_query(graph):
    for options in (
        {"type": "Person"},
        {"query": "query q() { match { $p: Person } return { $p.key } }"},
    ):
        made = source(graph, **options)
        reader = made.reader(schema=made.schema())
        assert type(reader).pushFilters is DataSourceReader.pushFilters


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


READ_MISTAKES = [
    ({"type": "Person", "query": "query q() {}"}, "'type' or option 'query', not both"),
    ({"where": "age > 1", "query": "query q() {}"}, "'where' or option 'query', not both"),
    ({}, "option 'type'"),
    ({"type": "Person", "commit": "a", "snapshot": "b"}, "only one of the options"),
    ({"type": "Person", "commit": "a", "versionAsOf": "1"}, "commit, versionAsOf"),
    ({"type": "Person", "versionAsOf": "new"}, "number of a manifest version, not 'new'"),
    ({"type": "Person", "timestampAsOf": "2024-06-01"}, "with a zone"),
    ({"type": "Person", "timestampAsOf": "yesterday"}, "with a zone"),
    ({"type": "Person", "comit": "a"}, "no such option 'comit'; did you mean 'commit'"),
    ({"type": "Person", "version_as_of": "1"}, "did you mean 'versionAsOf'"),
    ({"type": "Person", "Colums": "id"}, "no such option 'Colums'; did you mean 'columns'"),
    ({"type": "Person", "xyz": "1"}, "no such option 'xyz'; use path, "),
    ({"type": "Person", "mode": "merge"}, "option 'mode' is for writes only"),
    ({"type": "Person", "params": "{}"}, "option 'params' belongs to option 'query'"),
    ({"type": "Person", "rowsPerPartition": "0"}, "'rowsPerPartition' must be a positive"),
    ({"query": "query q() {}", "params": "{"}, "JSON object"),
    ({"type": "Person", "provider": "omnigraph"}, "CREATE TEMPORARY VIEW"),
]


@pytest.mark.parametrize(("options", "text"), READ_MISTAKES)
def test_options_that_make_no_sense_say_so(graph, options, text):
    with pytest.raises(BadRequest, match=text):
        source(graph, **options).schema()


def test_a_read_without_an_address_is_refused():
    with pytest.raises(BadRequest, match="where the graph is"):
        GraphSource({"type": "Person"})


def test_batches_have_exactly_the_schema_spark_wants(graph):
    made = source(graph, type="Person")
    reader = made.reader(schema=made.schema())
    (batch,) = reader.read(reader.partitions()[0])
    assert batch.schema.field("seen").type == pa.timestamp("us", tz="UTC")
    assert not batch.schema.field("id").nullable

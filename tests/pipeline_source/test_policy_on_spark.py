"""A policy hides names on Spark: in queries, frames of types, and the data source."""

from __future__ import annotations

import json

import pytest

import omnigraph
from omnigraph.errors import BadRequest, CompileError, PolicyDenied, TypeNotFound
from omnigraph.policy import load_bundle
from omnigraph.spark_source import register
from omnigraph.spark_source.datasource import GraphSource

RULES = """
version: 1
groups: { agents: [bot], readers: [rita] }
protected_branches: [main]
rules:
  - id: agents
    allow: { actors: { group: agents }, actions: [read, export], except: [Person.age, Note] }
  - id: agents-write
    allow: { actors: { group: agents }, actions: [change], branch_scope: unprotected }
  - id: readers
    allow: { actors: { group: readers }, actions: [export] }
"""


@pytest.fixture
def rules(tmp_path):
    path = tmp_path / "people.policy.yaml"
    path.write_text(RULES)
    return str(path)


def read(graph, rules, actor="bot", **options):
    made = GraphSource({"path": graph.uri, "actor": actor, "policy": rules, **options})
    reader = made.reader(schema=made.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]


def test_a_type_is_read_without_its_hidden_properties(graph, rules):
    rows = read(graph, rules, type="Person")
    assert len(rows) == 10
    assert "age" not in rows[0]
    assert "key" in rows[0]
    for hidden in ({"columns": "age"}, {"where": "age > 1"}, {"type": "Note"}):
        with pytest.raises((BadRequest, CompileError, TypeNotFound)):
            read(graph, rules, **{"type": "Person", **hidden})


def test_a_query_of_the_source_is_denied_what_is_hidden(graph, rules):
    query = "query q() { match { $p: Person } return { $p.%s } }"
    assert len(read(graph, rules, query=query % "key")) == 10
    with pytest.raises(PolicyDenied) as caught:
        read(graph, rules, query=query % "age")
    assert caught.value.hidden == ("Person.age",)


def test_an_actor_without_the_right_to_read_gets_no_source(graph, rules):
    for actor in ("rita", "eve"):
        with pytest.raises(PolicyDenied):
            read(graph, rules, actor=actor, type="Person")
    with pytest.raises(PolicyDenied):
        GraphSource({"path": graph.uri, "policy": rules, "type": "Person"})


def test_a_write_is_authorized(graph, rules):
    graph.create_branch("dev")
    given = {"path": graph.uri, "actor": "bot", "policy": rules, "type": "Person"}
    with pytest.raises(PolicyDenied):
        GraphSource(given).writer(schema=None, overwrite=False)
    GraphSource(given | {"branch": "dev"}).writer(schema=None, overwrite=False)


def test_in_a_session_nothing_hidden_is_read(spark, graph, rules):
    register(spark)
    bot = omnigraph.open(graph.uri, actor="bot", policy=load_bundle(rules))
    frame = bot.nodes("Person").to_spark(spark)
    assert "age" not in frame.columns
    assert frame.count() == 10
    query = "query q() { match { $p: Person } return { $p.%s } }"
    found = bot.query(query % "key", engine="spark", session=spark)
    assert len(found.rows) == 10
    with pytest.raises(PolicyDenied):
        bot.query(query % "age", engine="spark", session=spark)
    source = spark.read.format("omnigraph").option("actor", "bot").option("policy", rules)
    read = source.option("type", "Person").load(graph.uri)
    assert "age" not in read.columns
    assert read.count() == 10


def test_changes_are_read_without_what_is_hidden(graph, rules):
    start = graph.commits()[0].commit_id
    graph.mutate('query q() { update Person set { age: 77 } where key = "p1" }')
    graph.mutate('query q() { update Person set { good: true } where key = "p1" }')
    graph.mutate('query q() { insert Note { text: "secret" } }')
    options = {"changes": "true", "startingAfter": start}
    assert len(read_all({"path": graph.uri, **options})) == 3
    policed = {"path": graph.uri, "actor": "bot", "policy": rules, **options}
    found = read_all(policed)
    assert [(row["type"], row["id"]) for row in found] == [("Person", "p1")]
    images = [json.loads(row[side])["properties"] for row in found for side in ("before", "after")]
    assert not any("age" in image for image in images)
    assert "secret" not in str(found)
    columns = GraphSource(policed | {"type": "Person"}).schema().simpleString()
    assert "age" not in columns
    for denied in ({"actor": "eve"}, {"consumer": "copy"}):
        with pytest.raises(PolicyDenied):
            GraphSource(policed | denied)


def read_all(options):
    made = GraphSource(options)
    reader = made.reader(schema=made.schema())
    batches = [batch for part in reader.partitions() for batch in reader.read(part)]
    return [row for batch in batches for row in batch.to_pylist()]

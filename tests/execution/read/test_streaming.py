"""Rows leave as they are made; what is measured along the way."""

from __future__ import annotations

from dataclasses import replace

import pyarrow as pa
import pytest

from execution.read.query_runner import Reading, make_graph
from omnigraph.plan.explain import describe_node
from omnigraph.plan.plan_nodes import CrossJoin, Expand, NodeScan
from omnigraph.plan.walk import list_children

SCHEMA = "node P { key: String @key  name: String  age: I32 }\nedge Knows: P -> P"
PEOPLE = 2_000


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> str:
    records: list[dict[str, object]] = [
        {"type": "P", "data": {"key": f"p{i:05d}", "name": "x" * 100, "age": i % 70}}
        for i in range(PEOPLE)
    ]
    records += [
        {"edge": "Knows", "from": f"p{i:05d}", "to": f"p{(i * 7 + step) % PEOPLE:05d}"}
        for i in range(PEOPLE)
        for step in range(5)
    ]
    path = tmp_path_factory.mktemp("many") / "g.omni"
    make_graph(path, SCHEMA, records)
    return str(path)


def nodes_of(root, kind):
    waiting, found = [root], []
    while waiting:
        node = waiting.pop()
        found += [node] if isinstance(node, kind) else []
        waiting += list_children(node)
    return found


PAIRS = "match { $a: P $b: P } return { $a, $b, $a.name, $b.name }"


def test_the_first_rows_are_returned_before_the_last_are_computed(uri):
    reading = Reading(uri)
    result = reading.run(PAIRS)
    join = nodes_of(result.profile.root, CrossJoin)[0]
    assert next(result.batches()).num_rows > 0
    assert 0 < result.profile.of(join).rows < PEOPLE * PEOPLE


def test_four_million_rows_pass_through_little_memory(uri):
    reading = Reading(uri)
    before, highest, rows = pa.total_allocated_bytes(), 0, 0
    last = ("", "")
    for batch in reading.run(PAIRS).batches():
        rows += batch.num_rows
        highest = max(highest, pa.total_allocated_bytes() - before)
        first = (batch.column(0)[0].as_py(), batch.column(1)[0].as_py())
        assert last < first
        last = (batch.column(0)[-1].as_py(), batch.column(1)[-1].as_py())
    assert rows == PEOPLE * PEOPLE
    # All rows together would be four million times two hundred characters.
    assert highest < 200_000_000


def test_a_limit_stops_what_is_below_it(uri):
    result = Reading(uri).run("match { $a: P $a knows $b $b knows $c } return { $a, $c } limit 3")
    assert result.to_arrow().num_rows == 3
    top = nodes_of(result.profile.root, Expand)[0]
    assert result.profile.of(top).rows < PEOPLE * 25


def test_batches_are_no_larger_than_requested(uri):
    reading = Reading(uri)
    reading.given = replace(reading.given, batch_rows=700)
    for query in (
        "match { $a: P } return { $a }",
        "match { $a: P } return { $a.key, count($a) as n }",
        "match { $a: P } return distinct { $a.key }",
    ):
        sizes = [batch.num_rows for batch in reading.run(query).batches()]
        assert max(sizes) <= 700
        assert sum(sizes) == PEOPLE


def test_an_empty_result_still_has_its_columns(uri):
    result = Reading(uri).run('match { $a: P {key: "nobody"} } return { $a.age, $a { name } as o }')
    assert result.schema.names == ["a.age", "o"]
    table = result.to_arrow()
    assert table.num_rows == 0
    assert table.schema == result.schema


def test_the_profile_has_the_shape_of_the_plan(uri):
    reading = Reading(uri)
    query = (
        "match { $a: P {age: 7} $a knows $b not { $b knows $c $c.age = 8 } "
        "optional { $b knows $d } } return { $a, count($d) as n } order { n } limit 4"
    )
    result = reading.run(query)
    table = result.to_arrow()
    step, plain = result.profile.step(), describe_node(result.profile.root)

    def same_shape(one, other) -> bool:
        return (
            one.operator == other.operator
            and len(one.children) == len(other.children)
            and all(same_shape(a, b) for a, b in zip(one.children, other.children, strict=True))
        )

    assert same_shape(step, plain)
    assert step.facts["rows"] == table.num_rows
    assert step.facts["milliseconds"] > 0
    scan = nodes_of(result.profile.root, NodeScan)[0]
    assert result.profile.of(scan).rows == len([i for i in range(PEOPLE) if i % 70 == 7])
    assert "rows" in step.wire()


def test_counted_paths_are_reported_as_the_rows_they_stand_for(uri):
    result = Reading(uri).run("match { $a knows $b $b knows $c } return { count($c) as n }")
    count = result.to_arrow().to_pylist()[0]["n"]
    assert result.profile.of(nodes_of(result.profile.root, Expand)[0]).rows == count
    assert count == PEOPLE * 25

"""Queries on Spark, as callers see them."""

from __future__ import annotations

import pytest
from click.testing import CliRunner

import omnigraph
from omnigraph.cli.commands.query_command import query
from omnigraph.errors import BadRequest, ParameterError

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  big: U64?
  note: String? @index
  place: Vector(2)?
}
edge Follows: Person -> Person { weight: F64? }
"""


@pytest.fixture(scope="module")
def graph(tmp_path_factory):
    """A chain of eight people, one of them following himself, two of them twice."""
    made = omnigraph.init(tmp_path_factory.mktemp("graphs") / "chain.omni", SCHEMA)
    people = [
        {
            "type": "Person",
            "data": {
                "name": f"p{n}",
                "age": None if n == 5 else n * 10,
                "big": 2**64 - 1 - n,
                "note": "amber fox" if n % 2 else "cedar",
                "place": [float(n), 0.0],
            },
        }
        for n in range(8)
    ]
    ends = [(n, n + 1) for n in range(7)] + [(3, 3), (0, 1)]
    links = [
        {
            "edge": "Follows",
            "from": f"p{a}",
            "to": f"p{b}",
            "data": {"id": f"e{n}", "weight": n / 2},
        }
        for n, (a, b) in enumerate(ends)
    ]
    made.load([*people, *links], "append")
    return made


QUERIES = {
    "hops": 'match { $a: Person { name: "p1" }  $a follows{1,3} $b } return { $b.name }',
    "far": 'match { $a: Person { name: "p0" }  $a follows{2,9} $b } return { $b.name }',
    "undirected": 'match { $a: Person { name: "p3" }  $a <follows> $b } return { $b.name }',
    "edges": "match { $a $e:follows $b } return { $a.name, $b.name, $e.weight }",
    "not": "match { $a: Person  not { $a follows $b } } return { $a.name }",
    "optional": (
        "match { $a: Person  optional { $a follows $b  $b.age > 50 } } return { $a.name, $b.name }"
    ),
    "groups": "match { $a follows $b } return { $b.name, count($a) as n, sum($a.age) as s }",
    "collect": "match { $a follows $b } return { collect($a.name) as names }",
    "ordered": "match { $a: Person } return { $a.name, $a.age } order { $a.age desc } limit 3",
    "slice": "match { $a: Person } return { $a.name, $a.big } limit 2 offset 3",
    "distinct": "match { $a: Person  $a follows{1,2} $b } return distinct { $b.note }",
    "objects": "match { $a: Person } return { $a { name, big, place } as who }",
}


@pytest.mark.parametrize("name", QUERIES)
def test_a_query_gives_what_the_embedded_executor_gives(spark, graph, name):
    text = f"query q() {{ {QUERIES[name]} }}"
    expected = graph.query(text)
    found = graph.query(text, engine="spark", session=spark)
    assert found.engine == "spark"
    assert found.columns == expected.columns
    assert found.to_arrow().schema == expected.to_arrow().schema
    assert found.rows == expected.rows, "in the same order, since every result has one"
    assert len(found.rows) > 0


def test_the_result_is_a_data_frame_too(spark, graph):
    text = "query q() { match { $a: Person } return { $a.name as n, $a.big as b } }"
    result = graph.query(text, engine="spark", session=spark)
    frame = result.to_spark()
    assert frame.columns == ["n", "b"]
    assert frame.where("n = 'p1'").collect()[0]["b"] == 2**64 - 2
    assert result.wire()["row_count"] == 8
    assert repr(result) == "SparkQueryResult('q', columns=['n', 'b'], engine='spark')"
    with pytest.raises(BadRequest, match="profiled by Spark"):
        result.profile()


@pytest.mark.parametrize(
    "tail",
    [
        "match { $a: Person } return { $a.name } order { nearest($a.place, [1.0, 0.1]) } limit 2",
        'match { $a: Person  search($a.note, "fox") } return { $a.name }',
    ],
)
def test_searches_run_in_the_driver(spark, graph, tail):
    text = f"query q() {{ {tail} }}"
    found = graph.query(text, engine="spark", session=spark)
    assert found.engine == "local"
    assert repr(found) == "SparkQueryResult('q', columns=['a.name'], engine='local')"
    assert found.rows == graph.query(text).rows
    assert found.to_spark().count() == len(found.rows)


def test_parameters_branches_and_commits_reach_spark(spark, graph):
    text = """
    query q($n: I32, $most: I64) {
      match { $a: Person  $a.age > $n } return { $a.name } limit $most
    }
    """
    found = graph.query(text, params={"n": 50, "most": 1}, engine="spark", session=spark)
    assert found.rows == [{"a.name": "p6"}]
    with pytest.raises(ParameterError, match="not negative"):
        graph.query(text, params={"n": 1, "most": -1}, engine="spark", session=spark)
    first = graph.at(version=1)
    everyone = "query q() { match { $a: Person } return { $a.name } }"
    assert first.query(everyone, engine="spark", session=spark).rows == []
    main = graph.branch("main")
    assert main.query(everyone, engine="spark", session=spark).rows == graph.query(everyone).rows


def test_a_sum_that_does_not_fit_is_refused(spark, graph):
    text = "query q() { match { $a: Person } return { sum_int($a.big) as s } }"
    with pytest.raises(BadRequest, match="sum_int"):
        graph.query(text)
    with pytest.raises(BadRequest, match=r"sum_int\(\): the sum exceeds \w+$"):
        graph.query(text, engine="spark", session=spark).to_arrow()


def test_an_unknown_engine_is_refused(graph):
    with pytest.raises(BadRequest, match="local, spark"):
        graph.query("query q() { match { $a: Person } return { $a.name } }", engine="fast")


def test_the_command_runs_on_spark(spark, graph):
    text = "query q() { match { $a: Person } return { count($a) as n } }"
    command = [graph.uri, "-e", text, "--engine", "spark", "--format", "jsonl"]
    done = CliRunner().invoke(query, command)
    assert done.exit_code == 0, done.output
    assert '"n":8' in done.stdout.replace(" ", "")

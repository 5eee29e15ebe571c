"""Small graphs and queries on which some engine once differed, as regression tests."""

from __future__ import annotations

import json
from dataclasses import dataclass

import pytest

from differential.data import read_records
from differential.difference_report import describe
from differential.engine import open_copy, problems_of
from differential.generate import GraphCase, ask
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_catalog

TWO_KINDS = """
interface Thing { name: String }
node Alpha implements Thing { key: String @key  ratio: F32? }
node Beta implements Thing { key: String @key }
edge PartOf: Alpha -> Beta
edge FollowsUp: Beta -> Alpha
edge Knows: Alpha -> Alpha
"""
FEW_NODES = """
{"type": "Alpha", "data": {"key": "x", "name": "first", "ratio": 0.1}}
{"type": "Alpha", "data": {"key": "y", "name": "second", "ratio": -0.0}}
{"type": "Alpha", "data": {"key": "z", "name": "third", "ratio": 0.0}}
{"type": "Beta", "data": {"key": "x", "name": "other"}}
{"edge": "PartOf", "from": "x", "to": "x", "data": {"id": "e1"}}
{"edge": "Knows", "from": "x", "to": "y", "data": {"id": "e1"}}
{"edge": "Knows", "from": "y", "to": "y", "data": {"id": "e2"}}
{"edge": "Knows", "from": "y", "to": "z", "data": {"id": "e3"}}
"""


@dataclass(frozen=True)
class Found:
    title: str
    query: str
    schema: str = TWO_KINDS
    contents: str = FEW_NODES

    def __str__(self) -> str:
        return self.title


FOUND = (
    Found(
        "a block that wants another type of its outer variable",
        """query q() {
             match { $a: Thing  optional { $a followsUp $b }  $a partOf $c }
             return { $a, $b }
           }""",
    ),
    Found(
        "the same in a negation",
        """query q() {
             match { $a: Thing  not { $a followsUp $b }  $a partOf $c }
             return { $a }
           }""",
    ),
    Found(
        "nodes of two types with one id",
        "query q() { match { $a: Thing  $b: Thing  $a = $b } return { $a, type($b) } }",
    ),
    Found(
        "a self loop counts where the walk begins",
        """query q() {
             match { $a: Alpha  $b knows{2,2} $a  $b: Alpha { key: "y" } }
             return { $a, $b }
           }""",
    ),
    Found(
        "both zeros are one value",
        "query q() { match { $a: Alpha } return { $a.ratio, count($a) as n } }",
    ),
    Found(
        "both zeros are level in an order",
        "query q() { match { $a: Alpha } return { $a } order { $a.ratio desc, $a.name desc } }",
    ),
    Found(
        "the smallest of two zeros, and the different ones",
        """query q() {
             match { $a: Alpha  $a.ratio < 0.05 }
             return { min($a.ratio) as low, max($a.ratio) as high, count(distinct $a.ratio) as n }
           }""",
    ),
    Found(
        "a distinct zero",
        "query q() { match { $a: Alpha } return distinct { $a.ratio } }",
    ),
    Found(
        "a written list is rounded to the floats it is compared with",
        "query q() { match { $a: Alpha  [0.1] contains $a.ratio } return { $a } }",
    ),
    Found(
        "groups come in the order of their keys, however they were found",
        """query q() {
             match { $a: Alpha  $a knows $b }
             return { $b.name, count($a) as n }
             limit 1
           }""",
    ),
)


def graph_of(found: Found) -> GraphCase:
    catalog = compile_catalog(SourceText(found.schema, "schema.pg"))
    records = tuple(json.loads(line) for line in found.contents.strip().splitlines())
    return GraphCase(0, found.schema, records, catalog, read_records(catalog, records))


@pytest.mark.parametrize("found", FOUND, ids=str)
def test_found_differences_do_not_return(found, tmp_path):
    graph = graph_of(found)
    case = ask(graph, found.query, {})
    engine = open_copy(graph, tmp_path)
    for _ in ("cold", "warm"):
        problem = problems_of(engine, graph, case)
        assert problem is None, describe(graph, case, None, problem)

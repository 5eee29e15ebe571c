"""Patterns that come back to a node they have bound, on a graph dense enough to have many."""

from __future__ import annotations

import random
from collections import Counter

import pytest

from execution.read.query_runner import Reading, make_graph
from omnigraph.execution.read.read_context import TraversalMethod

SCHEMA = "node Dot { name: String @key  weight: F64? }\nedge To: Dot -> Dot"
DOTS, EDGES, SEED = 120, 3_000, 5


@pytest.fixture(scope="module")
def edges() -> set[tuple[str, str]]:
    draw = random.Random(SEED)
    print(f"seed {SEED}")
    names = [f"d{number}" for number in range(DOTS)]
    return {(draw.choice(names), draw.choice(names)) for _ in range(EDGES)}


@pytest.fixture(scope="module")
def uri(edges, tmp_path_factory) -> str:
    path = tmp_path_factory.mktemp("dots") / "dots.omni"
    draw = random.Random(SEED)
    nodes = [{"name": f"d{number}", "weight": draw.random()} for number in range(DOTS)]
    records: list[dict[str, object]] = [{"type": "Dot", "data": node} for node in nodes]
    records += [{"edge": "To", "from": source, "to": target} for source, target in sorted(edges)]
    make_graph(path, SCHEMA, records)
    return str(path)


@pytest.fixture(params=list(TraversalMethod), ids=str)
def dots(uri, request) -> Reading:
    return Reading(uri, request.param)


def test_triangles_are_counted_by_their_first_node(dots, edges):
    expected = Counter(
        a
        for a, b in edges
        for c in {target for source, target in edges if source == b}
        if (a, c) in edges
    )
    query = "match { $a to $b  $b to $c  $a to $c } return { $a, count($c) as n }"
    assert dict(dots.tuples(query)) == expected


def test_mutual_pairs_are_found_from_either_end(dots, edges):
    expected = sorted((a, b) for a, b in edges if (b, a) in edges)
    assert dots.tuples("match { $a to $b  $b to $a } return { $a, $b }") == expected


def test_a_sum_of_fractions_has_the_same_last_digit_by_every_way(uri):
    query = "match { $a to $b  $b to $c } return { sum($a.weight) as s, avg($c.weight) as m }"
    found = {tuple(Reading(uri, way).tuples(query)[0]) for way in TraversalMethod}
    assert len(found) == 1

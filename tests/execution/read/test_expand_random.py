"""Every strategy finds what a walk over single rows finds."""

from __future__ import annotations

from collections import Counter

from hypothesis import given, settings
from hypothesis import strategies as st

from execution.read.naive_traversal import SmallGraph
from execution.read.query_runner import Reading
from execution.read.random_graphs import opened, small_graphs
from omnigraph.plan.plan_nodes import Expand
from omnigraph.plan.walk import list_children

WORDS = {("Likes",): "likes", ("Knows",): "knows", ("Likes", "Knows"): "likes|knows"}
EXAMPLES = settings(max_examples=20)


@st.composite
def ways(draw) -> tuple[tuple[str, ...], str, int, int]:
    minimum = draw(st.integers(1, 3))
    return (
        draw(st.sampled_from(sorted(WORDS))),
        draw(st.sampled_from(["out", "both"])),
        minimum,
        draw(st.integers(minimum, 4)),
    )


def written(types: tuple[str, ...], direction: str) -> str:
    return WORDS[types] if direction == "out" else f"<{WORDS[types]}>"


def expansions(reading: Reading, query: str) -> list[Expand]:
    waiting, found = [reading.plan(query).root], []
    while waiting:
        node = waiting.pop()
        found += [node] if isinstance(node, Expand) else []
        waiting += list_children(node)
    return found


@EXAMPLES
@given(small_graphs(), st.lists(ways(), min_size=1, max_size=4))
def test_bounded_ways_from_every_node(drawn, asked):
    graph, gone = drawn
    with opened(graph, gone) as readings:
        for types, direction, minimum, maximum in asked:
            way = f"{written(types, direction)}{{{minimum},{maximum}}}"
            query = f"match {{ $a: N $a {way} $x hops $h }} return {{ $a, $x, $h }}"
            expected = graph.rows(types, direction, minimum, maximum)
            for reading in readings:
                assert reading.tuples(query) == expected, (reading.traversal, query)


@EXAMPLES
@given(small_graphs(), st.lists(ways(), min_size=1, max_size=3))
def test_ways_that_are_walked_from_their_end(drawn, asked):
    graph, gone = drawn
    with opened(graph, gone) as readings:
        for types, direction, minimum, maximum in asked:
            way = f"{written(types, direction)}{{{minimum},{maximum}}}"
            for end in graph.nodes[:2]:
                query = (
                    f'match {{ $a: N $a {way} $x hops $h $x.key = "{end}" }} '
                    "return { $a, $x, $h }"
                )
                if maximum > 1:
                    assert all(e.asked_from_target for e in expansions(readings[0], query))
                expected = graph.rows(types, direction, minimum, maximum)
                for reading in readings:
                    found = reading.tuples(query)
                    assert found == [row for row in expected if row[1] == end], reading.traversal


@EXAMPLES
@given(small_graphs(), ways(), ways())
def test_ways_between_bound_nodes(drawn, first, second):
    graph, gone = drawn
    one, other = (f"{written(w[0], w[1])}{{{w[2]},{w[3]}}}" for w in (first, second))
    reached = {(a, b) for a, b, _ in graph.rows(*first)}
    there = [row for row in graph.rows(*second) if row[:2] in reached]
    back = sorted((a, b, h) for b, a, h in graph.rows(*second) if (a, b) in reached)
    with opened(graph, gone) as readings:
        for closing, expected in ((f"$a {other} $b", there), (f"$b {other} $a", back)):
            query = f"match {{ $a: N $a {one} $b {closing} hops $h }} return {{ $a, $b, $h }}"
            assert any(e.closes for e in expansions(readings[0], query))
            for reading in readings:
                assert reading.tuples(query) == expected, (reading.traversal, query)


def bound_edges(graph: SmallGraph, types, direction: str) -> list[tuple[str, str, str]]:
    return sorted((a, e.id, b) for a, e, b in graph.followed(types, direction))


@EXAMPLES
@given(small_graphs(), st.sampled_from(sorted(WORDS)), st.sampled_from(["out", "both"]))
def test_bound_edges_come_one_by_one(drawn, types, direction):
    graph, gone = drawn
    word = written(types, direction)
    expected = bound_edges(graph, types, direction)
    weights = {edge.id: edge.weight for edges in graph.edges.values() for edge in edges}
    heavy = [row for row in expected if (weights[row[1]] or 0) > 1]
    shown = "return { $a, $w.id, $x } order { $a, $w.id, $x }"
    both_ways = Counter((a, b) for a, _, b in expected)
    with opened(graph, gone) as readings:
        for reading in readings:
            query = f"match {{ $a: N $a $w:{word} $x }} {shown}"
            assert reading.tuples(query) == expected, reading.traversal
            query = f"match {{ $a: N $a $w:{word} $x $w.weight > 1 }} {shown}"
            assert reading.tuples(query) == heavy, reading.traversal
            counted = "return { $a, $x, count($w.id) as n } order { $a, $x }"
            query = f"match {{ $a: N $x: N $a $w:{word} $x }} {counted}"
            assert reading.tuples(query) == sorted((a, b, n) for (a, b), n in both_ways.items())


@EXAMPLES
@given(small_graphs(), st.sampled_from(["out", "both"]))
def test_paths_are_counted_without_being_listed(drawn, direction):
    graph, gone = drawn
    types, word = ("Likes",), written(("Likes",), direction)
    hop = {
        a: sorted({b for x, b, _ in graph.rows(types, direction, 1, 1) if x == a})
        for a in graph.nodes
    }
    paths = [(a, b, c) for a in graph.nodes for b in hop[a] for c in hop[b]]
    chain = f"match {{ $a: N $a {word} $b $b {word} $c }} return"
    with opened(graph, gone) as readings:
        for reading in readings:
            assert reading.rows(f"{chain} {{ count($c) as n }}") == [{"n": len(paths)}]
            by_end = Counter(c for *_, c in paths)
            query = f"{chain} {{ $c, count($a) as n }} order {{ $c }}"
            assert reading.tuples(query) == sorted(by_end.items())
            query = f"{chain} {{ $a, count(distinct $c) as n }} order {{ $a }}"
            ends = {a: {c for x, _, c in paths if x == a} for a, *_ in paths}
            assert reading.tuples(query) == sorted((a, len(found)) for a, found in ends.items())
            query = f"{chain} {{ $b.age, sum($a.age) as s }} order {{ $b.age }}"
            ages = {name: len(name) + int(name[1:]) for name in graph.nodes}
            total: Counter[int] = Counter()
            for a, b, _ in paths:
                total[ages[b]] += ages[a]
            assert reading.tuples(query) == sorted((age, float(s)) for age, s in total.items())
            assert reading.tuples(f"{chain} {{ $a, $b, $c }}") == sorted(paths)
            assert reading.tuples(f"{chain} distinct {{ $c, $a }}") == sorted(
                {(c, a) for a, _, c in paths}
            )


@EXAMPLES
@given(small_graphs(), ways(), ways())
def test_nested_blocks_agree_with_rows(drawn, first, second):
    graph, gone = drawn
    one, other = (f"{written(w[0], w[1])}{{{w[2]},{w[3]}}}" for w in (first, second))
    reached = {a: sorted(b for x, b, _ in graph.rows(*first) if x == a) for a in graph.nodes}
    further = {a: sorted(b for x, b, _ in graph.rows(*second) if x == a) for a in graph.nodes}
    with opened(graph, gone) as readings:
        for reading in readings:
            query = f"match {{ $a: N not {{ $a {one} $x }} }} return {{ $a }}"
            assert reading.column(query) == [a for a in sorted(graph.nodes) if not reached[a]]
            query = (
                f"match {{ $a: N not {{ $a {one} $x not {{ $x {other} $a }} }} }} return {{ $a }}"
            )
            expected = [a for a in sorted(graph.nodes) if all(a in further[x] for x in reached[a])]
            assert reading.column(query) == expected
            parts = f"optional {{ $a {one} $x }} optional {{ $x {other} $y }}"
            query = f"match {{ $a: N {parts} }} return {{ $a, $x, $y }}"
            assert reading.tuples(query) == [
                (a, x, y)
                for a in sorted(graph.nodes)
                for x in reached[a] or [None]
                for y in (further[x] if x is not None else []) or [None]
            ]
            counted = "return { $a, count($x) as n } order { $a }"
            query = f"match {{ $a: N optional {{ $a {one} $x }} }} {counted}"
            assert reading.tuples(query) == [(a, len(reached[a])) for a in sorted(graph.nodes)]

"""The engine against the interpreter: random graphs, random queries, every way to run them.

`DIFFERENTIAL_SEED` moves the seeds of the default run, so that other graphs can be tried.
"""

from __future__ import annotations

import os
from collections import Counter

import pytest

from differential.engine import open_copy, problems_of
from differential.generate import make_graph, make_query
from differential.report import describe

FIRST = int(os.environ.get("DIFFERENTIAL_SEED", "0"))
SEEDS = range(FIRST, FIRST + 40)
QUERIES = 55
MANY_SEEDS = range(FIRST + 10_000, FIRST + 10_000 + 900)
MANY_QUERIES = 56

CONSTRUCTS = (
    *("binding", "interface binding", "inline match", "traversal", "hops", "undirected"),
    *("edge variable", "hop variable", "alternatives", "anonymous end", "negation"),
    *("block in a negation", "optional", "filter", "and", "or", "not", "membership", "nulltest"),
    *("search", "match_text", "fuzzy", "bm25", "nearest", "rrf", "type", "now", "object"),
    *("count", "count distinct", "sum", "sum_int", "avg", "min", "max"),
    *("collect", "collect distinct", "distinct", "order", "limit", "offset", "parameters"),
)
LEAST_SHARE_WITH_ROWS = 0.6

seen: Counter[str] = Counter()
seeds_seen: set[int] = set()


def compare(seed: int, queries: int, place) -> None:
    """Run the queries of one graph, and stop at the first that differs."""
    graph = make_graph(seed)
    engine = open_copy(graph, place)
    for number in range(queries):
        case = make_query(graph, number)
        problem = problems_of(engine, graph, case)
        assert problem is None, describe(graph, case, number, problem)
        seen.update(case.constructs)
        seen["queries"] += 1
        seen["with rows"] += case.answer is None or case.answer.count > 0
    seeds_seen.add(seed)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_queries_have_the_rows_they_should(seed, tmp_path):
    compare(seed, QUERIES, tmp_path)


def test_the_random_queries_use_the_whole_language(capsys):
    """Says what the queries above were made of; says nothing when only some of them ran."""
    if seeds_seen != set(SEEDS):
        pytest.skip("not all seeds ran in this process")
    share = seen["with rows"] / seen["queries"]
    with capsys.disabled():
        print(f"\nseeds {SEEDS.start} to {SEEDS.stop - 1}: {seen['queries']} queries,", end=" ")
        print(f"{share:.0%} with rows; constructs:")
        print("  " + ", ".join(f"{name} {seen[name]}" for name in CONSTRUCTS))
    assert share >= LEAST_SHARE_WITH_ROWS
    assert not [name for name in CONSTRUCTS if seen[name] < 5]


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY_SEEDS)
def test_many_more_random_queries_have_the_rows_they_should(seed, tmp_path):
    compare(seed, MANY_QUERIES, tmp_path)

"""The engine against the interpreter: random graphs, random queries, every way to run them.

`DIFFERENTIAL_SEED` moves the seeds, so that other graphs can be tried.
"""

from __future__ import annotations

import os

import pytest

from differential import coverage
from differential.difference_report import describe
from differential.engine import open_copy, problems_of
from differential.generate import make_graph, make_query
from differential.small_thresholds import make_tiny

FIRST = int(os.environ.get("DIFFERENTIAL_SEED", "0"))
SEEDS, QUERIES = range(FIRST, FIRST + 36), 56
TINY_SEEDS, TINY_QUERIES = range(FIRST + 5_000, FIRST + 5_008), 25
MANY_SEEDS, MANY_QUERIES = range(FIRST + 10_000, FIRST + 10_900), 56
LEAST_SHARE_WITH_ROWS = 0.6


def compare(seed: int, queries: int, place) -> None:
    """Run the queries of one graph and stop at the first that differs.

    Each runs with look-ups, with adjacencies, and with what the engine chooses itself.
    """
    print(f"seed {seed}: replay one with `python -m differential.replay {seed} NUMBER`")
    graph = make_graph(seed)
    engine = open_copy(graph, place)
    for number in range(queries):
        case = make_query(graph, number)
        problem = problems_of(engine, graph, case)
        assert problem is None, describe(graph, case, number, problem)


@pytest.mark.parametrize("seed", SEEDS)
def test_random_queries_have_the_rows_they_should(seed, tmp_path):
    compare(seed, QUERIES, tmp_path)


@pytest.mark.parametrize("seed", TINY_SEEDS)
def test_they_have_them_too_where_small_tables_count_as_large(seed, tmp_path, monkeypatch):
    """Replay what fails here with `--tiny`."""
    make_tiny(monkeypatch)
    compare(seed, TINY_QUERIES, tmp_path)


def test_the_random_queries_use_the_whole_language():
    used = coverage.count(SEEDS, QUERIES)
    print(coverage.describe(used, SEEDS))
    assert used[coverage.WITH_ROWS] >= LEAST_SHARE_WITH_ROWS * used[coverage.QUERIES]
    assert not [name for name in coverage.CONSTRUCTS if used[name] < 5]


@pytest.mark.slow
@pytest.mark.parametrize("seed", MANY_SEEDS)
def test_many_more_random_queries_have_the_rows_they_should(seed, tmp_path):
    compare(seed, MANY_QUERIES, tmp_path)

"""Random queries give the same rows with data frames as with the embedded executor."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import count

import pytest

from differential.compare_engines import difference
from differential.difference_report import describe
from differential.engine import Engine, open_copy, wrong_types
from differential.generate import GraphCase, QueryCase, make_graph, make_query
from differential.interpreter import NOW
from differential.plan_variants import counted
from omnigraph.errors import BadRequest
from omnigraph.execution.read.read_context import Given
from omnigraph.pipeline.spark_executor import is_search_plan, run_plan
from omnigraph.pipeline.spark_output import SparkRead
from omnigraph.types.to_json import encode_rows

QUERIES = 10
FEW_SEEDS, ALL_SEEDS = range(2), range(2, 30)


def cases(graph: GraphCase) -> Iterator[tuple[int, QueryCase]]:
    """The first queries of a graph that data frames are for."""
    found = 0
    for number in count():
        case = make_query(graph, number)
        if not is_search_plan(counted(case.plan, graph.catalog, graph.data)):
            yield number, case
            found += 1
            if found == QUERIES:
                return


def problem_of(spark, engine: Engine, graph: GraphCase, case: QueryCase) -> str | None:
    """Return how the rows differ from the expected ones and from those of the embedded executor."""
    plan = counted(case.plan, graph.catalog, graph.data)
    given = Given(case.values, NOW)
    view = engine.view
    try:
        table = SparkRead(
            plan, run_plan(plan, view.snapshot, view.catalog, given, spark)
        ).to_arrow()
    except BadRequest as refused:
        return None if case.answer is None else f"refused: {refused}"
    rows = encode_rows(table)
    if case.answer is None:
        return "accepted, although the sum does not fit its type" if rows else None
    _, embedded = engine.run(plan, case.values)
    problem = wrong_types(table.schema, plan) or difference(case.answer, rows)
    if problem is None and len(rows) != len(embedded):
        return f"{len(rows)} rows instead of {len(embedded)}"
    return problem


def compare(spark, seed: int, place) -> None:
    print(f"seed {seed}")
    graph = make_graph(seed)
    engine = open_copy(graph, place)
    for number, case in cases(graph):
        problem = problem_of(spark, engine, graph, case)
        assert problem is None, describe(graph, case, number, problem)


@pytest.mark.parametrize("seed", FEW_SEEDS)
def test_random_queries_have_the_rows_they_should(spark, tmp_path, seed):
    compare(spark, seed, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("seed", ALL_SEEDS)
def test_all_random_queries_have_the_rows_they_should(spark, tmp_path, seed):
    compare(spark, seed, tmp_path)

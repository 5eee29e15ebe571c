"""Random plans mean the same before and after the rules: both are run by brute force."""

from __future__ import annotations

import pytest

from differential.compare_engines import difference
from differential.difference_report import describe
from differential.generate import QueryCase, make_graph, make_query
from differential.interpreter import Answer, interpret
from differential.matching import TooManyRows
from differential.model_evaluation import exact
from differential.plan_variants import VARIANTS

SEEDS = range(20)
QUERIES = 25


@pytest.mark.parametrize("seed", SEEDS)
def test_the_rules_keep_the_meaning_of_a_plan(seed):
    graph = make_graph(seed)
    for number in range(QUERIES):
        case = make_query(graph, number)
        if case.answer is None:
            continue
        for variant in VARIANTS:
            problem = changed_meaning(variant(case.plan, graph.catalog, graph.data), graph, case)
            shown = describe(graph, case, number, f"{variant.__name__}: {problem}")
            assert problem is None, shown


@pytest.mark.parametrize("seed", SEEDS)
def test_a_column_that_is_never_null_has_no_nulls(seed):
    graph = make_graph(seed)
    for number in range(QUERIES):
        case = make_query(graph, number)
        rows = [row for group in case.answer.groups for row in group] if case.answer else []
        required = [column.name for column in case.plan.columns if not column.type.nullable]
        missing = [name for row in rows for name in required if row[name] is None]
        assert not missing, describe(graph, case, number, f"NULL in {missing[0]}")


def changed_meaning(plan, graph, case: QueryCase) -> str | None:
    """Return how the rows of a plan differ from the answer, ignoring a limit."""
    try:
        found = interpret(plan, graph.data, graph.catalog, case.values, most_rows=30_000)
    except TooManyRows:
        return None
    rows = [{name: exact(value) for name, value in row.items()} for g in found.groups for row in g]
    whole = Answer(case.answer.columns, case.answer.groups, signed_zeros=False)
    return difference(whole, rows)

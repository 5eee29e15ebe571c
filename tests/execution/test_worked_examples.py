"""Every worked example, through the naive interpreter and through the engine."""

from __future__ import annotations

import pytest

import omnigraph
from differential.engine import open_engine
from differential.interpreter import Answer, interpret
from differential.plan_variants import VARIANTS
from execution.worked_examples import (
    CONTENTS,
    RUNS,
    SCHEMA,
    bound,
    catalog,
    check,
    contents,
    embedder,
    expect,
    in_any_order,
    is_ordered,
    parameters_of,
    unsafe_integers_back,
)
from omnigraph.execution.read.read_context import BATCH_ROWS


@pytest.fixture(scope="module")
def engine(tmp_path_factory):
    place = tmp_path_factory.mktemp("music") / "music.omni"
    omnigraph.init(place, SCHEMA).load(CONTENTS.encode(), "append")
    return open_engine(place)


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.title)
def test_the_interpreter_gives_the_expected_rows(run):
    def answered() -> None:
        plan = bound(run, catalog())
        answer = interpret(
            plan, contents(), catalog(), parameters_of(run, plan), embed=embedder(run.model)
        )
        expected = [unsafe_integers_back(row) for row in run.rows] if run.javascript else run.rows
        check(answer if is_ordered(plan.root) else in_any_order(answer), expected)

    expect(run, answered)


@pytest.mark.parametrize("batch_rows", [1, BATCH_ROWS], ids=["row by row", "at once"])
@pytest.mark.parametrize("variant", VARIANTS, ids=lambda variant: variant.__name__)
@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.title)
def test_the_engine_gives_the_expected_rows(run, variant, batch_rows, engine):
    def answered() -> None:
        plan = bound(run, engine.view.catalog)
        _, rows = engine.run(
            variant(plan, engine.view.catalog, contents()),
            parameters_of(run, plan),
            embed=embedder(run.model),
            javascript=run.javascript,
            batch_rows=batch_rows,
        )
        answer = Answer(plan.columns, [[row] for row in run.rows])
        check(answer if is_ordered(plan.root) else in_any_order(answer), rows)

    expect(run, answered)

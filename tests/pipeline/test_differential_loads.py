"""Random loads end the same way through the small path, the inline tasks and Spark."""

from __future__ import annotations

import pytest

import omnigraph
from pipeline.engines import outcome
from pipeline.random_loads import MODES, SCHEMA, Inputs


@pytest.fixture(scope="module")
def templates(tmp_path_factory):
    """Graphs to start from, made once for each variant."""
    folder = tmp_path_factory.mktemp("templates")
    made = {}

    def template(variant: int):
        if variant not in made:
            place = folder / f"{variant}.omni"
            graph = omnigraph.init(place, SCHEMA)
            if variant:
                graph.load(Inputs(variant).whole_graph(), "append")
            made[variant] = place
        return made[variant]

    return template


def compare(templates, tmp_path, seed: int, engines: tuple[str, ...]) -> str:
    inputs = Inputs(seed)
    data, mode = inputs.lines().encode(), MODES[seed % 3]
    template = templates(seed % 5)
    ended = {
        engine: outcome(template, tmp_path / f"{seed}-{engine}", data, mode, engine)
        for engine in engines
    }
    first = ended[engines[0]]
    for engine in engines[1:]:
        assert ended[engine] == first, f"seed {seed}, mode {mode}, {engine}:\n{data.decode()}"
    return "loaded" if first.error is None else first.error[0]


@pytest.mark.parametrize("block", range(4))
def test_inline_tasks_do_what_the_small_path_does(templates, tmp_path, block):
    ends = [
        compare(templates, tmp_path, seed, ("small", "inline"))
        for seed in range(block * 40, block * 40 + 40)
    ]
    assert ends.count("loaded") >= 5, ends
    assert {"rules", "key"} <= set(ends), ends


def test_spark_does_what_the_small_path_does(templates, tmp_path, spark):
    ends = [compare(templates, tmp_path, seed, ("small", "spark")) for seed in range(160, 200)]
    assert ends.count("loaded") >= 5, ends


@pytest.mark.fuzz
def test_a_long_run_of_random_loads_ends_the_same_way(templates, tmp_path, spark):
    for seed in range(1000, 6000):
        engines = ("small", "inline", "spark") if seed % 10 == 0 else ("small", "inline")
        compare(templates, tmp_path, seed, engines)

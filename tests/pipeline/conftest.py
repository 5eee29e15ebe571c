"""One small Spark session for all tests of a process, and graphs to load into."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from omnigraph.pipeline.session import spark as make_session
from pipeline.random_loads import SCHEMA, Inputs

SPARK_CONF = {
    "spark.master": "local[2,4]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
    # Kernels that fail on purpose are among the tests.
    "spark.executorEnv.PYTHONPATH": str(Path(__file__).parents[1]),
}


@pytest.fixture(scope="session")
def spark():
    """Two cores, four attempts; started once, since starting takes longer than any test."""
    session = make_session(conf=SPARK_CONF)
    yield session
    session.stop()


@pytest.fixture(scope="session")
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


@pytest.fixture
def new_graph(tmp_path):
    """A function that makes an empty graph with a schema."""
    made = []

    def make(schema: str):
        made.append(omnigraph.init(tmp_path / f"graph-{len(made)}.omni", schema))
        return made[-1]

    return make

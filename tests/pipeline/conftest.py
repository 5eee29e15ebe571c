"""Graphs to load into."""

from __future__ import annotations

import pytest

import omnigraph
from pipeline.random_loads import SCHEMA, Inputs


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

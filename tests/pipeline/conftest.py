"""Graphs to load into."""

from __future__ import annotations

import pytest

import omnigraph
from pipeline.random_loads import PAIRED_SCHEMA, SCHEMA, Inputs


@pytest.fixture(scope="session")
def templates(tmp_path_factory):
    """Graphs to start from, made once for each variant."""
    return _templates(tmp_path_factory.mktemp("templates"), SCHEMA, paired=False)


@pytest.fixture(scope="session")
def paired_templates(tmp_path_factory):
    """The templates with the larger schema."""
    return _templates(tmp_path_factory.mktemp("paired"), PAIRED_SCHEMA, paired=True)


def _templates(folder, schema: str, *, paired: bool):
    made = {}

    def template(variant: int):
        if variant not in made:
            place = folder / f"{variant}.omni"
            graph = omnigraph.init(place, schema)
            if variant:
                graph.load(Inputs(variant, paired=paired).whole_graph(), "append")
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

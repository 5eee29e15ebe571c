"""Applying a schema equals exporting, converting by hand and loading into a new graph."""

from __future__ import annotations

import random

import pytest

import omnigraph
from evolution.library import files_below
from evolution.random_schemas import Edit, World, make_world
from omnigraph.errors import ConstraintViolated

SHARE = 12
MANY = 400


def exported(graph):
    """Every record without the ids of edges, which are made up."""
    found = []
    for record in graph.export():
        data = dict(record["data"])
        data.pop("id")
        found.append({**record, "data": data})
    return sorted(found, key=repr)


def loaded(place, world: World):
    graph = omnigraph.init(place, world.schema(hints=False))
    graph.load(world.records(), "append")
    return graph


def run_history(folder, seed):
    """Change the schema of a graph a few times."""
    dice = random.Random(seed)
    world = make_world(dice)
    graph = loaded(folder / "graph", world)
    for number in range(3):
        edit = Edit(world, dice)
        wanted = edit.world()
        if edit.breaks:
            files = files_below(folder / "graph")
            with pytest.raises(ConstraintViolated):
                graph.apply_schema(wanted.schema())
            assert files_below(folder / "graph") == files
            continue
        graph.apply_schema(wanted.schema())
        other = loaded(folder / f"other{number}", wanted)
        assert exported(graph) == exported(other)
        here, there = (g._open.views.read_newest("main").snapshot for g in (graph, other))
        for key in there.entries:
            assert here.table(key).schema.equals(there.table(key).schema), key
        if dice.random() < 0.3:
            graph.optimize()
        assert graph.verify(deep=True).findings == ()
        world = wanted
        if dice.random() < 0.5:
            graph.load(world.records(), "merge" if not world.links else "overwrite")
            assert exported(graph) == exported(other)


@pytest.mark.parametrize("number", range(SHARE))
def test_an_apply_gives_what_converting_by_hand_gives(tmp_path, number):
    seed = random.randrange(10**9)
    print(f"seed {seed}, run {number}")
    run_history(tmp_path, seed)


@pytest.mark.fuzz
@pytest.mark.slow
@pytest.mark.parametrize("number", range(MANY))
def test_many_applies_give_what_converting_by_hand_gives(tmp_path, number):
    seed = random.randrange(10**9)
    print(f"seed {seed}, run {number}")
    run_history(tmp_path, seed)

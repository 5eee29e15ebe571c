"""Processes that fall asleep before a step, lose their lease, and take the step late.

With the fence off, a process is kept from what others do as little as by a lease that it lost.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from crash.windows import MANIFEST, At, Stopped, stop, watched
from evolution.beside import run_apart
from omnigraph.graph.graph import Graph
from omnigraph.settings import FenceMode, Settings
from trust.test_clocks import SCHEMA, make_people, names

CITIES = f"{SCHEMA} node City {{ name: String @key }}"
CITY_NAMES = "query q() { match { $p: City } return { $p.name } }"

OPENS = """
import sys
from pathlib import Path
from trust.test_late_steps import CITIES, open_late

graph = open_late(Path(sys.argv[1]))
"""


def open_late(place: Path) -> Graph:
    return omnigraph.open(place, settings=Settings(writer_fence=FenceMode.OFF))


def others_do(place: Path, script: str) -> str:
    """What another process does from beginning to end, while this one sleeps."""
    return run_apart(OPENS + script, place)


APPLY_AGAIN = """
graph.recover()
graph.apply_schema(CITIES)
graph.mutate('query q() { insert City { name: "Bern" } }')
"""


def test_a_late_removal_of_a_new_table_does_not_meet_one_that_was_made_since(tmp_path):
    place = make_people(tmp_path)
    with watched(At("before", "commit", MANIFEST, stop)), pytest.raises(Stopped):
        open_late(place).apply_schema(CITIES)
    sleep = At("before", "delete_prefix", "nodes/*", lambda: others_do(place, APPLY_AGAIN))
    with watched(sleep):
        open_late(place).recover()
    assert sleep.met == 1
    with omnigraph.open(place) as graph:
        assert {row["p.name"] for row in graph.query(CITY_NAMES).rows} == {"Bern"}
        assert names(graph) == {"Ada", "Ben", "Cy"}
        assert graph.verify(deep=True).findings == ()


def test_every_attempt_to_add_a_type_has_a_place_of_its_own(tmp_path):
    place = make_people(tmp_path)
    made = []
    for _ in range(2):
        at = At("before", "commit", MANIFEST, stop)
        with watched(at), pytest.raises(Stopped):
            open_late(place).apply_schema(CITIES)
        made.append({path.name for path in (place / "nodes").iterdir()})
        omnigraph.open(place).recover()
    assert len(set.union(*made)) == 1 + len(made)


def test_a_plan_of_new_types_is_the_same_every_time(tmp_path):
    graph = omnigraph.open(make_people(tmp_path))
    assert graph.plan_schema(CITIES) == graph.plan_schema(CITIES)

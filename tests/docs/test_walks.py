"""Ceilings on the modules a warm operation enters and on the calls around its effects."""

from __future__ import annotations

import importlib.util
import re
import sys
from collections.abc import Callable
from pathlib import Path
from types import FrameType

import pytest

import omnigraph

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
INSERT = 'query q() { insert Person { name: "Cy" } }'
QUERY = 'query q() { match { $p: Person { name: "Ada" }  $p knows $f } return { $f.name } }'
RECORDS = [{"type": "Person", "data": {"name": "Di"}}, {"edge": "Knows", "from": "Di", "to": "Ada"}]

WALKS = {
    "insert": (lambda graph: graph.mutate(INSERT), 60),
    "query": (lambda graph: graph.query(QUERY), 52),
    "load": (lambda graph: graph.load(RECORDS, "merge"), 64),
}
PAGE = Path(__file__).parents[2] / "docs" / "internals" / "architecture.md"
MAX_STATIONS = 12
MAX_WRAPPINGS = 8
"""Calls between `graph.mutate` and an effect."""
EFFECTS = {
    "statements": ("execution.mutate", "run_mutation"),
    "publish": ("storage.publish", "publish"),
}


@pytest.fixture
def graph(tmp_path):
    """Open and warm: every module was imported and every cache was filled once."""
    made = omnigraph.init(tmp_path / "people.omni", SCHEMA)
    people = [{"type": "Person", "data": {"name": name}} for name in ("Ada", "Ben")]
    made.load([*people, {"edge": "Knows", "from": "Ada", "to": "Ben"}], "append")
    made.mutate('query q() { insert Person { name: "Bo" } }')
    made.query(QUERY)
    return made


def profile(walk: Callable[[], object], entered: Callable[[str, FrameType], None]) -> None:
    """Call `entered` with the module of each function of the package that this thread enters."""

    def call(frame, event, argument):
        if event == "call" and (module := find_module(frame)):
            entered(module, frame)

    before = sys.getprofile()
    sys.setprofile(call)
    try:
        walk()
    finally:
        sys.setprofile(before)


def find_module(frame: FrameType) -> str | None:
    name = frame.f_globals.get("__name__", "")
    return name.removeprefix("omnigraph.") if name.startswith("omnigraph.") else None


@pytest.mark.parametrize("name", WALKS)
def test_a_warm_operation_enters_few_modules(graph, name):
    walk, most = WALKS[name]
    found: dict[str, None] = {}
    profile(lambda: walk(graph), lambda module, _: found.setdefault(module))
    assert len(found) <= most, f"{name} enters {len(found)} modules:\n" + "\n".join(found)


def test_few_calls_wrap_the_effects_of_an_insert(graph):
    stacks: dict[str, list[str]] = {}

    def entered(module, frame):
        for effect, (place, function) in EFFECTS.items():
            if (module, frame.f_code.co_name) == (place, function):
                stacks.setdefault(effect, list_callers(frame))

    profile(lambda: graph.mutate(INSERT), entered)
    assert set(stacks) == set(EFFECTS)
    for effect, callers in stacks.items():
        assert len(callers) <= MAX_WRAPPINGS, f"{effect} is wrapped by:\n" + "\n".join(callers)


def list_callers(frame: FrameType) -> list[str]:
    """The functions of the package between a frame and `mutate`, innermost first."""
    found = []
    caller = frame.f_back
    while caller is not None and caller.f_code.co_name != "mutate":
        if module := find_module(caller):
            found.append(f"{module}.{caller.f_code.co_name}")
        caller = caller.f_back
    return found


# --- the page ------------------------------------------------------------------------------------


def read_walks() -> dict[str, list[str]]:
    text = PAGE.read_text()
    blocks = re.findall(r"^\*\*(\w+)\.\*\*.*?```text\n(.*?)```", text, re.S | re.M)
    return {name: re.split(r"[\s→]+", stations.strip()) for name, stations in blocks}


def test_the_page_has_five_short_walks():
    walks = read_walks()
    assert list(walks) == ["Insert", "Load", "Query", "Merge", "Recovery"]
    assert max(map(len, walks.values())) <= MAX_STATIONS


def test_every_station_of_the_page_is_a_module():
    for stations in read_walks().values():
        missing = [one for one in stations if importlib.util.find_spec(f"omnigraph.{one}") is None]
        assert not missing

"""Ceilings on what one warm write or query passes through: modules entered, frames on the stack."""

from __future__ import annotations

import sys
from collections.abc import Callable
from types import FrameType

import pytest

import omnigraph

SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
INSERT = 'query q() { insert Person { name: "Cy" } }'
QUERY = 'query q() { match { $p: Person { name: "Ada" }  $p knows $f } return { $f.name } }'
RECORDS = [{"type": "Person", "data": {"name": "Di"}}, {"edge": "Knows", "from": "Di", "to": "Ada"}]

WALKS = {
    "insert": (lambda graph: graph.mutate(INSERT), 78),
    "query": (lambda graph: graph.query(QUERY), 55),
    "load": (lambda graph: graph.load(RECORDS, "merge"), 70),
}
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

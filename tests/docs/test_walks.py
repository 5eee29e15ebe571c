"""The walks that architecture.md draws are those that the code takes."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import fill

import pytest

import omnigraph
from crash.windows import MANIFEST, At, watched

PAGE = Path(__file__).parents[2] / "docs" / "internals" / "architecture.md"
SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
INSERT = 'query q() { insert Person { name: "Cy" } }'
QUERY = 'query q() { match { $p: Person { name: "Ada" }  $p knows $f } return { $f.name } }'
RECORDS = [{"type": "Person", "data": {"name": "Di"}}, {"edge": "Knows", "from": "Di", "to": "Ada"}]
WHOLE = ("language", "catalog", "plan", "types", "constraints")
"""Packages that are one station; of the others each module, or package in it, is one."""
VOCABULARY = ("errors", "identity", "settings", "environment", "progress", "version")


def station(module: str) -> str | None:
    parts = module.split(".")
    if parts[0] != "omnigraph" or len(parts) == 1 or parts[1] in VOCABULARY:
        return None
    return parts[1] if parts[1] in WHOLE else ".".join(parts[1:3])


def stations(walk: Callable[[], object]) -> list[str]:
    """The stations this thread entered, in the order in which it came to each first."""
    found: dict[str, None] = {}

    def entered(frame, event, argument):
        if event == "call":
            name = station(frame.f_globals.get("__name__", ""))
            if name is not None:
                found.setdefault(name)

    before = sys.getprofile()
    sys.setprofile(entered)
    try:
        walk()
    finally:
        sys.setprofile(before)
    return list(found)


@pytest.fixture
def graph(tmp_path):
    """Open and warm: every module was imported and every cache was filled once."""
    made = omnigraph.init(tmp_path / "people.omni", SCHEMA)
    people = [{"type": "Person", "data": {"name": name}} for name in ("Ada", "Ben")]
    made.load([*people, {"edge": "Knows", "from": "Ada", "to": "Ben"}], "append")
    made.mutate('query q() { insert Person { name: "Bo" } }')
    made.query(QUERY)
    return made


class Killed(BaseException):
    """No error of ours: nothing is tidied up after it."""


def interrupt_a_write(graph):
    """Leave a write whose table has moved and whose publish never came."""

    def die():
        raise Killed

    with watched(At("before", "commit", MANIFEST, die)):
        writer = omnigraph.open(graph.uri)
        with pytest.raises(Killed):
            writer.mutate('query q() { insert Person { name: "Eve" } }')


WALKS = {
    "insert": lambda graph: graph.mutate(INSERT),
    "query": lambda graph: graph.query(QUERY),
    "load": lambda graph: graph.load(RECORDS, "merge"),
    "recovery": lambda graph: graph.recover(),
}


def written(name: str) -> list[str]:
    text = PAGE.read_text()
    block = re.search(rf"\*\*{name}\b.*?```text\n(.*?)```", text, re.S | re.I)
    assert block, f"{PAGE.name} has no walk '{name}'"
    return re.split(r"[\s→]+", block[1].strip())


def drawn(found: list[str]) -> str:
    """The stations as the page has them."""
    arrows = " → ".join(found)
    return fill(arrows, 120, break_long_words=False, break_on_hyphens=False)


@pytest.mark.parametrize("name", WALKS)
def test_a_walk_has_the_stations_that_are_written_down(graph, name):
    if name == "recovery":
        interrupt_a_write(graph)
    found = stations(lambda: WALKS[name](graph))
    assert found == written(name), f"the walk '{name}' of {PAGE.name} is now:\n{drawn(found)}"

"""Settings that say how traversals find neighbours, through the library and the command."""

from __future__ import annotations

import json
import os
import re
import subprocess
from itertools import pairwise
from pathlib import Path

import pytest

import omnigraph
from commands.quick_command import quick_command
from omnigraph.errors import BadRequest
from omnigraph.settings import Settings

SCHEMA = "node Person { name: String @key }\nedge Knows: Person -> Person"
NAMES = [f"p{number}" for number in range(40)]
FRIENDS = "query q() { match { $a: Person  $a knows{1,3} $b } return { $a.name, $b.name } }"
ONE = 'query q() { match { $a: Person { name: "p1" }  $a knows $b } return { $b.name } }'


@pytest.fixture(scope="module")
def place(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("people") / "people.omni"
    records: list[dict] = [{"type": "Person", "data": {"name": name}} for name in NAMES]
    records += [{"edge": "Knows", "from": a, "to": b} for a, b in pairwise(NAMES)]
    omnigraph.init(path, SCHEMA).load(records, "append")
    return path


def opened(place: Path, **environment: str) -> omnigraph.Graph:
    settings = Settings.from_environment(environment)
    return omnigraph.open(place, read_only=True, settings=settings)


def way(graph: omnigraph.Graph, query: str) -> str:
    """Return the access path the query took to neighbours."""
    profile = graph.query(query).profile()
    steps = [profile]
    while steps:
        step = steps.pop()
        if "traversal" in step.facts:
            return str(step.facts["traversal"])
        steps += step.children
    raise AssertionError("the plan has no expansion")


@pytest.mark.parametrize("query", [FRIENDS, ONE], ids=["three hops", "one node"])
def test_a_forced_strategy_is_used_and_returns_the_same_rows(place: Path, query: str) -> None:
    indexed = opened(place, OMNIGRAPH_TRAVERSAL_MODE="indexed")
    csr = opened(place, OMNIGRAPH_TRAVERSAL_MODE="CSR")
    assert (way(indexed, query), way(csr, query)) == ("indexed", "adjacency")
    assert indexed.query(query).rows == csr.query(query).rows == opened(place).query(query).rows


def facts(step: dict) -> dict:
    """Return what the document of a plan reports about its expansion."""
    found = [step] if step["operator"] == "Expand" else []
    found += [facts(child) for child in step.get("children", ())]
    return next((one for one in found if one), {})


def test_explain_names_the_strategy_to_be_used_and_analyze_the_one_used_and_why(
    place: Path,
) -> None:
    graph = opened(place)
    planned = facts(graph.at().explain_json(FRIENDS)["plan"])
    assert planned["because"].startswith(f"start nodes: {len(NAMES)} expected; look-ups cost about")
    ran = facts(graph.query(FRIENDS).profile().wire())
    assert planned["traversal"] == ran["traversal"] == "adjacency"
    assert ran["because"].startswith(f"start nodes: {len(NAMES)} or more; look-ups cost about")
    again = "the adjacency is in memory"
    assert facts(graph.at().explain_json(FRIENDS)["plan"])["because"].endswith(again)
    assert facts(graph.query(FRIENDS).profile().wire())["because"].endswith(again)
    assert again in graph.explain(FRIENDS)


@pytest.mark.parametrize(("mode", "way"), [("indexed", "indexed"), ("csr", "adjacency")])
def test_explain_reports_that_the_settings_force_a_strategy(
    place: Path, mode: str, way: str
) -> None:
    graph = opened(place, OMNIGRAPH_TRAVERSAL_MODE=mode)
    planned, ran = (
        facts(graph.at().explain_json(ONE)["plan"]),
        facts(graph.query(ONE).profile().wire()),
    )
    assert planned["traversal"] == ran["traversal"] == way
    assert planned["because"] == "start nodes: 1 expected; the settings ask for it"
    assert ran["because"].endswith("the settings ask for it")


@pytest.mark.parametrize("name", ["MAX_FRONTIER", "MAX_HOPS"])
def test_look_ups_end_at_their_limits(place: Path, name: str) -> None:
    setting = f"OMNIGRAPH_EXPAND_INDEXED_{name}"
    assert way(opened(place, **{setting: "0"}), ONE) == "adjacency"
    assert way(opened(place, **{setting: "100"}), ONE) == way(opened(place), ONE)


def test_a_limit_does_not_touch_a_forced_way(place: Path) -> None:
    graph = opened(
        place, OMNIGRAPH_TRAVERSAL_MODE="indexed", OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER="0"
    )
    assert way(graph, FRIENDS) == "indexed"


@pytest.mark.parametrize(
    ("name", "value", "accepted"),
    [
        ("OMNIGRAPH_TRAVERSAL_MODE", "fast", "auto, indexed or csr"),
        ("OMNIGRAPH_EXPAND_INDEXED_MAX_FRONTIER", "many", "a whole number"),
        ("OMNIGRAPH_EXPAND_INDEXED_MAX_HOPS", "-1", "a whole number"),
    ],
)
def test_a_value_that_is_none_is_refused_by_name(name: str, value: str, accepted: str) -> None:
    with pytest.raises(BadRequest, match=f"{name} must be {accepted}"):
        Settings.from_environment({name: value})


def test_the_command_obeys_its_environment(place: Path) -> None:
    command = quick_command("explain", str(place), "-e", FRIENDS)
    found = {}
    for mode in ("indexed", "csr", "never"):
        done = subprocess.run(
            [*command, "--analyze", "--json"],
            capture_output=True,
            env={**os.environ, "OMNIGRAPH_TRAVERSAL_MODE": mode},
            check=False,
            timeout=600,
        )
        json.loads(done.stdout)
        found[mode] = re.findall(rb'"(?:traversal|code)": "(\w+)"', done.stdout)
    assert found == {"indexed": [b"indexed"], "csr": [b"adjacency"], "never": [b"bad_request"]}

"""Every worked example through the public interface, whatever state the tables are in."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

import omnigraph
from differential.interpreter import Answer
from execution.physical_states import build_indexes, compact_tables
from execution.worked_examples import (
    CONTENTS,
    RUNS,
    SCHEMA,
    bound,
    catalog,
    check,
    expect,
    in_any_order,
    is_ordered,
)
from omnigraph.settings import Settings

LINES = CONTENTS.strip().splitlines()
NODES = [line for line in LINES if '"type"' in line]
EDGES = [line for line in LINES if '"edge"' in line]


def fresh(place: Path) -> None:
    """Loaded at once."""
    load(place, LINES, new=True)


def worn(place: Path) -> None:
    """Loaded in parts, with replaced rows and deleted rows; no index."""
    load(place, [older(line) for line in NODES[:6]], new=True)
    load(place, NODES)
    load(place, EDGES[:4])
    load(place, EDGES[4:])
    graph = omnigraph.open(str(place))
    graph.mutate('query add() { insert Artist { slug: "gone", name: "Gone Soon" } }')
    graph.mutate('query drop() { delete Artist where slug = "gone" }')


def indexed(place: Path) -> None:
    """Every index exists and covers every row."""
    fresh(place)
    build_indexes(str(place))


def partly_indexed(place: Path) -> None:
    """Indexes cover only the rows that were there first, of which some were replaced."""
    load(place, [older(line) for line in NODES[:6]], new=True)
    build_indexes(str(place))
    load(place, NODES)
    load(place, EDGES)


def rewritten(place: Path) -> None:
    """Worn, indexed, worn again, and then compacted."""
    worn(place)
    build_indexes(str(place))
    load(place, NODES[2:9])
    assert compact_tables(str(place)) > 0


STATES: tuple[Callable[[Path], None], ...] = (fresh, worn, indexed, partly_indexed, rewritten)


def load(place: Path, lines: list[str], *, new: bool = False) -> None:
    graph = omnigraph.init(str(place), SCHEMA) if new else omnigraph.open(str(place))
    graph.load("\n".join(lines).encode(), "append" if new else "merge")


def older(line: str) -> str:
    """The record as it may have been before: with another value for a name."""
    record = json.loads(line)
    if "name" in record["data"]:
        record["data"]["name"] = "Somebody Else"
    return json.dumps(record)


Opened = Callable[[str | None], omnigraph.Graph]


@pytest.fixture(scope="module", params=STATES, ids=lambda state: state.__name__)
def opened(request, tmp_path_factory) -> Opened:
    """The graph in one state, opened with an environment that names a model or none."""
    place = tmp_path_factory.mktemp(request.param.__name__) / "music.omni"
    request.param(place)

    @cache
    def open_with(model: str | None) -> omnigraph.Graph:
        if model is None:
            return omnigraph.open(str(place))
        named = {"OMNIGRAPH_EMBED_PROVIDER": "mock", "OMNIGRAPH_EMBED_MODEL": model}
        settings = Settings.from_environment({**os.environ, **named})
        return omnigraph.open(str(place), settings=settings)

    return open_with


@pytest.mark.parametrize("run", RUNS, ids=lambda run: run.title)
def test_an_example_has_its_rows_in_every_state_of_the_tables(run, opened):
    def answered() -> None:
        graph = opened(run.model)
        result = graph.query(run.text, None, run.parameters)
        rows = result.wire(javascript=run.javascript)["rows"]
        answer = Answer(result.plan.columns, [[row] for row in run.rows])
        is_fixed = is_ordered(bound(run, catalog()).root)
        check(answer if is_fixed else in_any_order(answer), rows)

    expect(run, answered)


def test_the_states_hold_the_same_records(tmp_path):
    exported = []
    for state in STATES:
        state(tmp_path / state.__name__)
        exported.append(list(omnigraph.open(str(tmp_path / state.__name__)).export()))
    assert all(records == exported[0] for records in exported)

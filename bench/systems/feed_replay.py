"""A graph built from its change feed, and the same graph exported."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import omnigraph
from bench.systems.changes import ITEM, NOTE, PERSON, Row, base_rows, hash_of, preview_of, upsert
from bench.systems.clock import timed
from bench.systems.small_graph import SmallGraph
from omnigraph.graph.graph import Graph

_BASE_ROWS = 100
_MEMBERS = {NOTE: ("text", "number"), ITEM: ("slug", "amount"), PERSON: ("name", "born")}


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """Some rows, and commits that each change or add one."""
    graph = SmallGraph.create(Path(spec["root"]) / "graph", base_rows(_BASE_ROWS))
    for step in range(spec["parameters"]["commits"]):
        graph.apply(upsert(step))
    return {}


def run_export(spec: dict[str, Any]) -> dict[str, Any]:
    graph = _open(spec)
    exported, took = timed(lambda: list(graph.export()))
    rows = list(SmallGraph(graph).rows())
    assert len(rows) == len(exported)
    return _sample(spec, took.wall, took.processor, rows)


def run_replay(spec: dict[str, Any]) -> dict[str, Any]:
    graph = _open(spec)
    entities, took = timed(lambda: _replay(graph))
    return _sample(spec, took.wall, took.processor, entities)


def _replay(graph: Graph) -> list[Row]:
    """Return the rows that result from all changes, from the first commit on."""
    rows: dict[tuple[str, str], Row] = {}
    position, is_caught_up = "beginning", False
    while not is_caught_up:
        page = graph.changes(position, max_changes=8_192, max_commits=512)
        for block in page.blocks:
            for change in block.changes:
                key = (change.type_name, change.id)
                if change.after is None:
                    del rows[key]
                else:
                    rows[key] = _row(change.type_name, change.after.wire())
        position, is_caught_up = page.position, bool(page.caught_up)
    return list(rows.values())


def _row(name: str, image: dict[str, Any]) -> Row:
    properties = image["properties"]
    if "endpoints" in image:
        ends = image["endpoints"]
        return Row(name, f"{ends['from']}>{ends['to']}", properties["since"])
    key, value = _MEMBERS[name]
    return Row(name, properties[key], properties[value])


def _open(spec: dict[str, Any]) -> Graph:
    graph = omnigraph.open(Path(spec["inputs"]) / "graph", read_only=True)
    assert graph.branches() == ["main"], "the first open is slower"
    return graph


def _sample(
    spec: dict[str, Any], wall: float, processor: float, rows: Iterable[Row]
) -> dict[str, Any]:
    found = list(rows)
    return {
        "timings": {"whole graph": wall, "processor": processor},
        "result_hash": hash_of(found),
        "work": {"whole graph": spec["parameters"]["commits"]},
        "preview": preview_of(found),
    }

"""Operations on a branch, from its creation to cleaning up, among many others."""

from __future__ import annotations

from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

from bench.systems.changes import NOTE, Row, hash_of, insert, preview_of
from bench.systems.prepared import copied
from bench.systems.small_graph import SmallGraph
from bench.systems.yardstick import Yardstick

_BASE_ROWS = tuple(Row(NOTE, f"note-{number}", number) for number in range(100))
_SCHEMA = "node Note { text: String  number: I64 }"
_EVERY = 10
"""One branch in this many has a commit of its own."""


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """A graph with the branches of the case; some of them have a commit."""
    graph = SmallGraph.create(Path(spec["root"]) / "graph", _BASE_ROWS, _SCHEMA)
    for number in range(spec["parameters"]["branches"]):
        name = f"agent/{number}"
        graph.graph.create_branch(name)
        if number % _EVERY == 0:
            SmallGraph(graph.graph, name).apply(insert(number))
    return {}


def run(spec: dict[str, Any]) -> dict[str, Any]:
    import_module("omnigraph.graph.merges")  # its import is not measured
    graph = SmallGraph.open(copied(spec, "graph")).graph
    fresh = [f"fresh-{number}" for number in range(spec["parameters"]["repetitions"])]
    SmallGraph(graph).apply(insert(-1))  # the first write of a process also meets cold caches
    yardstick = Yardstick(Path(spec["root"]))
    clock = yardstick.timed
    created = [clock(partial(graph.create_branch, name))[1].wall for name in fresh]
    listed = [clock(graph.branches)[1].wall for _ in fresh]
    written = [
        clock(partial(SmallGraph(graph, name).apply, insert(-2 - number)))[1].wall
        for number, name in enumerate(fresh)
    ]
    merged = [clock(partial(graph.merge, name))[1].wall for name in fresh]
    deleted = [clock(partial(graph.delete_branch, name))[1].wall for name in fresh]
    _, cleaned = clock(partial(graph.cleanup, keep=1, confirm=True))
    rows = list(SmallGraph(graph).rows())
    names = graph.branches()
    assert len(names) == 1 + spec["parameters"]["branches"]
    return {
        "timings": {
            "create": created,
            "list": listed,
            "first write": written,
            "merge": merged,
            "delete": deleted,
            "cleanup": cleaned.wall,
            "cleanup of each": cleaned.wall / len(names),
            "yardstick": yardstick.seconds,
        },
        "result_hash": hash_of(rows),
        "work": {"list": len(names), "cleanup": len(names)},
        "preview": {**preview_of(rows), "branches": len(names)},
    }

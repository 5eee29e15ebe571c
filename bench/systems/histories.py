"""One-row commits after ever more commits, with nothing compacted or cleaned up."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from bench.systems.bare_tables import NOTES, ChangeLog
from bench.systems.changes import Target, base_rows, hash_of, insert, preview_of, time_changes
from bench.systems.clock import timed
from bench.systems.prepared import copied
from bench.systems.small_graph import SmallGraph
from bench.systems.storage_calls import calls_of_one
from bench.systems.yardstick import Yardstick

_BASE_ROWS = 100
_FIRST_STEP = 1_000_000
"""Steps of the history are numbered apart from those that are timed."""


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """A graph and a log, each with `commits` one-row commits after its base rows."""
    root, rows = Path(spec["root"]), base_rows(_BASE_ROWS)
    targets: tuple[Target, ...] = (
        SmallGraph.create(root / "graph", rows),
        ChangeLog.create(root / "log.lance", rows),
    )
    for target in targets:
        for step in range(spec["parameters"]["commits"]):
            target.apply(insert(_FIRST_STEP + step))
    return {}


def run_log(spec: dict[str, Any]) -> dict[str, Any]:
    path = copied(spec, "log.lance")
    log, opened = timed(lambda: ChangeLog.open(path))
    versions, listed = timed(log.versions)
    return _sample(spec, log, path, {"open": opened.wall, "list": listed.wall}, versions)


def run_ours(spec: dict[str, Any]) -> dict[str, Any]:
    path = copied(spec, "graph")
    graph, opened = timed(lambda: SmallGraph.open(path))
    commits, listed = timed(lambda: len(graph.graph.commits()))
    return _sample(spec, graph, path, {"open": opened.wall, "list": listed.wall}, commits)


def _sample(
    spec: dict[str, Any], target: Target, path: Path, once: dict[str, float], listed: int
) -> dict[str, Any]:
    parameters = spec["parameters"]
    warm_up, repetitions = parameters["warm_up"], parameters["repetitions"]
    assert listed >= parameters["commits"], f"only {listed} commits were listed"
    yardstick = Yardstick(path.parent)
    seconds = time_changes(target, "insert", warm_up, repetitions, yardstick.timed)
    calls = calls_of_one(target, path, insert, warm_up + repetitions)
    rows = list(target.rows())
    return {
        "timings": {**once, **seconds, "yardstick": yardstick.seconds},
        "result_hash": hash_of(rows),
        "calls": calls,
        "work": {"list": listed, "commit": 1},
        "preview": preview_of(rows),
        "notes": NOTES,
    }

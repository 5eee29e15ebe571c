"""One-row commits, each followed by a read, in one process that is never restarted."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from bench.child import peak_memory_bytes
from bench.systems.bare_tables import NOTES, ChangeLog
from bench.systems.changes import Target, base_rows, hash_of, insert, preview_of
from bench.systems.clock import timed
from bench.systems.small_graph import SmallGraph

_COUNT = "query q() { match { $p: Person } return { count($p) as n } }"


def run_log(spec: dict[str, Any]) -> dict[str, Any]:
    log = ChangeLog.create(Path(spec["root"]) / "log.lance", base_rows(spec["parameters"]["rows"]))
    return _commit_and_read(spec, log, log.count)


def run_ours(spec: dict[str, Any]) -> dict[str, Any]:
    graph = SmallGraph.create(Path(spec["root"]) / "graph", base_rows(spec["parameters"]["rows"]))
    return _commit_and_read(spec, graph, lambda: graph.graph.query(_COUNT))


def _commit_and_read(
    spec: dict[str, Any], target: Target, read: Callable[[], object]
) -> dict[str, Any]:
    commits, write_s, read_s = spec["parameters"]["commits"], 0.0, 0.0
    for step in range(commits):
        write_s += timed(partial(target.apply, insert(step)))[1].wall
        read_s += timed(read)[1].wall
    peak, rows = peak_memory_bytes(), list(target.rows())
    return {
        "timings": {"commits": write_s, "queries": read_s},
        "result_hash": hash_of(rows),
        "work": {"commits": commits, "queries": commits},
        "memory": {"process": peak},
        "preview": preview_of(rows),
        "notes": NOTES,
    }

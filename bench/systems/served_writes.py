"""One-row commits in the process that has the graph, and over HTTP to a server of it.

One writer makes one commit after the other; then eight do so concurrently. Embedded writers are
processes that open the graph; over HTTP they are processes that send requests to one worker.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import closing
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from bench.systems.changes import Target, base_rows, hash_of, preview_of, upsert
from bench.systems.served import ServedGraph, serve
from bench.systems.small_graph import SmallGraph
from bench.systems.writers import Share, run_writers, write_graph, write_share

_BASE_ROWS = 100
_ADDRESS = "address"


def run_embedded(spec: dict[str, Any]) -> dict[str, Any]:
    path = Path(spec["root"]) / "graph"
    graph = SmallGraph.create(path, base_rows(_BASE_ROWS))
    return _measure(spec, graph, lambda: run_writers(spec, path, write_graph))


def run_served(spec: dict[str, Any]) -> dict[str, Any]:
    path = Path(spec["root"]) / "graph"
    SmallGraph.create(path, base_rows(_BASE_ROWS))
    with serve(path) as address, closing(ServedGraph(address)) as graph:
        (Path(spec["root"]) / _ADDRESS).write_text(address)
        return _measure(spec, graph, lambda: run_writers(spec, Path(spec["root"]), write_served))


def write_served(path: Path, writer: int, commits: int, ready: Barrier, done: Queue[Share]) -> None:
    """One writer, in a process of its own."""
    with closing(ServedGraph((path / _ADDRESS).read_text())) as graph:
        done.put(write_share(graph, writer, commits, ready, (RuntimeError,)))


def _measure(
    spec: dict[str, Any], target: Target, write_together: Callable[[], list[Share]]
) -> dict[str, Any]:
    warm_up, repetitions = spec["parameters"]["warm_up"], spec["parameters"]["repetitions"]
    seconds = []
    for step in range(warm_up + repetitions):
        start = time.perf_counter()
        target.apply(upsert(step))
        if step >= warm_up:
            seconds.append(time.perf_counter() - start)
    shares = write_together()
    rows = list(target.rows())
    wall = max(share.ended for share in shares) - min(share.started for share in shares)
    return {
        "timings": {"one write": seconds, "eight writers": wall},
        "result_hash": hash_of(rows),
        "work": {"eight writers": sum(len(share.seconds) for share in shares)},
        "preview": preview_of(rows),
    }

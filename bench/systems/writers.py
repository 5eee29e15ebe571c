"""Several processes that commit to one graph, or to one table, at the same time.

Each writer opens the path, says that it is ready, and waits for the others; the clock runs from
their common start to the end of the last one. Keys are disjoint, so no commit has a reason to fail.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path
from typing import Any

from bench.systems.bare_tables import NOTES, ChangeLog
from bench.systems.changes import ITEM, Change, Row, Target, base_rows, hash_of, preview_of
from bench.systems.small_graph import SmallGraph
from omnigraph.errors import OmniError

_BASE_ROWS = 100
_START_WITHIN_S = 120
_FINISH_WITHIN_S = 170
_MAX_REFUSALS = 1_000


@dataclass(frozen=True, slots=True)
class Share:
    """The result of one writer: start and end, each commit's seconds, and its failures."""

    started: float
    ended: float
    seconds: tuple[float, ...]
    aborts: int

    @property
    def made(self) -> int:
        """Its commits, with the first one, which is not timed."""
        return len(self.seconds) + 1


def run_log(spec: dict[str, Any]) -> dict[str, Any]:
    path = Path(spec["root"]) / "log.lance"
    ChangeLog.create(path, base_rows(_BASE_ROWS))
    return _sample(run_writers(spec, path, write_log), ChangeLog.open(path), {})


def run_ours(spec: dict[str, Any]) -> dict[str, Any]:
    path = Path(spec["root"]) / "graph"
    graph = SmallGraph.create(path, base_rows(_BASE_ROWS))
    before = _turns(path)
    shares = run_writers(spec, path, write_graph)
    # A writer that finds the branch moved may give its turn back before it tries again.
    needed = sum(share.made for share in shares)
    return _sample(shares, graph, {"additional acquisitions": _turns(path) - before - needed})


Job = Callable[[Path, int, int, Barrier, "Queue[Share]"], None]
Refusals = tuple[type[Exception], ...]


def write_log(path: Path, writer: int, commits: int, ready: Barrier, done: Queue[Share]) -> None:
    done.put(write_share(ChangeLog.open(path), writer, commits, ready, (OSError, RuntimeError)))


def write_graph(path: Path, writer: int, commits: int, ready: Barrier, done: Queue[Share]) -> None:
    done.put(write_share(SmallGraph.open(path), writer, commits, ready, (OmniError,)))


def run_writers(spec: dict[str, Any], path: Path, job: Job) -> list[Share]:
    """All writers, started afresh: a fork would share the threads of the native library."""
    writers, commits = spec["parameters"]["writers"], spec["parameters"]["commits"]
    context = get_context("spawn")
    ready, done = context.Barrier(writers), context.Queue()
    share = commits // writers
    processes = [
        context.Process(target=job, args=(path, writer, share, ready, done))
        for writer in range(writers)
    ]
    for process in processes:
        process.start()
    shares = [done.get(timeout=_FINISH_WITHIN_S) for _ in processes]
    for process in processes:
        process.join()
    return shares


def write_share(
    target: Target, writer: int, commits: int, ready: Barrier, refusals: Refusals
) -> Share:
    _until_done(target, _change(writer, 0), refusals)  # a first commit reads more than others
    ready.wait(_START_WITHIN_S)
    started, aborts = time.monotonic(), 0
    seconds: list[float] = []
    for step in range(1, 1 + commits):
        start = time.monotonic()
        aborts += _until_done(target, _change(writer, step), refusals)
        seconds.append(time.monotonic() - start)
    return Share(started, time.monotonic(), tuple(seconds), aborts)


def _change(writer: int, step: int) -> Change:
    return Change("upsert", (Row(ITEM, f"writer-{writer}-{step}", step),))


def _until_done(target: Target, change: Change, refusals: Refusals) -> int:
    """Commit until it succeeds and return the number of refusals."""
    for refused in range(_MAX_REFUSALS):
        try:
            target.apply(change)
        except refusals:
            continue
        return refused
    raise RuntimeError(f"{change} was refused {_MAX_REFUSALS} times")


def _sample(shares: Sequence[Share], target: Target, counts: dict[str, int]) -> dict[str, Any]:
    wall = max(share.ended for share in shares) - min(share.started for share in shares)
    rows = list(target.rows())
    return {
        "timings": {
            "all commits": wall,
            "one commit": [second for share in shares for second in share.seconds],
        },
        # Which writer writes how much depends on their number, which all systems share.
        "result_hash": hash_of(rows),
        "work": {"all commits": sum(len(share.seconds) for share in shares)},
        "calls": {"aborts": sum(share.aborts for share in shares), **counts},
        "preview": preview_of(rows),
        "notes": NOTES,
    }


def _turns(path: Path) -> int:
    """Return how often the writer fence was acquired, which its record counts."""
    record = json.loads((path / "__writer.lock").read_text())
    return int(record["epoch"])

"""A writer that is suspended at one of its durable writes, as if stopped by an operator.

Run as `python paused_writer.py PLACE JOB MOMENT PATH`, with a MOMENT such as `after compact` and a
PATH pattern. It prints "done", or the code of the error. The clock of the writer is shifted by the
seconds in a file beside the graph.
"""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import Callable
from dataclasses import replace
from fnmatch import fnmatch
from pathlib import Path

import pyarrow as pa

from omnigraph.errors import OmniError
from omnigraph.graph.graph import Graph
from omnigraph.settings import Settings
from omnigraph.storage.graph_root import GraphRoot, read_clock_us
from omnigraph.storage.objects.object_store import install_observer


def shift_of(place: Path) -> Path:
    return place.with_suffix(".shift")


def opened(place: Path, settings: Settings | None = None) -> Graph:
    """Return the graph with a shifted clock."""
    shift = shift_of(place)

    def now_us() -> int:
        seconds = int(shift.read_text()) if shift.exists() else 0
        return read_clock_us() + seconds * 1_000_000

    return Graph(replace(GraphRoot.at(str(place), settings), now_us=now_us))


class PausePoint:
    """An observer that stops the process at the first matching write."""

    def __init__(self, moment: str, path: str) -> None:
        self._moment, self._path = moment, path
        self._was_reached = False

    def before(self, action: str, path: str) -> None:
        self._reached(f"before {action}", path)

    def after(self, action: str, path: str) -> None:
        self._reached(f"after {action}", path)

    def _reached(self, moment: str, path: str) -> None:
        if moment == self._moment and fnmatch(path, self._path) and not self._was_reached:
            self._was_reached = True
            os.kill(os.getpid(), signal.SIGSTOP)


def load(graph: Graph, branch: str = "main") -> None:
    rows = pa.table({"slug": [f"s{n}" for n in range(50)], "name": ["late"] * 50})
    graph.load(rows, "append", branch=branch, type="Reader")


JOBS: dict[str, Callable[[Graph], object]] = {
    "load": load,
    "load a branch": lambda graph: load(graph, "dev"),
    "optimize": lambda graph: graph.optimize(),
    "mutate": lambda graph: graph.mutate(
        'query q() { insert Reader {slug: "s", name: "S"} insert Reads {from: "s", to: "a"} }'
    ),
}

if __name__ == "__main__":
    place, job, moment, path = sys.argv[1:]
    install_observer(PausePoint(moment, path))
    try:
        JOBS[job](opened(Path(place)))
        print("done")
    except OmniError as error:
        print(error.code, error.message)

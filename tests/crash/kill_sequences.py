"""Stories of processes killed one after the other on one graph, and where each can be cut."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory

from crash.crash_scenario import OPEN, OPERATIONS, create
from crash.harness import Workers
from crash.kill_points import Cut
from omnigraph.storage.objects.object_store import install_observer
from store_places import Place, copy_graph, open_graph

Step = tuple[str, int | None]
"""An operation, and after how many of its durable writes its process dies."""

_counting, _preparing = threading.Lock(), threading.Lock()
_made: dict[str, TemporaryDirectory[str]] = {}


def fresh(template: Place, place: Place, operation: str) -> Place:
    """A graph that the operation can be done on; made in place, as branches cannot be moved."""
    chosen = OPERATIONS[operation]
    if chosen.is_prepared_once:
        copy_graph(_prepared(operation), place)
        return place
    copy_graph(template, place)
    chosen.prepare(open_graph(place, actor="maker"))
    return place


def _prepared(operation: str) -> Path:
    """Return a graph that takes long to prepare, prepared once."""
    with _preparing:
        if operation not in _made:
            _made[operation] = TemporaryDirectory()
            OPERATIONS[operation].prepare(create(Path(_made[operation].name)))
        return Path(_made[operation].name)


def run_steps(workers: Workers, place: Place, steps: Sequence[Step]) -> None:
    """Run each step in a process of its own that is killed."""
    for operation, after in steps:
        workers.run(place, operation, after)


def writes_of(place: Place, operation: str) -> list[tuple[str, str]]:
    """Run the operation in this process, and return its durable writes."""
    cut = Cut(None)
    with _counting:
        install_observer(cut)
        try:
            if operation == OPEN:
                cut.arm()
                open_graph(place, actor="opener")
            else:
                graph = open_graph(place, actor="worker")
                cut.arm()
                OPERATIONS[operation].run(graph)
        finally:
            install_observer(None)
    return cut.writes

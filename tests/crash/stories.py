"""Stories of processes killed one after the other on one graph, and where each can be cut."""

from __future__ import annotations

import shutil
import threading
from collections.abc import Sequence
from pathlib import Path

import omnigraph
from crash.cuts import Cut
from crash.harness import Workers
from crash.town import OPEN, OPERATIONS
from omnigraph.storage.objects.counting import install_observer

Step = tuple[str, int | None]
"""An operation, and after how many of its durable writes its process dies."""

_counting = threading.Lock()


def fresh(template: Path, place: Path, operation: str) -> Path:
    """A graph that the operation can be done on; made in place, as branches cannot be moved."""
    shutil.copytree(template, place)
    OPERATIONS[operation].prepare(omnigraph.open(place, actor="maker"))
    return place


def tell(workers: Workers, place: Path, steps: Sequence[Step]) -> None:
    """Let each step happen, in a process of its own that is killed."""
    for operation, after in steps:
        workers.run(place, operation, after)


def writes_of(place: Path, operation: str) -> list[tuple[str, str]]:
    """Do the operation here and now, and give its durable writes."""
    cut = Cut(None)
    with _counting:
        install_observer(cut)
        try:
            if operation == OPEN:
                cut.arm()
                omnigraph.open(place, actor="opener")
            else:
                graph = omnigraph.open(place, actor="worker")
                cut.arm()
                OPERATIONS[operation].run(graph)
        finally:
            install_observer(None)
    return cut.writes

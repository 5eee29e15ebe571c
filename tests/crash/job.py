"""One operation, done in a process that dies after an exact durable write of it."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path
from typing import Any

import omnigraph
from crash.cuts import Cut
from crash.town import INIT, OPEN, OPERATIONS, SCHEMA
from omnigraph.graph.graph import Graph
from omnigraph.storage.objects.counting import install_observer

assert Graph  # imported here so that it is there when the job comes


def do(job: dict[str, Any], answer: int) -> None:
    """Do the job; if it is not cut before, say what was written, and die."""
    place, name = Path(job["place"]), job["operation"]
    cut = Cut(job["after"])
    install_observer(cut)
    if name in (INIT, OPEN):
        cut.arm()
        if name == INIT:
            omnigraph.init(place, SCHEMA, actor="maker")
        else:
            omnigraph.open(place, actor="opener")
    else:
        graph = omnigraph.open(place, actor="worker")
        cut.arm()
        OPERATIONS[name].run(graph)
    os.write(answer, json.dumps({"writes": cut.writes}).encode())
    os.kill(os.getpid(), signal.SIGKILL)

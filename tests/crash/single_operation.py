"""One operation, done in a process that dies after an exact durable write of it."""

from __future__ import annotations

import json
import os
import signal
from collections.abc import Callable
from socket import send_fds, socket
from typing import Any

import omnigraph
from crash.crash_scenario import (
    CLUSTER_APPLY,
    DELETE_MEANWHILE,
    INIT,
    OPEN,
    OPERATIONS,
    SCHEMA,
)
from crash.kill_points import Cut
from crash.tracer import install
from omnigraph.cluster import apply_cluster
from omnigraph.graph.graph import Graph
from omnigraph.settings import Settings
from omnigraph.storage.objects.object_store import install_observer

assert Graph is not None  # imported here, before the job arrives


def do(job: dict[str, Any], answer: socket) -> None:
    """Do the job; if it is not cut before, say what was written, and die."""
    cut = Cut(None if job["by_file"] else job["after"])
    install_observer(cut)
    settings = Settings.from_environment(job["environment"])
    work = _work(job["operation"], job["place"], settings)
    cut.arm()
    if job["by_file"]:
        send_fds(answer, [b"listener"], [install()])
    work()
    answer.sendall(json.dumps({"writes": cut.writes}).encode())
    os.kill(os.getpid(), signal.SIGKILL)


def _work(operation: str, place: str, settings: Settings) -> Callable[[], object]:
    """The operation to be interrupted, with the graph it needs already open."""
    if operation == CLUSTER_APPLY:
        return lambda: apply_cluster(place, actor="worker", settings=settings)
    if operation == INIT:
        return lambda: omnigraph.init(place, SCHEMA, actor="maker", settings=settings)
    if operation == OPEN:
        return lambda: omnigraph.open(place, actor="opener", settings=settings)
    was_open_before = operation == DELETE_MEANWHILE
    graph = omnigraph.open(place, actor="worker", settings=settings, read_only=was_open_before)
    graph._open.read_only = False
    return lambda: OPERATIONS[operation].run(graph)

"""Graphs in one directory and real processes that work on them."""

from __future__ import annotations

import shutil

import pytest

import omnigraph
from processes.workers import FIRST, SCHEMA, Worker
from s3_server import running_s3_server


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    place = tmp_path_factory.mktemp("processes") / "graph.omni"
    omnigraph.init(place, SCHEMA).load(FIRST, "append")
    return place


@pytest.fixture
def place(template, tmp_path):
    return shutil.copytree(template, tmp_path / "graph.omni")


@pytest.fixture(scope="session")
def idle_workers():
    """Processes between two tests: starting one costs more than most tests do."""
    workers = []
    yield workers
    for worker in workers:
        worker.close()


@pytest.fixture
def start_workers(idle_workers, place):
    """Several workers at once, each with the graph open."""
    busy = []

    def start(count, where=place, environment=None, **options):
        workers = [idle_workers.pop() if idle_workers else Worker() for _ in range(count)]
        busy.extend(workers)
        for number, worker in enumerate(workers, len(busy) - count):
            settings = {"environment": environment or {}, "actor": f"w{number}"} | options
            worker.start("open", place=str(where), **settings)
        for worker in workers:
            worker.finish()
        return workers

    yield start
    for worker in busy:
        if worker.is_alive and worker.is_idle:
            worker.forget()
            idle_workers.append(worker)
        else:
            worker.close()


@pytest.fixture(scope="session")
def s3_server():
    with running_s3_server() as server:
        yield server

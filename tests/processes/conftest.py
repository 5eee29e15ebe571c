"""Graphs, and real processes that work on them."""

from __future__ import annotations

import pytest

from processes.process_handles import BUCKET, FIRST, FOLDER, SCHEMA, Worker
from store_places import Bucket, copy_graph, environment_of, init_graph


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    place = tmp_path_factory.mktemp("processes") / "graph.omni"
    init_graph(place, SCHEMA).load(FIRST, "append")
    return place


@pytest.fixture
def place(request, tmp_path):
    """A graph in a folder or, where the test requests it, in a bucket."""
    if getattr(request, "param", FOLDER) == BUCKET:
        bucket = Bucket.on(request.getfixturevalue("s3_server"))
        init_graph(bucket, SCHEMA).load(FIRST, "append")
        return bucket
    folder = tmp_path / "graph.omni"
    copy_graph(request.getfixturevalue("template"), folder)
    return folder


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

    def start(count, **options):
        workers = [idle_workers.pop() if idle_workers else Worker() for _ in range(count)]
        busy.extend(workers)
        for number, worker in enumerate(workers, len(busy) - count):
            settings = {"environment": environment_of(place), "actor": f"w{number}"} | options
            worker.start("open", place=str(place), **settings)
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

"""Processes waiting to be killed, a graph to copy, and a count of what was explored."""

from __future__ import annotations

import pytest

from crash.crash_scenario import create
from crash.crash_stores import BUCKET, FOLDER, Ground
from crash.harness import Explored, Workers
from store_places import Bucket

EXPLORED = Explored()


@pytest.fixture(autouse=True)
def in_turn(tables_in_turn):
    """Cuts are numbered, so what comes before one must not depend on threads."""


@pytest.fixture(scope="session")
def workers():
    waiting = Workers()
    yield waiting
    waiting.close()


@pytest.fixture(scope="session")
def template(tmp_path_factory):
    """A graph without branches, which can therefore be copied."""
    place = tmp_path_factory.mktemp("template") / "town"
    create(place)
    return place


@pytest.fixture(scope="session")
def bucket_template(s3_server):
    place = Bucket.on(s3_server)
    create(place)
    return place


@pytest.fixture
def ground(request, tmp_path):
    """A folder on disk or, where the test requests it, a bucket."""
    if getattr(request, "param", FOLDER) == BUCKET:
        template = request.getfixturevalue("bucket_template")
        return Ground(template, Bucket.on(template.server))
    return Ground(request.getfixturevalue("template"), tmp_path)


@pytest.fixture(scope="session")
def explored():
    return EXPLORED


def pytest_sessionfinish(session):
    """Print the counts; processes of a parallel run hand theirs to the one that prints."""
    if hasattr(session.config, "workeroutput"):
        session.config.workeroutput["crash_states"] = dict(EXPLORED.states)


@pytest.hookimpl(optionalhook=True)
def pytest_testnodedown(node):
    for name, states in getattr(node, "workeroutput", {}).get("crash_states", {}).items():
        EXPLORED.add(name, states)


def pytest_terminal_summary(terminalreporter):
    if EXPLORED.states:
        terminalreporter.write_line(f"crash states explored: {EXPLORED}")

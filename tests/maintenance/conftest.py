"""A library graph of each test's own."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from dataclasses import dataclass

import pytest

import omnigraph
from commands.quick_command import quick_command
from maintenance.library_graph import SCHEMA, book, reader, reads
from omnigraph.settings import Settings


@pytest.fixture(scope="session")
def library_template(tmp_path_factory):
    place = tmp_path_factory.mktemp("template") / "library.omni"
    graph = omnigraph.init(place, SCHEMA, actor="founder")
    first = [book("a", year=1999, cover="base64:aGk="), book("b"), reader("ann"), reader("bob")]
    graph.load([*first, reads("ann", "a"), reads("bob", "b")], "append")
    return place


@pytest.fixture
def place(library_template, tmp_path):
    return shutil.copytree(library_template, tmp_path / "library.omni")


@pytest.fixture
def library(place):
    return omnigraph.open(place, actor="tester")


@pytest.fixture
def impatient(place):
    """The graph with a cleanup grace of zero."""
    return omnigraph.open(place, actor="tester", settings=Settings(cleanup_grace_s=0))


@dataclass(frozen=True)
class Outcome:
    code: int
    out: str
    err: str

    @property
    def json(self):
        return json.loads(self.out)


@pytest.fixture
def command(place):
    """A function that runs a command on the graph and gives what it printed."""

    def run(verb: str, *arguments: str, **environment: str) -> Outcome:
        done = subprocess.run(
            quick_command(verb, str(place), *arguments),
            capture_output=True,
            stdin=subprocess.DEVNULL,
            env={**os.environ, "NO_COLOR": "1", **environment},
            check=False,
            timeout=600,
        )
        return Outcome(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run

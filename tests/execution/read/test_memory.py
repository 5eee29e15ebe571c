"""The memory of queries over ten million edges, each in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from execution.read.large_graph import QUERIES, STREAMED_ROWS

TESTS = Path(__file__).parents[2]
MAX_PEAK_BYTES = 2 << 30
MAX_GROWTH = 256 << 20
"""The maximum growth of the peak memory after the first batch."""
LARGEST_BATCH = 1 << 17

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def large_graph(tmp_path_factory) -> str:
    place = tmp_path_factory.mktemp("large") / "large.omni"
    run("make", str(place))
    return str(place)


def run(*arguments: str) -> str:
    environment = os.environ | {"PYTHONPATH": os.pathsep.join([str(TESTS), *sys.path])}
    command = [sys.executable, "-m", "execution.read.large_graph", *arguments]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout


def answer(place: str, name: str) -> dict[str, int]:
    found = json.loads(run("answer", place, name))
    print(f"{name}: {found['rows']} rows, peak {found['peak'] / 2**20:.0f} MiB")
    return found


@pytest.mark.parametrize("name", [name for name in QUERIES if name != "every pair"])
def test_ten_rows_out_of_ten_million_edges_fit_into_two_gigabytes(name, large_graph):
    found = answer(large_graph, name)
    assert found["rows"] == 10
    assert found["peak"] < MAX_PEAK_BYTES


def test_five_million_rows_are_streamed_without_being_held(large_graph):
    found = answer(large_graph, "every pair")
    assert found["rows"] == STREAMED_ROWS
    assert found["largest_batch"] <= LARGEST_BATCH
    assert found["peak"] < MAX_PEAK_BYTES
    assert found["peak"] - found["first_peak"] < MAX_GROWTH

"""An epoch whose process dies at any of its writes, and is then repeated, is committed once."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from pipeline_source.conftest import SCHEMA

WORKER = Path(__file__).with_name("epoch_worker.py")
NEVER = 1_000_000


def run_epoch(graph: Path, writes: int) -> int:
    done = subprocess.run(
        [sys.executable, WORKER, graph, str(writes)],
        env=os.environ | {"PYTHONPATH": str(WORKER.parents[1])},
        check=False,
        capture_output=True,
        timeout=600,
    )
    assert done.returncode in (0, -9), done.stderr.decode()
    return done.returncode


def check(place: Path, died_after: int) -> None:
    graph = omnigraph.open(place)
    texts = sorted(row["text"] for row in graph.nodes("Note").to_arrow().to_pylist())
    assert texts == ["a", "b"], f"died after {died_after} writes"
    assert [c.origin for c in graph.commits()].count("spark-stream:s:7") == 1
    assert graph.recovery_pending() == []


def cut(template: Path, folder: Path, writes: int) -> bool:
    """Return whether the process died there; then the epoch is repeated."""
    place = folder / f"cut-{writes}.omni"
    shutil.copytree(template, place)
    died = run_epoch(place, writes) != 0
    if died:
        assert run_epoch(place, NEVER) == 0
    check(place, writes)
    return died


@pytest.fixture
def template(tmp_path):
    place = tmp_path / "template.omni"
    omnigraph.init(place, SCHEMA)
    return place


@pytest.mark.crash
def test_an_epoch_that_died_right_before_it_was_recorded_is_not_repeated(template, tmp_path):
    """Four cuts: before anything, early, late, and one behind the end."""
    for writes in (0, 3, 7, 9):
        cut(template, tmp_path, writes)


@pytest.mark.slow
@pytest.mark.crash
def test_an_epoch_may_die_at_every_write(template, tmp_path):
    writes = 0
    while cut(template, tmp_path, writes):
        writes += 1
    assert writes >= 6

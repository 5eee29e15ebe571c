"""Spark may run a task twice at once; both copies write, and one of them counts."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from omnigraph.settings import Settings
from omnigraph.storage.layout import STAGING
from pipeline.speculation_worker import STAGES
from pipeline.standalone_cluster import two_hosts

pytestmark = pytest.mark.slow

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""


def unreferenced(graph) -> list[str]:
    notes = graph.verify(deep=True).notes
    return [note.message for note in notes if note.check == "unreferenced_files"]


def test_a_copy_of_a_task_that_wrote_the_same_rows_adds_nothing(tmp_path):
    graph = omnigraph.init(tmp_path / "graph.omni", SCHEMA, settings=Settings(cleanup_grace_s=0))
    graph.load([{"type": "Person", "data": {"name": "p0", "age": 0}}], "append")
    worker = Path(__file__).with_name("speculation_worker.py")
    with two_hosts(tmp_path / "cluster") as master:
        done = subprocess.run(
            [sys.executable, str(worker), master, graph.uri, str(tmp_path / "markers")],
            capture_output=True,
            text=True,
            env=os.environ
            | {"PYTHONPATH": str(worker.parents[1]), "PYSPARK_PYTHON": sys.executable},
            check=False,
            timeout=600,
        )
    assert done.returncode == 0, done.stderr
    said = [json.loads(line) for line in done.stdout.splitlines()]
    assert [stage for stage, _ in said] == list(STAGES)
    assert [commits - said[0][1] for _, commits in said] == [0, 1, 2, 3]
    for stage in STAGES:
        assert (tmp_path / "markers" / stage / "copied").exists(), f"no copy ran in {stage}"
    ages = [(r["data"]["name"], r["data"]["age"]) for r in graph.export(["Person"])]
    assert sorted(ages) == [(f"p{i}", 4) for i in range(8)]
    assert sorted(r["data"]["id"] for r in graph.export(["Knows"])) == [f"k{i}" for i in range(4)]
    assert graph.recovery_pending() == []
    assert graph.verify(deep=True).findings == ()
    assert unreferenced(graph), "the files of the copy that lost"
    for _ in range(3):  # the first notes what nothing refers to, the next ones remove it
        graph.cleanup(keep=1, confirm=True)
    assert unreferenced(graph) == []
    assert list(Path(graph.uri, STAGING).rglob("*.lance")) == []
    assert len(list(graph.export())) == 12

"""A driver that dies leaves one commit or none, and nothing beyond recovery by the next write."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

import omnigraph
from pipeline.driver_worker import MOMENTS

pytestmark = pytest.mark.usefixtures("tables_in_turn")
"""Only then is it known which tables have moved at a given moment."""

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person
"""


def prepare(tmp_path: Path) -> tuple[Path, Path]:
    place, file = tmp_path / "graph.omni", tmp_path / "in.jsonl"
    graph = omnigraph.init(place, SCHEMA)
    graph.load(
        [{"type": "Person", "data": {"name": f"p{i}", "age": 1}} for i in range(4)], "append"
    )
    records = [{"type": "Person", "data": {"name": f"p{i}", "age": 2}} for i in range(8)]
    records += [{"edge": "Knows", "from": "p0", "to": f"p{i}"} for i in range(8)]
    file.write_text("".join(json.dumps(record) + "\n" for record in records))
    return place, file


def die(place: Path, file: Path, engine: str, moment: str) -> None:
    worker = Path(__file__).with_name("driver_worker.py")
    tests = str(Path(__file__).parents[1])
    done = subprocess.run(
        [sys.executable, str(worker), str(place), str(file), "merge", engine, moment],
        capture_output=True,
        env=os.environ | {"PYTHONPATH": tests},
        check=False,
        timeout=600,
    )
    assert done.returncode == -signal.SIGKILL, done.stderr.decode()


def check(place: Path, file: Path, *, happened: bool) -> None:
    graph = omnigraph.open(place)
    commits = len(graph.commits())
    graph.load([{"type": "Person", "data": {"name": "next"}}], "append")
    assert graph.recovery_pending() == []
    ages = {r["data"]["name"]: r["data"]["age"] for r in graph.export(["Person"])}
    edges = len(list(graph.export(["Knows"])))
    whole = ({f"p{i}": 2 for i in range(8)} | {"next": None}, 8)
    nothing = ({f"p{i}": 1 for i in range(4)} | {"next": None}, 0)
    assert (ages, edges) == (whole if happened else nothing)
    assert len(graph.commits()) == commits + 1
    assert graph.verify(deep=True).findings == ()
    graph.load([file], "merge", engine="local")
    assert {r["data"]["age"] for r in graph.export(["Person"])} == {2, None}


@pytest.mark.parametrize("moment", MOMENTS)
def test_a_dead_driver_leaves_one_commit_or_none(tmp_path, moment):
    place, file = prepare(tmp_path)
    die(place, file, "local", moment)
    check(place, file, happened=moment in ("after the last table", "after the publish"))


SPARK_MOMENTS = [
    moment if moment == "between two tables" else pytest.param(moment, marks=pytest.mark.slow)
    for moment in MOMENTS
]
"""A session of its own for each of them, so only one is in the default run."""


@pytest.mark.parametrize("moment", SPARK_MOMENTS)
def test_a_dead_driver_of_a_spark_job_leaves_one_commit_or_none(tmp_path, moment):
    place, file = prepare(tmp_path)
    die(place, file, "spark", moment)
    check(place, file, happened=moment in ("after the last table", "after the publish"))

"""Sessions whose workers are not children of this process: Spark Connect, and a cluster."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from connect_packages import install_connect

pytestmark = pytest.mark.slow


def run(worker: str, *arguments: str, **variables: str) -> str:
    done = subprocess.run(
        [sys.executable, str(Path(__file__).parent / worker), *arguments],
        capture_output=True,
        text=True,
        env=os.environ | variables,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_a_load_through_spark_connect(tmp_path):
    """With the packages of its own lock, in a folder beside the environment of the tests."""
    variables = install_connect(tmp_path / "connect")
    said = run("connect_worker.py", str(tmp_path / "g.omni"), **variables)
    assert "dst 'gone' not found in T" in said
    assert "pyspark.sql.connect.session 12" in said


def test_a_load_on_executors_of_their_own(tmp_path):
    code = (
        "import sys, omnigraph\n"
        "graph = omnigraph.init(sys.argv[1], 'node T { k: String @key  n: I32? }')\n"
        "rows = [{'type': 'T', 'data': {'k': f'a{i}', 'n': i}} for i in range(50)]\n"
        "conf = {'spark.master': 'local-cluster[2,1,1024]'}\n"
        "print(graph.load(rows, 'append', engine='spark', spark_conf=conf).engine)\n"
        "print(graph.load(rows[:5], 'merge', engine='spark').total_entities)\n"
        "print(len(list(graph.export())))\n"
    )
    worker = tmp_path / "worker.py"
    worker.write_text(code)
    said = run(
        str(worker),
        str(tmp_path / "g.omni"),
        SPARK_WORKER_DIR=str(tmp_path / "work"),
        PYSPARK_PYTHON=sys.executable,
    )
    assert said.split() == ["spark", "5", "50"]


def test_executors_without_the_packages_are_distinguished_from_broken_ones(tmp_path):
    """The bare interpreter has nothing installed."""
    bare = Path(sys.base_prefix) / "bin" / "python3"
    probe = [str(bare), "-I", "-c", "import pyarrow"]
    if subprocess.run(probe, capture_output=True, check=False).returncode == 0:
        pytest.skip("the interpreter below this environment has the packages too")
    code = (
        "import sys, omnigraph\n"
        "graph = omnigraph.init(sys.argv[1], 'node T { k: String @key }')\n"
        "conf = {'spark.master': 'local-cluster[1,1,1024]'}\n"
        "try:\n"
        "    graph.load([], 'append', engine='spark', spark_conf=conf)\n"
        "except omnigraph.errors.BadRequest as refused:\n"
        "    print(refused)\n"
    )
    worker = tmp_path / "worker.py"
    worker.write_text(code)
    said = run(
        str(worker),
        str(tmp_path / "g.omni"),
        SPARK_WORKER_DIR=str(tmp_path / "work"),
        PYSPARK_PYTHON=str(bare),
    )
    assert "the Spark executors lack what the pipeline needs" in said
    assert "not installed there" in said

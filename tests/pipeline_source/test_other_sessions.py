"""The data source where Spark's processes are not this one's children, and on an object store."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from connect_packages import install_connect

WORKER = Path(__file__).with_name("source_worker.py")


def run(uri: str, folder: Path, **variables: str) -> dict:
    """Return the output of the worker."""
    done = subprocess.run(
        [sys.executable, str(WORKER), uri, str(folder)],
        capture_output=True,
        text=True,
        env=os.environ | {"PYSPARK_PYTHON": sys.executable} | variables,
        check=False,
        timeout=1800,
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def require_everything(seen: dict) -> None:
    read = seen["read"]
    assert read["filtered"] == [
        ["new", 50, 0, []],
        ["p0", 100, 2**64 - 1, [0]],
        ["p8", 8, 2**64 - 9, [8]],
        ["p9", 9, 2**64 - 10, [9]],
    ]
    assert read["query"] == [["new", 50], ["p0", 100]]
    assert (read["before"], read["now"]) == (10, 11)
    taken, lost, unknown = seen["refused"]
    assert "KeyConflict" in taken
    assert "ConstraintViolated" in lost
    assert "dst 'nobody' not found in Person" in lost
    assert "TypeNotFound" in unknown
    assert seen["written"] == seen["commits"] + 4, "each write is one commit, a refused one none"
    assert seen["notes"] == sorted(f"{number}-{row}" for number in range(2) for row in range(3))
    assert seen["streamed"] == [True, True]
    followed, whole = seen["followed"]
    assert followed == [
        ["Knows", "delete", 9],
        ["Knows", "insert", 10],
        ["Note", "insert", 7],
        ["Person", "insert", 11],
        ["Person", "update", 1],
    ]
    assert whole == [[*rest, 8 if rest[0] == "Note" else count] for *rest, count in followed]
    assert seen["people"] == sorted(
        [["p0", 100], ["new", 50], *([f"p{i}", i] for i in range(1, 10))]
    )
    assert seen["knows"] == [["p0", "p1"]]
    assert (seen["pending"], seen["findings"], seen["staged"]) == (0, [], [])


@pytest.mark.slow
def test_through_spark_connect(tmp_path):
    """With the packages of its own lock, in a folder beside the environment of the tests."""
    variables = install_connect(tmp_path / "connect")
    seen = run(str(tmp_path / "g.omni"), tmp_path, **variables)
    assert seen["session"].startswith("pyspark.sql.connect")
    require_everything(seen)


@pytest.mark.slow
def test_on_executors_of_their_own(tmp_path):
    seen = run(
        str(tmp_path / "g.omni"),
        tmp_path,
        MASTER="local-cluster[2,1,1024]",
        SPARK_WORKER_DIR=str(tmp_path / "work"),
    )
    require_everything(seen)


@pytest.mark.object_store
@pytest.mark.parametrize("master", ["local[2,4]", "local-cluster[2,1,1024]"])
def test_on_a_bucket(tmp_path, s3_server, master):
    """Settings come from the environment of each process, and no key is in a plan."""
    seen = run(
        s3_server.new_root(),
        tmp_path,
        MASTER=master,
        SPARK_WORKER_DIR=str(tmp_path / "work"),
        **s3_server.environment,
    )
    require_everything(seen)

"""A Spark that is misconfigured, missing or does not start is reported at once, in one line."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from contextlib import closing

import pytest

import omnigraph
from omnigraph.errors import BadRequest, StorageFailure
from omnigraph.pipeline.spark_environment import require_master, require_server


@pytest.fixture
def listener():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        yield server.getsockname()[1]


@pytest.fixture
def closed_port():
    with closing(socket.create_server(("127.0.0.1", 0))) as server:
        return server.getsockname()[1]


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    for name in ("https_proxy", "http_proxy", "grpc_proxy", "all_proxy"):
        monkeypatch.delenv(name, raising=False)
        monkeypatch.delenv(name.upper(), raising=False)


@pytest.mark.parametrize("master", ["local", "local[2,4]", "local-cluster[2,1,1024]", "yarn"])
def test_masters_without_an_address_are_left_to_spark(master):
    require_master(master)


def test_one_master_of_several_must_answer(listener, closed_port):
    require_master(f"spark://127.0.0.1:{closed_port},127.0.0.1:{listener}")


def test_a_master_that_is_not_there_is_named(closed_port):
    with pytest.raises(
        StorageFailure, match=rf"no Spark master answers at 127.0.0.1:{closed_port} \("
    ):
        require_master(f"spark://127.0.0.1:{closed_port}")


def test_a_word_that_is_no_master_is_refused():
    with pytest.raises(BadRequest, match="'cluster' is not a Spark master: write local"):
        require_master("cluster")


def test_a_connect_server_is_found_whatever_follows_its_address(listener):
    require_server(f"sc://127.0.0.1:{listener}/;token=abc;user_id=me")
    require_server("local[2]")


def test_a_connect_server_that_is_not_there_is_named(closed_port):
    with pytest.raises(StorageFailure, match=f"no Spark Connect server answers.*{closed_port}"):
        require_server(f"sc://127.0.0.1:{closed_port}")


@pytest.mark.parametrize("remote", ["http://127.0.0.1:1", "127.0.0.1"])
def test_an_address_of_another_kind_is_refused(remote):
    with pytest.raises(BadRequest, match="write sc://host:15002"):
        require_server(remote)


def test_behind_a_proxy_no_host_is_requested(monkeypatch, closed_port):
    monkeypatch.setenv("HTTPS_PROXY", "http://proxy.example:3128")
    require_server(f"sc://127.0.0.1:{closed_port}")


def run_load(tmp_path, *options):
    """Run a failing load of one line by the real command, and return its output."""
    omnigraph.init(tmp_path / "graph", "node Person { name: String @key }")
    (tmp_path / "rows.jsonl").write_text('{"type": "Person", "data": {"name": "Ada"}}\n')
    command = [sys.executable, "-m", "omnigraph", "load", str(tmp_path / "graph")]
    command += ["--data", str(tmp_path / "rows.jsonl"), "--mode", "append"]
    command += ["--engine", "spark", "--json"]
    done = subprocess.run(
        [*command, *options], capture_output=True, text=True, timeout=600, env={**os.environ}
    )
    assert done.returncode == 1, done.stdout
    assert "Traceback" not in done.stderr
    assert len(omnigraph.open(tmp_path / "graph").commits()) == 1
    return json.loads(done.stdout)


def test_the_command_says_that_the_master_is_not_there(tmp_path, closed_port):
    said = run_load(tmp_path, "--spark-conf", f"spark.master=spark://127.0.0.1:{closed_port}")
    assert said["kind"] == "storage_failure", said
    assert f"no Spark master answers at 127.0.0.1:{closed_port}" in said["error"]


def test_the_command_says_why_spark_did_not_start(tmp_path):
    said = run_load(tmp_path, "--spark-conf", "spark.driver.memory=much")
    assert said["kind"] == "storage_failure", said
    assert said["error"].startswith("Spark did not start with the master local[")

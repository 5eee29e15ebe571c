"""One small load by the command line, from the start of its process to the end."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import omnigraph
from bench.hashing import hash_rows
from omnigraph.pipeline.spark_session import spark

_SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"
_LOOPBACK = "127.0.0.1"


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Load `parameters.rows` records into a fresh graph, with `parameters.engine`."""
    return _run(spec, spec["parameters"]["engine"], {}, warm_up=0)


def run_connect(spec: dict[str, Any]) -> dict[str, Any]:
    """Load through a Spark Connect server that is up and has served a load before."""
    port = _free_port()
    spark(
        conf={
            "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
            "spark.connect.grpc.binding.address": _LOOPBACK,
            "spark.connect.grpc.binding.port": str(port),
        }
    )
    remote = {"SPARK_REMOTE": f"sc://{_LOOPBACK}:{port}"}
    return _run(spec, "spark", remote, warm_up=1)


def _run(
    spec: dict[str, Any], engine: str, variables: dict[str, str], *, warm_up: int
) -> dict[str, Any]:
    root, rows = Path(spec["root"]), spec["parameters"]["rows"]
    data = root / "in.jsonl"
    people = [{"type": "Person", "data": {"name": f"p{i}", "age": i % 90}} for i in range(rows)]
    data.write_text("".join(json.dumps(record) + "\n" for record in people))
    for number in range(warm_up + 1):
        path = root / f"graph-{number}"
        omnigraph.init(path, _SCHEMA)
        wall = _load(path, data, engine, variables)
    loaded = len(list(omnigraph.open(path).export()))
    return {
        "timings": {"wall": wall},
        "result_hash": hash_rows([["rows", loaded]]),
        "work": {"wall": rows},
    }


def _load(path: Path, data: Path, engine: str, variables: dict[str, str]) -> float:
    words = ["load", str(path), "--data", str(data), "--mode", "append", "--engine", engine]
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "omnigraph.cli", *words, "--quiet"],
        check=True,
        stdout=subprocess.DEVNULL,
        env={**os.environ, **variables},
    )
    return time.perf_counter() - start


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind((_LOOPBACK, 0))
        port: int = probe.getsockname()[1]
        return port

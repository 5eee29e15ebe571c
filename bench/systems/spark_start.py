"""One small load by the command line, from the start of its process to the end."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import omnigraph
from bench.hashing import hash_rows

_SCHEMA = "node Person { name: String @key  age: I32? }\nedge Knows: Person -> Person"


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Load `parameters.rows` records into fresh graphs, with `parameters.engine`."""
    root, parameters = Path(spec["root"]), spec["parameters"]
    data = root / "in.jsonl"
    rows = parameters["rows"]
    people = [{"type": "Person", "data": {"name": f"p{i}", "age": i % 90}} for i in range(rows)]
    data.write_text("".join(json.dumps(record) + "\n" for record in people))
    walls = []
    for number in range(parameters["repetitions"]):
        place = root / f"graph-{number}"
        omnigraph.init(place, _SCHEMA)
        walls.append(_load(place, data, parameters["engine"]))
    loaded = len(list(omnigraph.open(place).export()))
    return {
        "timings": {"wall": walls},
        "result_hash": hash_rows([["rows", loaded]]),
        "work": {"wall": rows},
    }


def _load(place: Path, data: Path, engine: str) -> float:
    words = ["load", str(place), "--data", str(data), "--mode", "append", "--engine", engine]
    start = time.perf_counter()
    subprocess.run(
        [sys.executable, "-m", "omnigraph.cli", *words, "--quiet"], check=True, capture_output=True
    )
    return time.perf_counter() - start

"""The social network copied into Kuzu from Parquet, as its guide recommends.

Runs in the environment of the peers.
"""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

from bench.hashing import hash_rows
from bench.systems.clock import timed
from bench.systems.social_cypher import EDGES, NODES, Connection, copy_network

_NUMBERS = "numbers"


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Tables made and filled, and the database closed, so that all of it is on the disk."""
    kuzu = importlib.import_module("kuzu")
    inputs, root = Path(spec["inputs"]) / _NUMBERS, Path(spec["root"])
    _, seconds = timed(lambda: copy_network(kuzu, inputs, root).close())
    facts = _facts(kuzu.Connection(kuzu.Database(str(next(root.glob("*.db"))), read_only=True)))
    rows = sum(fact[1] for fact in facts)
    return {
        "timings": {"load": seconds.wall, "processor": seconds.processor},
        "result_hash": hash_rows(facts),
        "work": {"load": rows},
        "preview": facts,
        "notes": {"input": "Parquet, numbers as keys and ends", "rows": rows},
    }


def _facts(connection: Connection) -> list[Any]:
    """Return the counts and sums that every load must match."""
    found: list[Any] = []
    for name in NODES:
        asked = "count(*), sum(n.number), sum(size(n.name) * n.number)"
        found.append([name, *_row(connection, f"MATCH (n:{name}) RETURN {asked}")])
    for name in EDGES:
        asked = "count(*), count(DISTINCT id(r)), sum(a.number), sum(a.number * b.number)"
        found.append([name, *_row(connection, f"MATCH (a)-[r:{name}]->(b) RETURN {asked}")])
    return found


def _row(connection: Connection, text: str) -> list[int]:
    (row,) = connection.execute(text).get_all()
    return [int(str(value)) for value in row]  # sums come as decimals

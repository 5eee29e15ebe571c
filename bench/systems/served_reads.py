"""Reads in the process that has the graph, and over HTTP from a server of it.

One caller runs one query after the other; then eight callers run them concurrently; then all rows
of a large result are read as Arrow. The server has one worker, and all callers are threads.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa

import omnigraph
from bench.hashing import hash_rows
from bench.systems.served import ServedGraph, serve
from bench.systems.social_ours import GRAPH, load_network

_POINT = """query point($id: String) {
  match { $person: Person { id: $id } }
  return { $person.number as number, $person.name as name, $person.age as age }
}"""
_HOPS = """query hops($id: String) {
  match { $start: Person { id: $id }  $start follows $middle  $middle follows $person }
  return { count($person) as paths, count(distinct $person) as persons }
}"""
_ALL = """query all() {
  match { $person: Person }
  return {
    $person.id as id, $person.number as number, $person.name as name, $person.age as age,
    $person.birthday as birthday
  }
}"""
CALLERS = 8

Ask = Callable[[str, dict[str, object]], list[list[Any]]]


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    load_network(spec)
    return {}


def run_embedded(spec: dict[str, Any]) -> dict[str, Any]:
    """In the process that has the graph open."""
    graph = omnigraph.open(Path(spec["inputs"]) / GRAPH, read_only=True)

    def ask(text: str, given: dict[str, object]) -> list[list[Any]]:
        return [list(row.values()) for row in graph.query(text, params=given).rows]

    return _measure(spec, [ask] * CALLERS, lambda: graph.query(_ALL).to_arrow())


def run_served(spec: dict[str, Any]) -> dict[str, Any]:
    """Over HTTP; every caller has a connection of its own."""
    with serve(Path(spec["inputs"]) / GRAPH) as address:
        callers = [ServedGraph(address) for _ in range(CALLERS)]
        try:
            return _measure(
                spec, [one.query for one in callers], lambda: callers[0].query_arrow(_ALL)
            )
        finally:
            for one in callers:
                one.close()


def _measure(
    spec: dict[str, Any], callers: Sequence[Ask], read_all: Callable[[], pa.Table]
) -> dict[str, Any]:
    parameters = spec["parameters"]
    persons, repetitions = parameters["persons"], parameters["repetitions"]
    ids = [str(number * 37 % persons) for number in range(repetitions)]
    seconds: dict[str, list[float]] = {"point read": [], "two hops": [], "all rows": []}
    answers: list[list[Any]] = []
    ask = callers[0]
    for name, text in (("point read", _POINT), ("two hops", _HOPS)):
        for id in ids[:20]:
            ask(text, {"id": id})  # the first ones read more than the others
        for id in ids:
            start = time.perf_counter()
            rows = ask(text, {"id": id})
            seconds[name].append(time.perf_counter() - start)
            answers += rows
    together = _ask_together(callers, ids)
    table = read_all()
    for _ in range(parameters["streams"]):
        start = time.perf_counter()
        table = read_all()
        seconds["all rows"].append(time.perf_counter() - start)
    answers.append([table.num_rows, sum(table["number"].to_pylist())])
    return {
        "timings": {**seconds, "reads together": together},
        "result_hash": hash_rows(answers),
        "work": {"reads together": len(ids) * len(callers), "all rows": table.num_rows},
        "preview": answers[:3],
    }


def _ask_together(callers: Sequence[Ask], ids: Sequence[str]) -> float:
    """Return the seconds until every caller has read every person."""

    def ask_all(ask: Ask) -> None:
        for id in ids:
            ask(_POINT, {"id": id})

    with ThreadPoolExecutor(len(callers)) as threads:
        list(threads.map(lambda ask: ask(_POINT, {"id": ids[0]}), callers))
        start = time.perf_counter()
        list(threads.map(ask_all, callers))
        return time.perf_counter() - start

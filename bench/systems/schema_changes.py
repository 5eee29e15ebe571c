"""Changing the schema of a large table, beside a one-row commit and beside Lance by itself."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import omnigraph
from bench.hashing import hash_rows
from bench.systems.clock import Seconds, timed
from bench.systems.prepared import copied

_SCHEMA = "node Item { slug: String @key  amount: I64  weight: F64? }\n"
_WITH_COLUMN = _SCHEMA.replace("weight: F64?", "note: String?  weight: F64?")
_RENAMED = _WITH_COLUMN.replace("amount: I64", 'quantity: I64 @rename_from("amount")')
_WITH_TYPE = _RENAMED + "node Place { name: String @key }\n"
_BACKFILLED = _SCHEMA.replace("weight: F64?", "stock: I64 @default(7)  weight: F64?")
_BATCH = 1_000_000
_WARM_UP = 3


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """A graph with one large table, as loads leave it."""
    graph = omnigraph.init(Path(spec["root"]) / "graph", _SCHEMA, actor="bench")
    rows = spec["parameters"]["rows"]
    for start in range(0, rows, _BATCH):
        graph.load(_items(start, min(rows, start + _BATCH)), "append", type="Item")
    graph.optimize()
    return {}


def _items(start: int, end: int) -> pa.Table:
    numbers = np.arange(start, end)
    slugs = pc.binary_join_element_wise("item", pa.array(numbers).cast(pa.string()), "-")
    return pa.table({"slug": slugs, "amount": numbers, "weight": numbers / 4})


def run_commits(spec: dict[str, Any]) -> dict[str, Any]:
    """A commit of one row for each measure."""
    graph = _opened(spec)
    names = [measure for measure, _ in _CHANGES]
    timings = {name: timed(partial(_update, graph, at))[1] for at, name in enumerate(names)}
    return _sample(graph, timings)


def run_applies(spec: dict[str, Any]) -> dict[str, Any]:
    """One change of the schema after the other, none of which writes a value."""
    graph = _opened(spec)
    timings = {name: timed(partial(graph.apply_schema, to))[1] for name, to in _CHANGES}
    return _sample(graph, timings)


_CHANGES = (("add column", _WITH_COLUMN), ("rename", _RENAMED), ("add type", _WITH_TYPE))


def run_backfill(spec: dict[str, Any]) -> dict[str, Any]:
    graph = _opened(spec)
    _, took = timed(lambda: graph.apply_schema(_BACKFILLED))
    total = graph.query("query q() { match { $i: Item } return { sum($i.stock) as n } }").rows
    return _backfilled(spec, took, total[0]["n"])


def run_lance_backfill(spec: dict[str, Any]) -> dict[str, Any]:
    """The table of the graph, to which Lance adds the same column by itself.

    It is the very table that an apply finds, with the rows that were updated before.
    """
    _opened(spec).close()
    (folder,) = (Path(spec["root"]) / "graph" / "nodes").iterdir()
    table = lance.dataset(str(folder))
    _, took = timed(lambda: table.add_columns({"stock": "cast(7 as bigint)"}))
    total = pc.sum(table.to_table(columns=["stock"]).column("stock")).as_py()
    return _backfilled(spec, took, total)


def _backfilled(spec: dict[str, Any], took: Seconds, total: object) -> dict[str, Any]:
    return {
        "timings": {"backfill": took.wall, "processor": took.processor},
        "result_hash": hash_rows([["stock", total]]),
        "work": {"backfill": spec["parameters"]["rows"]},
    }


def _opened(spec: dict[str, Any]) -> omnigraph.Graph:
    """The graph on a warm handle, which has committed before."""
    graph = omnigraph.open(copied(spec, "graph"), actor="bench")
    graph.apply_schema(_SCHEMA)  # changes nothing, and loads what an apply needs
    for number in range(_WARM_UP):
        _update(graph, number)
    return graph


def _update(graph: omnigraph.Graph, number: int) -> None:
    graph.mutate(f'query q() {{ update Item set {{ weight: 1.5 }} where slug = "item-{number}" }}')


def _sample(graph: omnigraph.Graph, timings: dict[str, Seconds]) -> dict[str, Any]:
    rows = graph.query("query q() { match { $i: Item } return { count($i) as n } }").rows[0]["n"]
    return {
        "timings": {name: took.wall for name, took in timings.items()},
        "result_hash": hash_rows([["rows", rows]]),
    }

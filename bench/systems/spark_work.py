"""Loading a graph of persons, companies and ten times as many edges, from mixed JSON lines."""

from __future__ import annotations

import shutil
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Protocol

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import omnigraph
from bench.generators.work import work_graph, write_work_lines
from bench.hashing import hash_rows
from bench.systems import loads
from bench.systems.bare_tables import FORMAT, NOTES
from bench.systems.process_tree import watched
from bench.systems.spark_sessions import stored_tables, warm_session

_LINES, _SCHEMA = "work.jsonl", "work.pg"
_NODES = {"Person": "age", "Company": "size"}
_EDGES = ("Knows", "WorksAt")


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """Mixed JSON lines, and Parquet files of the columns that will be stored."""
    root, parameters = Path(spec["root"]), spec["parameters"]
    graph = work_graph(parameters["seed"], parameters["rows"])
    (root / _SCHEMA).write_text(graph.schema_text)
    write_work_lines(graph, root / _LINES)
    for name, table in loads.with_ids(graph):
        pq.write_table(table, root / f"{name}.parquet", compression="zstd")
    return {}


def run_lance(spec: dict[str, Any]) -> dict[str, Any]:
    """The columns in memory written as bare tables, in one process; nothing is checked."""
    inputs, root = Path(spec["inputs"]), Path(spec["root"])
    tables = {name: pq.read_table(inputs / f"{name}.parquet") for name in (*_NODES, *_EDGES)}

    def write() -> dict[str, lance.LanceDataset]:
        return {
            name: lance.write_dataset(table, str(root / f"{name}.lance"), **FORMAT)
            for name, table in tables.items()
        }

    stored, use = watched(write)
    return _sample({"load": use.wall, "processor": use.processor}, stored, use.memory, NOTES)


def run_spark(spec: dict[str, Any]) -> dict[str, Any]:
    """One checked commit on a warm session."""
    warm_session(spec)
    path, graph = _new_graph(spec, "graph")
    lines = Path(spec["inputs"]) / _LINES
    result, use = watched(lambda: graph.load(lines, "append", engine="spark"))
    timings = {"load": use.wall, "processor": use.processor}
    notes = {"stages": result.stages, "bytes": result.bytes}
    return _sample(timings, stored_tables(graph, path), use.memory, notes)


def prepare_sizes(spec: dict[str, Any]) -> dict[str, Any]:
    """Mixed JSON lines of every size."""
    root, parameters = Path(spec["root"]), spec["parameters"]
    for name, rows in parameters["sizes"].items():
        graph = work_graph(parameters["seed"], rows)
        (root / _SCHEMA).write_text(graph.schema_text)
        write_work_lines(graph, root / f"{name}.jsonl")
    return {}


def run_sizes(spec: dict[str, Any]) -> dict[str, Any]:
    """Loads of every size with `parameters.engine`, after a small one that starts it."""
    parameters = spec["parameters"]
    start, _, _ = _load_size(spec, next(iter(parameters["sizes"])), "start")
    timings: dict[str, float] = {}
    work: dict[str, int] = {}
    facts: list[list[Any]] = []
    for name, rows in parameters["sizes"].items():
        wall, graph, path = _load_size(spec, name, name)
        timings |= {name: wall, f"{name}, cold": start + wall}
        work |= {name: rows, f"{name}, cold": rows}
        facts += _all_facts(stored_tables(graph, path))
        shutil.rmtree(path)
    return {
        "timings": timings,
        "result_hash": hash_rows(facts),
        "work": work,
        "preview": facts,
        "notes": {"start s": start},
    }


def _load_size(
    spec: dict[str, Any], name: str, folder_name: str
) -> tuple[float, omnigraph.Graph, Path]:
    folder, graph = _new_graph(spec, folder_name)
    began = time.perf_counter()
    lines = Path(spec["inputs"]) / f"{name}.jsonl"
    graph.load(lines, "append", engine=spec["parameters"]["engine"])
    return time.perf_counter() - began, graph, folder


def _new_graph(spec: dict[str, Any], name: str) -> tuple[Path, omnigraph.Graph]:
    path = Path(spec["root"]) / name
    return path, omnigraph.init(path, (Path(spec["inputs"]) / _SCHEMA).read_text())


class Readable(Protocol):
    """Rows by column, from any container."""

    def to_table(self, columns: list[str]) -> pa.Table: ...


def _sample(
    timings: Mapping[str, float],
    stored: Mapping[str, Readable],
    memory: Mapping[str, int],
    notes: object,
) -> dict[str, Any]:
    facts = _all_facts(stored)
    rows = sum(fact[1] for fact in facts)
    return {
        "timings": dict(timings),
        "result_hash": hash_rows(facts),
        "work": {"load": rows},
        "memory": dict(memory),
        "preview": facts,
        "notes": notes,
    }


def _all_facts(stored: Mapping[str, Readable]) -> list[list[Any]]:
    return [_facts(name, stored[name]) for name in (*_NODES, *_EDGES)]


def _facts(name: str, table: Readable) -> list[Any]:
    """Figures that change if a row is lost, doubled, or given other values or ends."""
    if name in _NODES:
        rows = table.to_table(columns=["id", _NODES[name]])
        mixed = pc.multiply(_numbers(rows["id"]), rows[_NODES[name]])
        return [name, rows.num_rows, pc.sum(_numbers(rows["id"])).as_py(), pc.sum(mixed).as_py()]
    rows = table.to_table(columns=["src", "dst", "weight"])
    source, target = _numbers(rows["src"]), _numbers(rows["dst"])
    mixed = pc.sum(pc.multiply(pc.add(source, 1), pc.add(target, 7)))
    weights = pc.sum(pc.cast(pc.multiply(rows["weight"], 8), pa.int64()))
    return [name, rows.num_rows, pc.sum(source).as_py(), mixed.as_py(), weights.as_py()]


def _numbers(ids: pa.ChunkedArray) -> pa.ChunkedArray:
    return pc.cast(pc.utf8_slice_codeunits(ids, 1), pa.int64())

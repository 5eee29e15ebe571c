"""Merging rows into a large table: half of them replace others, half are new."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

import lance
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import omnigraph
from bench.hashing import hash_rows
from bench.systems.bare_tables import FORMAT
from bench.systems.process_tree import TreeWatch
from omnigraph.pipeline.session import spark

_SCHEMA = "node Item { k: String @key  n: I64?  note: String? }"
_BASE, _DELTA = "base.parquet", "delta.parquet"


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """The rows that are there, and those that come."""
    root, parameters = Path(spec["root"]), spec["parameters"]
    rows, delta = parameters["rows"], parameters["delta"]
    replaced = np.linspace(0, rows - 1, delta // 2, dtype=np.int64)
    fresh = np.arange(rows, rows + delta - len(replaced), dtype=np.int64)
    pq.write_table(_table(np.arange(rows), "old"), root / _BASE, row_group_size=1 << 18)
    changed = _table(np.concatenate([replaced, fresh]), "new")
    pq.write_table(changed, root / _DELTA, row_group_size=1 << 18)
    return {}


def _table(numbers: Any, note: str) -> pa.Table:  # noqa: ANN401 - an array of numbers
    keys = pc.binary_join_element_wise("k", pc.cast(pa.array(numbers), pa.string()), "")
    return pa.table({"k": keys, "n": numbers, "note": pa.repeat(note, len(numbers))})


def run_spark(spec: dict[str, Any]) -> dict[str, Any]:
    """The merge on a warm session."""
    spark(conf={"spark.master": "local[*,4]"})
    return _run_graph(spec, "spark")


def run_inline(spec: dict[str, Any]) -> dict[str, Any]:
    """The same tasks in this process."""
    return _run_graph(spec, "local")


def _run_graph(spec: dict[str, Any], engine: str) -> dict[str, Any]:
    inputs, place = Path(spec["inputs"]), Path(spec["root"]) / "graph"
    graph = omnigraph.init(place, _SCHEMA)
    graph.load([inputs / _BASE], "append", engine=engine, type="Item")
    watch, began = TreeWatch(), time.perf_counter()
    result = graph.load([inputs / _DELTA], "merge", engine=engine, type="Item")
    wall = time.perf_counter() - began
    info = graph.snapshot().tables[0]
    table = lance.dataset(str(place / info.table_path), version=info.manifest_version)
    return _sample(wall, watch, table, result.total_entities)


def run_lance(spec: dict[str, Any]) -> dict[str, Any]:
    """A bare merge by key in one process; nothing is checked and no commit of many tables made."""
    inputs, place = Path(spec["inputs"]), str(Path(spec["root"]) / "bare.lance")
    table = lance.write_dataset(pq.read_table(inputs / _BASE), place, **FORMAT)
    delta = pq.read_table(inputs / _DELTA)
    watch, began = TreeWatch(), time.perf_counter()
    merge = table.merge_insert("k").when_matched_update_all().when_not_matched_insert_all()
    merge.use_index(False).execute(delta)
    return _sample(time.perf_counter() - began, watch, lance.dataset(place), delta.num_rows)


def _sample(wall: float, watch: TreeWatch, table: lance.LanceDataset, rows: int) -> dict[str, Any]:
    processor, peaks = watch.stop()
    found = table.to_table(columns=["n", "note"])
    new = found.filter(pc.equal(found["note"], "new"))
    facts = [[found.num_rows, new.num_rows, pc.sum(found["n"]).as_py(), pc.sum(new["n"]).as_py()]]
    return {
        "timings": {"merge": wall, "processor": processor},
        "result_hash": hash_rows(facts),
        "work": {"merge": rows},
        "preview": facts,
        "notes": peaks,
    }

"""Merging rows into a large table: half of them replace others, half are new.

The table is made once; every sample merges into a copy of its own.
"""

from __future__ import annotations

import os
import shutil
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
from bench.systems.process_tree import TreeUse, watched
from bench.systems.spark_sessions import stored_tables, warm_session

_SCHEMA = "node Item { k: String @key  n: I64?  note: String? }"
_BASE, _DELTA = "base.parquet", "delta.parquet"
_GRAPH, _TABLE = "graph", "bare.lance"


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """The initial rows, and those to be merged."""
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


def prepare_graph(spec: dict[str, Any]) -> dict[str, Any]:
    """A graph with the initial rows."""
    graph = omnigraph.init(Path(spec["root"]) / _GRAPH, _SCHEMA)
    graph.load([Path(spec["inputs"]) / _BASE], "append", engine="spark", type="Item")
    return {}


def prepare_lance(spec: dict[str, Any]) -> dict[str, Any]:
    """A bare table with them."""
    rows = pq.read_table(Path(spec["inputs"]) / _BASE)
    lance.write_dataset(rows, str(Path(spec["root"]) / _TABLE), **FORMAT)
    return {}


def run_spark(spec: dict[str, Any]) -> dict[str, Any]:
    """The checked merge on a warm session."""
    path = _copied(spec, _GRAPH)
    warm_session(spec)
    graph, data = omnigraph.open(path), Path(spec["inputs"]) / _DELTA
    result, use = watched(lambda: graph.load([data], "merge", engine="spark", type="Item"))
    notes = {"stages": result.stages}
    return _sample(use, stored_tables(graph, path)["Item"], result.total_entities, notes)


def run_lance(spec: dict[str, Any]) -> dict[str, Any]:
    """A bare merge by key in one process; nothing is checked and no commit of many tables made."""
    path = str(_copied(spec, _TABLE))
    delta = pq.read_table(Path(spec["inputs"]) / _DELTA)

    def merge() -> None:
        merging = lance.dataset(path).merge_insert("k")
        merging.when_matched_update_all().when_not_matched_insert_all().execute(delta)

    _, use = watched(merge)
    return _sample(use, lance.dataset(path), delta.num_rows, {"index": None})


def _copied(spec: dict[str, Any], name: str) -> Path:
    """A copy to be written to; files of rows are never changed, so another name will do."""
    path = Path(spec["root"]) / name
    shutil.copytree(Path(spec["store"]) / name, path, copy_function=_link_or_copy)
    return path


def _link_or_copy(source: str, target: str) -> None:
    if source.endswith(".lance"):
        try:
            os.link(source, target)
        except OSError:  # another file system
            shutil.copy2(source, target)
    else:
        shutil.copy2(source, target)


def _sample(
    use: TreeUse, table: lance.LanceDataset, rows: int, notes: dict[str, Any]
) -> dict[str, Any]:
    found = table.to_table(columns=["n", "note"])
    new = found.filter(pc.equal(found["note"], "new"))
    facts = [[found.num_rows, new.num_rows, pc.sum(found["n"]).as_py(), pc.sum(new["n"]).as_py()]]
    return {
        "timings": {"merge": use.wall, "processor": use.processor},
        "result_hash": hash_rows(facts),
        "work": {"merge": rows},
        "memory": use.memory,
        "preview": facts,
        "notes": notes,
    }

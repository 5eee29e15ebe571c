"""Merging branches of a graph."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import omnigraph

# A verb imports its modules when it is first called, which is not measured.
import omnigraph.graph.merges
import omnigraph.history.diff
from bench.systems.merge_rows import MAIN, WORK, Item, base_items, changed_items, describe
from bench.systems.yardstick import Yardstick

_SCHEMA = "node Item { slug: String @key  amount: I64  text: String }"
_GRAPH = "items.omni"


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """One type with a key, loaded on `main`, with its indexes."""
    graph = omnigraph.init(Path(spec["root"]) / _GRAPH, _SCHEMA, actor="bench")
    items = _table(list(base_items(spec["parameters"]["rows"])))
    graph.load(items, "append", type="Item", engine="local")
    graph.optimize()
    return {}


def run(spec: dict[str, Any]) -> dict[str, Any]:
    """Change both branches, then merge one into the other."""
    root, parameters = Path(spec["root"]), spec["parameters"]
    shutil.copytree(Path(spec["store"]) / _GRAPH, root / _GRAPH)
    graph = omnigraph.open(root / _GRAPH, actor="bench")
    start = graph.commits()[0].commit_id
    graph.create_branch(WORK)
    for branch in (WORK, MAIN):
        items = changed_items(parameters, branch)
        if items:
            graph.load(_table(items), "merge", type="Item", branch=branch, engine="local")
    yardstick = Yardstick(root)
    _, merged = yardstick.timed(lambda: graph.merge(WORK, MAIN))
    diff, compared = yardstick.timed(lambda: list(graph.diff(start, WORK, images=True)))
    found = graph.nodes("Item").to_arrow()
    changed = found.filter(pc.less(found.column("amount"), 0)).select(["slug", "amount", "text"])
    total = pc.sum(found.column("amount")).as_py()
    return {
        "timings": {"merge": merged.wall, "processor": merged.processor, "diff": compared.wall}
        | ({"yardstick": yardstick.seconds} if parameters.get("with_yardstick") else {}),
        **describe(
            found.num_rows, total, [tuple(row.values()) for row in changed.to_pylist()], len(diff)
        ),
        "notes": "loaded in one commit, then optimized",
    }


def _table(items: list[Item]) -> pa.Table:
    keys, amounts, texts = zip(*items, strict=True)
    return pa.table({"slug": keys, "amount": pa.array(amounts, pa.int64()), "text": texts})

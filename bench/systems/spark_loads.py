"""Loading the social network on Spark: into a graph, and as Parquet by Spark itself.

Every system finds a session that is up and warm: what is measured is the load. The processor time
is that of the driver, of Java and of all Python workers.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph
from bench.generators.files import write_jsonl
from bench.generators.social import social_graph
from bench.systems import loads
from bench.systems.process_tree import TreeWatch
from omnigraph.pipeline.session import spark

_JSONL, _TABLES, _SCHEMA = "graph.jsonl", "tables", "schema.pg"
_EMPTY = "node T { k: String @key }"


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """The network as JSON lines, as a folder of Parquet, and as columns for bare tables."""
    root, parameters = Path(spec["root"]), spec["parameters"]
    loads.prepare(spec)
    graph = social_graph(parameters["seed"], parameters["persons"])
    write_jsonl(graph, root / _JSONL)
    for kind, tables in (("nodes", graph.nodes), ("edges", graph.edges)):
        for name, table in tables.items():
            folder = root / _TABLES / kind / name
            folder.mkdir(parents=True)
            pq.write_table(
                table, folder / "part.parquet", compression="zstd", row_group_size=1 << 18
            )
    return {}


def run_jsonl(spec: dict[str, Any]) -> dict[str, Any]:
    """JSON lines, on Spark."""
    return _run_graph(spec, Path(spec["inputs"]) / _JSONL, "spark")


def run_parquet(spec: dict[str, Any]) -> dict[str, Any]:
    """A folder of Parquet, on Spark."""
    return _run_graph(spec, Path(spec["inputs"]) / _TABLES, "spark")


def run_inline(spec: dict[str, Any]) -> dict[str, Any]:
    """JSON lines, by the same tasks in this process."""
    return _run_graph(spec, [str(Path(spec["inputs"]) / _JSONL)], "local")


def run_small(spec: dict[str, Any]) -> dict[str, Any]:
    """JSON lines in one piece, in this process."""
    return _run_graph(spec, Path(spec["inputs"]) / _JSONL, "local")


def run_spark_parquet(spec: dict[str, Any]) -> dict[str, Any]:
    """The same rows written as Parquet by Spark, from Parquet; nothing is checked."""
    session = _session(spec)
    source, out = Path(spec["inputs"]), Path(spec["root"]) / "out"

    def write() -> int:
        rows = 0
        for name in loads._TYPES:
            frame = session.read.parquet(str(source / f"{name}.parquet"))
            frame.write.option("compression", "zstd").parquet(str(out / name))
            rows += pq.ParquetFile(source / f"{name}.parquet").metadata.num_rows
        return rows

    rows, seconds, notes = _measured(write)
    facts = [loads._facts(name, _ParquetFolder(out / name)) for name in loads._TYPES]
    return _sample(facts, rows, seconds, notes)


def run_lance(spec: dict[str, Any]) -> dict[str, Any]:
    """The columns in memory written as bare tables, in one process."""
    return loads.run_lance(spec)


class _ParquetFolder:
    """A folder of Parquet files, read as a table is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def to_table(self, columns: list[str]) -> pa.Table:
        return pq.read_table(self._folder, columns=columns)


def _session(spec: dict[str, Any]) -> Any:  # noqa: ANN401 - a Spark session
    cores = spec["parameters"].get("cores", os.cpu_count())
    return spark(conf={"spark.master": f"local[{cores},4]"})


def _run_graph(spec: dict[str, Any], data: Any, engine: str) -> dict[str, Any]:  # noqa: ANN401
    place = Path(spec["root"]) / "graph"
    if engine == "spark":
        _session(spec)
        # The first load imports everything in every worker.
        warm = omnigraph.init(Path(spec["root"]) / "warm", _EMPTY)
        warm.load([{"type": "T", "data": {"k": "a"}}], "append", engine="spark")
    graph = omnigraph.init(place, (Path(spec["inputs"]) / _SCHEMA).read_text())
    result, seconds, notes = _measured(lambda: graph.load(data, "append", engine=engine))
    stored = {
        info.table_key.partition(":")[2]: lance.dataset(
            str(place / info.table_path), version=info.manifest_version
        )
        for info in graph.snapshot().tables
    }
    facts = [loads._facts(name, stored[name]) for name in loads._TYPES]
    stages = {f"{stage['stage']} s": stage["seconds"] for stage in result.stages}
    return _sample(facts, result.total_entities, seconds, {**notes, **stages})


def _measured(work: Callable[[], Any]) -> tuple[Any, tuple[float, float], dict[str, int]]:
    watch = TreeWatch()
    began = time.perf_counter()
    result = work()
    wall = time.perf_counter() - began
    processor, peaks = watch.stop()
    return result, (wall, processor), peaks


def _sample(
    facts: list[Any], rows: int, seconds: tuple[float, float], notes: dict[str, Any]
) -> dict[str, Any]:
    from bench.hashing import hash_rows

    return {
        "timings": {"load": seconds[0], "processor": seconds[1]},
        "result_hash": hash_rows(facts),
        "work": {"load": rows},
        "preview": facts,
        "notes": {**notes, "rows": rows},
    }

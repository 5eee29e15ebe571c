"""Loading the social network on Spark: into a graph, and as Parquet by Spark itself.

Every system finds a session that is up and warm: only the load is measured. The processor time
is that of the driver, of Java and of all Python workers.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph
from bench.generators.social import social_graph
from bench.generators.tables import GraphTables, with_integer_endpoints
from bench.hashing import hash_rows
from bench.systems import loads
from bench.systems.process_tree import TreeUse, watched
from bench.systems.spark_sessions import stored_tables, warm_session

_TABLES, _NUMBERS, _STORED = "tables", "numbers", "stored"
_ROW_GROUP = 1 << 18


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """The network as each system reads it, the same rows in all.

    JSON lines; Parquet with properties and ends, which a graph loads; with numbers for ends, which
    Kuzu loads; and with ids too, which is what Lance and Spark write down.
    """
    root, parameters = Path(spec["root"]), spec["parameters"]
    loads.prepare(spec)
    graph = social_graph(parameters["seed"], parameters["persons"])
    for kind, tables in (("nodes", graph.nodes), ("edges", graph.edges)):
        for name, table in tables.items():
            _write(table, root / _TABLES / kind / name / "part.parquet")
    for name, table in {**graph.nodes, **with_integer_endpoints(graph.edges)}.items():
        _write(table, root / _NUMBERS / f"{name}.parquet")
    _write_stored(graph, root / _STORED)
    return {}


def _write_stored(graph: GraphTables, folder: Path) -> None:
    for name, table in loads.with_ids(graph):
        _write(table, folder / f"{name}.parquet")


def _write(table: pa.Table, file: Path) -> None:
    file.parent.mkdir(parents=True, exist_ok=True)
    pq.write_table(table, file, compression="zstd", row_group_size=_ROW_GROUP)


def run_jsonl(spec: dict[str, Any]) -> dict[str, Any]:
    """JSON lines, on Spark."""
    return _run_graph(spec, Path(spec["inputs"]) / loads.JSONL)


def run_parquet(spec: dict[str, Any]) -> dict[str, Any]:
    """A folder of Parquet, on Spark."""
    return _run_graph(spec, Path(spec["inputs"]) / _TABLES)


def run_lance(spec: dict[str, Any]) -> dict[str, Any]:
    """The columns in memory written as bare tables, in one process."""
    return loads.run_lance(spec)


def run_spark_parquet(spec: dict[str, Any]) -> dict[str, Any]:
    """Write the rows as Parquet by Spark, from Parquet; nothing is checked."""
    session = warm_session(spec, for_java=True)
    source, out = Path(spec["inputs"]) / _STORED, Path(spec["root"]) / "out"

    def write(names: tuple[str, ...], to: Path) -> None:
        for name in names:
            frame = session.read.parquet(str(source / f"{name}.parquet"))
            frame.write.option("compression", "zstd").parquet(str(to / name))

    # The first jobs load and compile the code of the readers and of the writer.
    write(("HasInterest", "City"), out.with_name("warm"))
    _, use = watched(lambda: write(loads.TYPES, out))
    facts = [loads.facts_of(name, _ParquetFolder(out / name)) for name in loads.TYPES]
    return _sample(facts, use, {})


class _ParquetFolder:
    """A folder of Parquet files, read as a table is."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def to_table(self, columns: list[str]) -> pa.Table:
        return pq.read_table(self._folder, columns=columns)


def _run_graph(spec: dict[str, Any], data: Path) -> dict[str, Any]:
    warm_session(spec)
    graph = omnigraph.init(
        Path(spec["root"]) / "graph", (Path(spec["inputs"]) / loads.SCHEMA).read_text()
    )
    result, use = watched(lambda: graph.load(data, "append", engine="spark"))
    stored = stored_tables(graph, Path(spec["root"]) / "graph")
    facts = [loads.facts_of(name, stored[name]) for name in loads.TYPES]
    return _sample(facts, use, {"stages": result.stages})


def _sample(facts: list[Any], use: TreeUse, notes: dict[str, Any]) -> dict[str, Any]:
    rows = sum(fact[1] for fact in facts)
    return {
        "timings": {"load": use.wall, "processor": use.processor},
        "result_hash": hash_rows(facts),
        "work": {"load": rows},
        "memory": use.memory,
        "preview": facts,
        "notes": {**notes, "rows": rows},
    }

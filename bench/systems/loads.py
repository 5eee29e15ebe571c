"""Loading the social network: JSON lines into a graph, and the same columns into bare tables.

The bare tables get what the graph stores, ids included, already made; nothing is parsed, checked
or looked up for them. A second bare system parses the JSON lines as well, with Arrow's reader.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Protocol

import lance
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pa_json
import pyarrow.parquet as pq

import omnigraph
from bench.generators.files import write_jsonl
from bench.generators.social import social_graph
from bench.generators.tables import GraphTables
from bench.hashing import hash_rows
from bench.systems.bare_tables import FORMAT, NOTES
from bench.systems.clock import Seconds, timed

JSONL, SCHEMA = "graph.jsonl", "schema.pg"
_NODES = ("Person", "City", "State", "Country", "Interest")
_EDGES = ("Follows", "LivesIn", "HasInterest", "CityIn", "StateIn")
TYPES = (*_NODES, *_EDGES)

Facts = list[object]


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """The network as JSON lines, and as Parquet files of the columns that will be stored."""
    root, parameters = Path(spec["root"]), spec["parameters"]
    graph = social_graph(parameters["seed"], parameters["persons"])
    (root / SCHEMA).write_text(graph.schema_text)
    write_jsonl(graph, root / JSONL)
    for name, table in with_ids(graph):
        pq.write_table(table, root / f"{name}.parquet", compression="zstd")
    return {}


def run_lance(spec: dict[str, Any]) -> dict[str, Any]:
    """Arrow tables in memory, written as they are."""
    inputs = Path(spec["inputs"])
    tables = {name: pq.read_table(inputs / f"{name}.parquet") for name in TYPES}
    return _bare_sample(spec, lambda: tables)


def run_json_and_lance(spec: dict[str, Any]) -> dict[str, Any]:
    """The JSON lines parsed by Arrow, parted by type and written."""
    inputs = Path(spec["inputs"])
    shapes = {name: pq.read_schema(inputs / f"{name}.parquet") for name in TYPES}
    return _bare_sample(spec, lambda: _parse(inputs / JSONL, shapes))


def run_ours(spec: dict[str, Any]) -> dict[str, Any]:
    """One load: parsed, checked against the schema and the graph, and committed as a whole."""
    inputs, path = Path(spec["inputs"]), Path(spec["root"]) / "graph"
    graph = omnigraph.init(path, (inputs / SCHEMA).read_text())
    result, seconds = timed(lambda: graph.load(inputs / JSONL, "append", engine="local"))
    stored = {
        info.table_key.partition(":")[2]: lance.dataset(
            str(path / info.table_path), version=info.manifest_version
        )
        for info in graph.snapshot().tables
    }
    return _sample(seconds, result.total_entities, stored)


def _bare_sample(
    spec: dict[str, Any], tables: Callable[[], Mapping[str, pa.Table]]
) -> dict[str, Any]:
    root = Path(spec["root"])

    def write() -> dict[str, lance.LanceDataset]:
        return {
            name: lance.write_dataset(table, str(root / f"{name}.lance"), **FORMAT)
            for name, table in tables().items()
        }

    stored, seconds = timed(write)
    return _sample(seconds, sum(table.count_rows() for table in stored.values()), stored)


def _sample(
    seconds: Seconds, rows: int, stored: Mapping[str, lance.LanceDataset]
) -> dict[str, Any]:
    facts = [facts_of(name, stored[name]) for name in TYPES]
    return {
        "timings": {"load": seconds.wall, "processor": seconds.processor},
        "result_hash": hash_rows(facts),
        "work": {"load": rows},
        "preview": facts,
        "notes": {**NOTES, "rows": rows},
    }


class Readable(Protocol):
    """Rows by column, from any container."""

    def to_table(self, columns: list[str]) -> pa.Table: ...


def facts_of(name: str, table: Readable) -> Facts:
    """Figures that change if a row is lost, doubled, or given another name or other ends."""
    if name in _NODES:
        rows = table.to_table(columns=["id", "number", "name"])
        ids = pc.cast(rows["id"], pa.int64())
        letters = pc.utf8_length(rows["name"])
        mixed = pc.sum(pc.multiply(letters, rows["number"]))
        return [name, rows.num_rows, pc.sum(ids).as_py(), mixed.as_py()]
    rows = table.to_table(columns=["id", "src", "dst"])
    source, target = (pc.cast(rows[end], pa.int64()) for end in ("src", "dst"))
    mixed = pc.sum(pc.multiply(source, target))
    ids = pc.count_distinct(rows["id"])
    return [name, rows.num_rows, ids.as_py(), pc.sum(source).as_py(), mixed.as_py()]


def with_ids(graph: GraphTables) -> Iterator[tuple[str, pa.Table]]:
    for name, table in graph.nodes.items():
        yield name, table.add_column(0, _ID, pc.cast(table[graph.keys[name]], pa.string()))
    for name, table in graph.edges.items():
        yield name, table.add_column(0, _ID, _edge_ids(table.num_rows))


_ID = pa.field("id", pa.string(), nullable=False)


def _edge_ids(count: int) -> pa.Array:
    """Ids as long as those a graph mints."""
    return pc.utf8_lpad(pc.cast(pa.array(range(count)), pa.string()), 26, "0")


def _parse(path: Path, shapes: Mapping[str, pa.Schema]) -> dict[str, pa.Table]:
    records = pa_json.read_json(path)
    return {name: _of_type(records, name, shape) for name, shape in shapes.items()}


def _of_type(records: pa.Table, name: str, shape: pa.Schema) -> pa.Table:
    kind = "type" if name in _NODES else "edge"
    mine = records.filter(pc.equal(records[kind], name))
    columns = {"src": mine["from"], "dst": mine["to"]} if kind == "edge" else {}
    for field in shape:
        if field.name not in ("id", "src", "dst"):
            columns[field.name] = pc.struct_field(mine["data"], field.name).cast(field.type)
    if kind == "edge":
        columns["id"] = _edge_ids(mine.num_rows)
    else:
        columns["id"] = pc.cast(columns["number"], pa.string())
    return pa.table([columns[field.name] for field in shape], schema=shape)

"""Writing a generated graph as Parquet, as CSV, or as the JSON lines the graph loads."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.csv as pa_csv
import pyarrow.parquet as pq

from bench.generators.tables import GraphTables

_ROWS_AT_ONCE = 65_536


def write_parquet(graph: GraphTables, folder: Path) -> dict[str, Path]:
    """One `<Type>.parquet` per type; the paths by type name."""
    paths = _paths(graph, folder, "parquet")
    for name, table in graph.tables.items():
        pq.write_table(table, paths[name], compression="zstd")
    return paths


def write_csv(graph: GraphTables, folder: Path) -> dict[str, Path]:
    """One `<Type>.csv` per type, lists and vectors written as JSON text; the paths by type name."""
    paths = _paths(graph, folder, "csv")
    for name, table in graph.tables.items():
        pa_csv.write_csv(_flat(table), paths[name])
    return paths


def write_jsonl(graph: GraphTables, path: Path) -> int:
    """All nodes, then all edges, one record a line; returns the number of lines."""
    encoder = msgspec.json.Encoder()
    lines = 0
    with path.open("wb") as output:
        for records in _record_batches(graph):
            output.write(encoder.encode_lines(records))
            lines += len(records)
    return lines


def _paths(graph: GraphTables, folder: Path, suffix: str) -> dict[str, Path]:
    folder.mkdir(parents=True, exist_ok=True)
    return {name: folder / f"{name}.{suffix}" for name in graph.tables}


def _flat(table: pa.Table) -> pa.Table:
    """`table` with each list column as JSON text, for CSV has no lists."""
    encode = msgspec.json.Encoder().encode
    for index, field in enumerate(table.schema):
        if pa.types.is_list(field.type) or pa.types.is_fixed_size_list(field.type):
            values = (item for chunk in table.column(index).chunks for item in chunk.to_pylist())
            text = [None if value is None else encode(value).decode() for value in values]
            table = table.set_column(index, field.name, pa.array(text, pa.string()))
    return table


def _record_batches(graph: GraphTables) -> Iterator[list[dict[str, object]]]:
    for name, table in graph.nodes.items():
        for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
            yield [{"type": name, "data": row} for row in batch.to_pylist()]
    for name, table in graph.edges.items():
        for batch in table.to_batches(max_chunksize=_ROWS_AT_ONCE):
            yield [_edge_record(name, row) for row in batch.to_pylist()]


def _edge_record(name: str, row: dict[str, object]) -> dict[str, object]:
    return {"edge": name, "from": row.pop("src"), "to": row.pop("dst"), "data": row}

"""The source of changes, read as Spark reads it."""

from __future__ import annotations

import json

from pyspark.sql.streaming.datasource import ReadAllAvailable

from omnigraph.spark_source.datasource import GraphSource


def source(graph, **options) -> GraphSource:
    return GraphSource({"path": graph.uri, "changes": "true", **options})


def read(graph, **options) -> list[dict]:
    """The rows of a batch read."""
    made = source(graph, **options)
    reader = made.reader(schema=made.schema())
    partitions = reader.partitions() or [None]
    return [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]


def stream(graph, **options):
    made = source(graph, **options)
    return made.streamReader(schema=made.schema())


def kept(offset: dict) -> dict:
    """An offset as the checkpoint gives it back."""
    return json.loads(json.dumps(offset))


def rows_between(reader, start: dict, end: dict) -> list[dict]:
    partitions = reader.partitions(kept(start), kept(end))
    return [row for part in partitions for batch in reader.read(part) for row in batch.to_pylist()]


def next_batch(reader, start: dict, limit=None) -> tuple[dict, list[dict]]:
    """The next offset, and the rows up to it."""
    end = reader.latestOffset(kept(start), limit or reader.getDefaultReadLimit())
    return end, ([] if kept(end) == kept(start) else rows_between(reader, start, end))


def take_all(reader, start: dict | None = None) -> tuple[dict, list[dict]]:
    """Everything there is, batch after batch, and the offset behind it."""
    at = reader.initialOffset() if start is None else start
    rows: list[dict] = []
    while True:
        end, found = next_batch(reader, at)
        rows += found
        if kept(end) == kept(at):
            return at, rows
        at = end


def in_wire_form(row: dict) -> dict:
    """A row with images in JSON, as the feed reports the change."""
    change = {
        "kind": row["kind"],
        "type": row["type"],
        "id": row["id"],
        "op": row["op"],
    }
    images = {side: json.loads(row[side]) for side in ("before", "after") if row[side] is not None}
    return change | images


ALL = ReadAllAvailable()

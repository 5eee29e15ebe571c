"""Files of JSON: records of a graph, exports of Neo4j's APOC, or plain objects of one type."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json as pj

from omnigraph.errors import BadRequest
from omnigraph.interchange.read_neo4j_csv import LABELS
from omnigraph.interchange.record_tables import RecordTables
from omnigraph.interchange.source_tables import SourceGraph, SourceTable

_LOOKED_AT = 20
_BLOCK_BYTES = 64 << 20


def read_json_lines(path: Path, stem: str) -> SourceGraph:
    """The tables of one file, whichever of the three it is."""
    first = list(islice(_read_objects(path), _LOOKED_AT))
    if not first:
        return SourceGraph(())
    if all(_is_apoc(one) for one in first):
        return _read_apoc(path)
    if all(_is_record(one) for one in first):
        return _read_records(path)
    table = SourceTable(
        name=stem, origin=str(path), read=partial(_read_plain, path), has_text_dates=True
    )
    return SourceGraph((table,))


def _is_apoc(record: Mapping[str, Any]) -> bool:
    kind = record.get("type")
    return (kind == "node" and "id" in record) or (kind == "relationship" and "start" in record)


def _is_record(record: Mapping[str, Any]) -> bool:
    if record.keys() & {"type", "edge"} and record.keys() <= {"type", "edge", "from", "to", "data"}:
        return isinstance(record.get("data", {}), dict)
    return False


def _read_objects(path: Path) -> Iterator[Mapping[str, Any]]:
    """The objects of a file: one on each line, or those of one array or of APOC's two arrays."""
    decoder = msgspec.json.Decoder()
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            head = stream.read(1 << 16).lstrip(b"\xef\xbb\xbf \t\r\n")
            if head.startswith(b"["):
                yield from _require_objects(decoder.decode(head + stream.read()), path)
                return
            is_document = head.startswith((b'{"nodes"', b'{ "nodes"'))
            if is_document:
                document = decoder.decode(head + stream.read())
                yield from _require_objects([*document["nodes"], *document["rels"]], path)
                return
            rest = head
            while True:
                block = stream.read(1 << 22)
                rest += block
                whole, cut, left = rest.rpartition(b"\n")
                lines = whole if block else rest
                for line in lines.splitlines():
                    if line.strip():
                        yield _require_object(decoder.decode(line), path)
                if not block:
                    return
                rest = left if cut else rest
    except (OSError, pa.ArrowInvalid, msgspec.DecodeError, KeyError) as error:
        raise BadRequest(f"cannot read {path} as JSON: {error}") from error


def _require_objects(values: object, path: Path) -> Iterable[Mapping[str, Any]]:
    if not isinstance(values, list):
        raise BadRequest(f"cannot read {path} as JSON: expects an array of objects")
    return (_require_object(one, path) for one in values)


def _require_object(value: object, path: Path) -> Mapping[str, Any]:
    if not isinstance(value, dict):
        raise BadRequest(f"cannot read {path} as JSON: expects objects, one on each line")
    return value


def _read_apoc(path: Path) -> SourceGraph:
    tables = RecordTables(str(path), str(path))
    unlabelled = 0
    for record in _read_objects(path):
        properties = dict(record.get("properties") or {})
        if record.get("type") == "node":
            labels = list(record.get("labels") or [])
            unlabelled += not labels
            if len(labels) > 1:
                properties[LABELS] = labels
            tables.add_node(labels[0] if labels else "Node", str(record["id"]), properties)
        else:
            ends = str(record["start"]["id"]), str(record["end"]["id"])
            found = record.get("id")
            tables.add_edge(
                str(record["label"]), ends, properties, None if found is None else str(found)
            )
    lost = [f"{unlabelled} nodes of {path.name} have no label; they became Node"]
    return SourceGraph(tables.list_tables(), tuple(lost if unlabelled else ()))


def _read_records(path: Path) -> SourceGraph:
    """Records as `omnigraph load` reads them."""
    tables = RecordTables(str(path), None)
    for record in _read_objects(path):
        data = dict(record.get("data") or {})
        found = data.pop("id", None)
        if "type" in record:
            tables.add_node(str(record["type"]), found, data)
        else:
            ends = str(record.get("from")), str(record.get("to"))
            tables.add_edge(str(record["edge"]), ends, data, found)
    return SourceGraph(tables.list_tables())


def _read_plain(path: Path) -> Iterator[pa.RecordBatch]:
    """Objects of one type, read by columns."""
    try:
        with pa.input_stream(str(path), compression="detect") as stream:
            options = pj.ReadOptions(block_size=_BLOCK_BYTES)
            table = pj.read_json(stream, read_options=options)
    except (OSError, pa.ArrowInvalid) as error:
        raise BadRequest(f"cannot read {path} as JSON lines: {error}") from error
    yield from table.to_batches()

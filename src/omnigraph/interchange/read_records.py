"""Read JSON lines, GraphML and NetworkX graphs as records, with a table for each type."""

from __future__ import annotations

import xml.etree.ElementTree as ET
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from importlib.util import find_spec
from itertools import islice
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pyarrow.json as pj

from omnigraph.errors import BadRequest, MissingPackage
from omnigraph.identity import EntityKind
from omnigraph.interchange.read_neo4j import LABELS
from omnigraph.interchange.source_tables import SourceGraph, SourceTable

BATCH_ROWS = 50_000


@dataclass
class _Gathered:
    """The rows of one type: those of the last batch as lists, the others as tables."""

    columns: dict[str, list[object]] = field(default_factory=dict)
    rows: int = 0
    tables: list[pa.Table] = field(default_factory=list)

    def add(self, row: Mapping[str, object]) -> None:
        for name, value in row.items():
            column = self.columns.setdefault(name, [])
            column.extend([None] * (self.rows - len(column)))
            column.append(value)
        self.rows += 1
        if self.rows == BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.rows:
            columns = {
                name: _build_array(values + [None] * (self.rows - len(values)))
                for name, values in self.columns.items()
            }
            self.tables.append(pa.table(columns))
        self.columns, self.rows = {}, 0

    def close(self) -> pa.Table:
        self.flush()
        try:
            return pa.concat_tables(self.tables, promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            return pa.concat_tables(_as_texts(self.tables), promote_options="permissive")


class RecordTables:
    """Gathers nodes and edges by the names of their types, in the order they are first met."""

    def __init__(self, origin: str, group: str | None) -> None:
        self._origin, self._group = origin, group
        self._nodes: dict[str, _Gathered] = {}
        self._edges: dict[str, _Gathered] = {}

    def add_node(self, type_name: str, id: str | None, properties: Mapping[str, object]) -> None:
        structure = {} if id is None else {":id": id}
        self._nodes.setdefault(type_name, _Gathered()).add({**structure, **properties})

    def add_edge(
        self,
        type_name: str,
        ends: tuple[str, str],
        properties: Mapping[str, object],
        id: str | None = None,
    ) -> None:
        structure = {":from": ends[0], ":to": ends[1], ":id": id}
        self._edges.setdefault(type_name, _Gathered()).add({**structure, **properties})

    def list_tables(self) -> tuple[SourceTable, ...]:
        """A table for each type, in memory."""
        nodes = [self._make(name, rows, EntityKind.NODE) for name, rows in self._nodes.items()]
        edges = [self._make(name, rows, EntityKind.EDGE) for name, rows in self._edges.items()]
        return (*nodes, *edges)

    def _make(self, name: str, gathered: _Gathered, kind: EntityKind) -> SourceTable:
        table, is_node = gathered.close(), kind is EntityKind.NODE
        return SourceTable(
            name=name,
            origin=self._origin,
            read=table.to_batches,
            has_text_dates=True,
            kind=kind,
            key=":id" if is_node and ":id" in table.column_names else None,
            group=self._group if is_node else None,
            ends=None if is_node else (":from", ":to"),
            end_groups=(None, None) if is_node else (self._group, self._group),
            is_named_exactly=True,
        )


def _build_array(values: list[object]) -> pa.Array:
    """The values as a column; as JSON text where they are of several kinds."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return pa.array([_encode(value) for value in values], pa.string())


def _encode(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except TypeError:
        return str(value)


def _as_texts(tables: list[pa.Table]) -> list[pa.Table]:
    """The tables with those columns as text whose types do not go together."""
    kinds: dict[str, set[str]] = {}
    for table in tables:
        for one in table.schema:
            kinds.setdefault(one.name, set()).add(str(one.type))
    mixed = {name for name, found in kinds.items() if len(found - {"null"}) > 1}
    converted = []
    for table in tables:
        columns = {
            name: _build_texts(table.column(name)) if name in mixed else table.column(name)
            for name in table.column_names
        }
        converted.append(pa.table(columns))
    return converted


def _build_texts(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([_encode(value) for value in column.to_pylist()], pa.string())


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


_PARSERS: Mapping[str, Callable[[str], object]] = {
    "boolean": lambda text: {"true": True, "false": False, "1": True, "0": False}[text.lower()],
    "int": int,
    "long": int,
    "float": float,
    "double": float,
}


@dataclass(frozen=True, slots=True)
class _Key:
    """A declared property."""

    name: str
    type: str
    applies: str
    default: str | None


def read_graphml(path: Path) -> SourceGraph:
    """The nodes and edges of a file, a table for each type."""
    reader = _GraphmlReader(path)
    try:
        for event, element in ET.iterparse(path, events=("start", "end")):
            reader.take(event, element)
    except ET.ParseError as error:
        raise BadRequest(f"cannot read {path} as GraphML: {error}") from error
    except OSError as error:
        raise BadRequest(f"cannot read {path}: {error.strerror or error}") from error
    return SourceGraph(reader.tables.list_tables(), tuple(reader.lost))


class _GraphmlReader:
    def __init__(self, path: Path) -> None:
        self.tables = RecordTables(str(path), str(path))
        self.lost: list[str] = []
        self._path = path
        self._keys: dict[str, _Key] = {}
        self._noted: set[str] = set()

    def take(self, event: str, element: ET.Element) -> None:
        kind = element.tag.rpartition("}")[2]
        if event == "start":
            if kind == "graph" and element.get("edgedefault") == "undirected":
                self._note("undirected edges keep the direction in which they are written")
            return
        match kind:
            case "key":
                self._add_key(element)
            case "node":
                self._add_node(element)
                element.clear()
            case "edge":
                self._add_edge(element)
                element.clear()
            case "hyperedge" | "port":
                self._note(f"{kind} elements have no counterpart")
            case _:
                pass

    def _note(self, text: str) -> None:
        if text not in self._noted:
            self._noted.add(text)
            self.lost.append(f"{self._path.name}: {text}")

    def _add_key(self, element: ET.Element) -> None:
        found = next((one for one in element if one.tag.endswith("default")), None)
        default = None if found is None else (found.text or "")
        name = element.get("attr.name") or element.get("id") or ""
        kind = element.get("attr.type") or "string"
        key = _Key(name, kind.lower(), element.get("for") or "all", default)
        self._keys[element.get("id") or ""] = key

    def _add_node(self, element: ET.Element) -> None:
        properties = self._read_data(element, "node")
        labels = _split_labels(element.get("labels") or "")
        if labels:
            properties.pop(LABELS, None)
        if len(labels) > 1:
            properties[LABELS] = labels
        self.tables.add_node(labels[0] if labels else "Node", element.get("id") or "", properties)

    def _add_edge(self, element: ET.Element) -> None:
        properties = self._read_data(element, "edge")
        label = element.get("label")
        if label:
            properties.pop("label", None)
        ends = element.get("source") or "", element.get("target") or ""
        self.tables.add_edge(label or "Edge", ends, properties, element.get("id"))

    def _read_data(self, element: ET.Element, kind: str) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key in self._keys.values():
            if key.default is not None and key.applies in (kind, "all"):
                found[key.name] = self._parse(key, key.default)
        for data in element:
            if not data.tag.endswith("data"):
                continue
            key = self._keys.get(data.get("key") or "", _Key(data.get("key") or "", "", "", None))
            if len(data):
                self._note(f"{key.name or 'a key'} holds XML, not a value")
                continue
            found[key.name] = self._parse(key, data.text or "")
        return found

    def _parse(self, key: _Key, text: str) -> object:
        parse = _PARSERS.get(key.type)
        if parse is None:
            return text
        try:
            return parse(text.strip())
        except (ValueError, KeyError):
            raise BadRequest(
                f"cannot read {self._path} as GraphML: '{text}' is not a valid {key.type}, the "
                f"type declared for {key.name}"
            ) from None


def _split_labels(text: str) -> list[str]:
    return [one for one in text.strip(": ").split(":") if one]


_ORIGIN = "the NetworkX graph"


def read_networkx(source: Any, node_type: str | None, edge_type: str | None) -> SourceGraph:  # noqa: ANN401
    """The nodes and edges of a graph of any kind, a table for each type.

    Raises:
        BadRequest: it is no such graph.
        MissingPackage: NetworkX is not installed.
    """
    if find_spec("networkx") is None:
        raise MissingPackage("networkx", "importing from NetworkX", "pip install networkx")
    import networkx  # noqa: PLC0415 - optional

    if not isinstance(source, networkx.Graph):
        raise BadRequest(f"give a graph of NetworkX, not {type(source).__name__}")
    tables, lost = RecordTables(_ORIGIN, _ORIGIN), []
    for node, attributes in source.nodes(data=True):
        name, properties = _take_type(attributes, node_type, "Node")
        tables.add_node(name, str(node), properties)
    for first, second, attributes in source.edges(data=True):
        name, properties = _take_type(attributes, edge_type, "Edge")
        tables.add_edge(name, (str(first), str(second)), properties)
    if source.graph:
        lost.append(f"attributes of the whole graph: {', '.join(map(str, source.graph))}")
    if not source.is_directed():
        lost.append("the edges have no direction; they are kept from first to second end")
    return SourceGraph(tables.list_tables(), tuple(lost))


def _take_type(
    attributes: Mapping[Any, object], name: str | None, otherwise: str
) -> tuple[str, dict[str, object]]:
    properties = {str(key): value for key, value in attributes.items()}
    if name is None:
        return otherwise, properties
    return str(properties.pop(name, otherwise)), properties

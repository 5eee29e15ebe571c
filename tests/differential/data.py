"""Graph contents as plain dictionaries and lists: what the naive interpreter reads.

Values are what the engine is said to store: a date is a `date`, a moment a `datetime` in UTC cut
to milliseconds, a 32-bit float the nearest one, a list or vector a tuple.
"""

from __future__ import annotations

import json
import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta
from typing import NamedTuple

from omnigraph.catalog.catalog import Catalog, EntityType, NodeType
from omnigraph.types.property import PropertyType, Scalar

Value = object
Record = Mapping[str, object]

EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


class NodeRef(NamedTuple):
    """A node: ids are unique within a type only."""

    type: str
    id: str


class EdgeRef(NamedTuple):
    type: str
    id: str


@dataclass(frozen=True)
class Edge:
    id: str
    source: str
    target: str
    properties: Mapping[str, Value]


@dataclass
class GraphData:
    """Every entity: node properties by type and id, edges by type in the order they came."""

    nodes: dict[str, dict[str, dict[str, Value]]] = field(default_factory=dict)
    edges: dict[str, list[Edge]] = field(default_factory=dict)

    def edge(self, ref: EdgeRef) -> Edge:
        return next(edge for edge in self.edges[ref.type] if edge.id == ref.id)


def read_records(catalog: Catalog, records: Iterable[Record]) -> GraphData:
    """The contents that loading `records` into an empty graph makes; edges must name their id."""
    data = GraphData({name: {} for name in catalog.nodes}, {name: [] for name in catalog.edges})
    for record in records:
        given = dict(record.get("data") or {})
        if "type" in record:
            node_type = catalog.nodes[str(record["type"])]
            properties = _properties(node_type, given)
            data.nodes[node_type.name][_node_id(node_type, properties, given)] = properties
        else:
            edge_type = catalog.find_edge(str(record["edge"]))
            assert edge_type is not None, record
            ends = str(record["from"]), str(record["to"])
            edge = Edge(given["id"], *ends, _properties(edge_type, given))
            data.edges[edge_type.name].append(edge)
    return data


def read_jsonl(catalog: Catalog, text: str) -> GraphData:
    return read_records(catalog, map(json.loads, filter(None, text.splitlines())))


def _properties(entity: EntityType, given: Mapping[str, object]) -> dict[str, Value]:
    return {p.name: stored(given.get(p.name), p.type) for p in entity.properties}


# --- values ---------------------------------------------------------------------------------------


def stored(value: object, type_: PropertyType) -> Value:
    """The value a property holds after a JSON value was loaded into it."""
    if value is None:
        return None
    if type_.is_vector:
        return tuple(single(item) for item in value)  # type: ignore[attr-defined]
    if type_.is_list:
        return tuple(_scalar(item, type_.scalar) for item in value)  # type: ignore[attr-defined]
    return _scalar(value, type_.scalar)


def _scalar(value: object, scalar: Scalar) -> Value:
    match scalar:
        case Scalar.DATE:
            return date.fromisoformat(str(value))
        case Scalar.DATETIME:
            return moment(str(value))
        case Scalar.F32:
            return single(value)
        case Scalar.F64:
            return float(value)  # type: ignore[arg-type]
        case _:
            return value


def single(value: object) -> float:
    """The nearest 32-bit float."""
    rounded: float = struct.unpack("<f", struct.pack("<f", float(value)))[0]  # type: ignore[arg-type]
    return rounded


def moment(text: str) -> datetime:
    """A timestamp with `Z`, cut to milliseconds."""
    found = datetime.fromisoformat(text.replace("Z", "+00:00"))
    return found.replace(microsecond=found.microsecond // 1000 * 1000)


# --- identity -------------------------------------------------------------------------------------


def _node_id(
    node_type: NodeType, properties: Mapping[str, Value], given: Mapping[str, object]
) -> str:
    members = sorted(p.name for p in node_type.key)
    if not members:
        return str(given["id"])
    parts = [_canonical(properties[name]) for name in members]
    if len(parts) == 1:
        return parts[0]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


def _canonical(value: Value) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case str() | int():
            return str(value)
        case datetime():
            return str((value - EPOCH) // timedelta(milliseconds=1))
        case date():
            return str(value.toordinal() - EPOCH.toordinal())
        case _:
            raise AssertionError(f"no test data has the key {value!r}")

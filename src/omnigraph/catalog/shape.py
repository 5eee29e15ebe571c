"""The canonical shape of a schema: what it says, without identities and without its spelling.

Two texts have the same shape when they differ only in comments, in the order of what they declare
or in rename hints. The hash of the shape tells whether a stored text still says what was accepted.
The compiler has put everything into canonical order already; here it is only written down.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from omnigraph.catalog.model import (
    Annotation,
    Catalog,
    Constraint,
    EdgeType,
    Embed,
    InterfaceType,
    NodeType,
    Property,
)
from omnigraph.errors import JsonValue
from omnigraph.types.property import PropertyType

Json = dict[str, JsonValue]


def shape_hash(catalog: Catalog) -> str:
    """`sha256:<hex>` over the compact JSON of the shape; a draft's catalog will do as well."""
    return text_hash(compact_json(shape(catalog)))


def shape(catalog: Catalog) -> Json:
    """The schema as plain JSON values."""
    return {
        "interfaces": [_interface(i) for i in catalog.interfaces.values()],
        "nodes": [_node(n) for n in catalog.nodes.values()],
        "edges": [_edge(e) for e in catalog.edges.values()],
    }


def compact_json(value: JsonValue) -> str:
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
    )


def text_hash(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def type_json(type_: PropertyType) -> Json:
    """A property type as plans and records show it; a vector's scalar is `{"Vector": n}`."""
    scalar: JsonValue = {"Vector": type_.dimension} if type_.is_vector else str(type_.scalar)
    values = None if type_.enum_values is None else list(type_.enum_values)
    return {
        "scalar": scalar,
        "nullable": type_.nullable,
        "list": type_.is_list,
        "enum_values": values,
    }


def _property(property_: Property) -> Json:
    return {
        "name": property_.name,
        "type": type_json(property_.type),
        "declared_directly": property_.declared_directly,
        "annotations": _annotations(property_.annotations),
        "embed": _embed(property_.embed),
        # A list, because a default may itself be any JSON scalar.
        "default": [] if property_.default is None else [property_.default.value],
    }


def _embed(embed: Embed | None) -> Json | None:
    return None if embed is None else {"source": embed.source, "model": embed.model}


def _properties(properties: Iterable[Property]) -> list[Json]:
    return [_property(p) for p in properties]


def _annotations(annotations: Iterable[Annotation]) -> list[JsonValue]:
    return [[a.name, a.value, a.keywords] for a in annotations]


def _constraints(constraints: Iterable[Constraint]) -> list[Json]:
    return [_constraint(c) for c in constraints]


def _constraint(constraint: Constraint) -> Json:
    return {
        "kind": str(constraint.kind),
        "columns": list(constraint.columns),
        "low": constraint.low,
        "high": constraint.high,
        "pattern": constraint.pattern,
        "on_property": constraint.on_property,
    }


def _interface(interface: InterfaceType) -> Json:
    return {
        "name": interface.name,
        "properties": _properties(interface.properties),
        "constraints": _constraints(interface.constraints),
    }


def _node(node: NodeType) -> Json:
    return {
        "name": node.name,
        "annotations": _annotations(node.annotations),
        "implements": list(node.implements),
        "properties": _properties(node.properties),
        "constraints": _constraints(node.constraints),
    }


def _edge(edge: EdgeType) -> Json:
    return {
        "name": edge.name,
        "annotations": _annotations(edge.annotations),
        "from": edge.from_type,
        "to": edge.to_type,
        "cardinality": {"min": edge.minimum, "max": edge.maximum},
        "properties": _properties(edge.properties),
        "constraints": _constraints(edge.constraints),
    }

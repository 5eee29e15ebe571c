"""The canonical shape of a schema: what it says, without identities and without its spelling.

Two texts have the same shape when they differ only in comments, in the order of what they declare
or in rename hints. The hash of the shape tells whether a stored text still says what was accepted.
The compiler has put everything into canonical order already; here it is only written down.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

from omnigraph.catalog.catalog import (
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


def hash_shape(catalog: Catalog) -> str:
    """`sha256:<hex>` over the compact JSON of the shape; a draft's catalog will do as well."""
    return hash_text(compact_json(build_shape(catalog)))


def build_shape(catalog: Catalog) -> Json:
    """The schema as plain JSON values."""
    return {
        "interfaces": [_shape_interface(i) for i in catalog.interfaces.values()],
        "nodes": [_shape_node(n) for n in catalog.nodes.values()],
        "edges": [_shape_edge(e) for e in catalog.edges.values()],
    }


def compact_json(value: JsonValue) -> str:
    return json.dumps(
        value, ensure_ascii=False, separators=(",", ":"), sort_keys=True, allow_nan=False
    )


def hash_text(text: str) -> str:
    return f"sha256:{hashlib.sha256(text.encode()).hexdigest()}"


def encode_type(type_: PropertyType) -> Json:
    """A property type as plans and records show it; a vector's scalar is `{"Vector": n}`."""
    scalar: JsonValue = {"Vector": type_.dimension} if type_.is_vector else str(type_.scalar)
    values = None if type_.enum_values is None else list(type_.enum_values)
    return {
        "scalar": scalar,
        "nullable": type_.nullable,
        "list": type_.is_list,
        "enum_values": values,
    }


def _shape_property(property_: Property) -> Json:
    return {
        "name": property_.name,
        "type": encode_type(property_.type),
        "declared_directly": property_.declared_directly,
        "annotations": _shape_annotations(property_.annotations),
        "embed": _embed(property_.embed),
        # A list, because a default may itself be any JSON scalar.
        "default": [] if property_.default is None else [property_.default.value],
    }


def _embed(embed: Embed | None) -> Json | None:
    return None if embed is None else {"source": embed.source, "model": embed.model}


def _shape_properties(properties: Iterable[Property]) -> list[Json]:
    return [_shape_property(p) for p in properties]


def _shape_annotations(annotations: Iterable[Annotation]) -> list[JsonValue]:
    return [[a.name, a.value, a.keywords] for a in annotations]


def _shape_constraints(constraints: Iterable[Constraint]) -> list[Json]:
    return [_shape_constraint(c) for c in constraints]


def _shape_constraint(constraint: Constraint) -> Json:
    return {
        "kind": str(constraint.kind),
        "columns": list(constraint.columns),
        "low": constraint.low,
        "high": constraint.high,
        "pattern": constraint.pattern,
        "on_property": constraint.on_property,
    }


def _shape_interface(interface: InterfaceType) -> Json:
    return {
        "name": interface.name,
        "properties": _shape_properties(interface.properties),
        "constraints": _shape_constraints(interface.constraints),
    }


def _shape_node(node: NodeType) -> Json:
    return {
        "name": node.name,
        "annotations": _shape_annotations(node.annotations),
        "implements": list(node.implements),
        "properties": _shape_properties(node.properties),
        "constraints": _shape_constraints(node.constraints),
    }


def _shape_edge(edge: EdgeType) -> Json:
    return {
        "name": edge.name,
        "annotations": _shape_annotations(edge.annotations),
        "from": edge.from_type,
        "to": edge.to_type,
        "cardinality": {"min": edge.minimum, "max": edge.maximum},
        "properties": _shape_properties(edge.properties),
        "constraints": _shape_constraints(edge.constraints),
    }

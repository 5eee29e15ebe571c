"""A catalog as JSON: the stored schema IR, and its canonical shape with a hash."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable

import msgspec
from msgspec import Struct

from omnigraph.catalog.assign_identities import SchemaType
from omnigraph.catalog.catalog import (
    UNASSIGNED,
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
from omnigraph.result import Result
from omnigraph.types.property import PropertyType, Scalar

Json = dict[str, JsonValue]


def hash_shape(catalog: Catalog) -> str:
    """Return `sha256:<hex>` over the compact JSON of the shape, also for a draft."""
    return hash_text(compact_json(build_shape(catalog)))


def build_shape(catalog: Catalog) -> Json:
    """Build the shape of the schema as plain JSON values."""
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


class VectorScalar(Result, frozen=True):
    """The scalar of a vector: its dimension."""

    dimension: int | None = msgspec.field(name="Vector")


class TypeDocument(Result, frozen=True):
    """A property type as plans and records show it."""

    scalar: Scalar | VectorScalar
    nullable: bool
    is_list: bool = msgspec.field(name="list")
    enum_values: tuple[str, ...] | None

    @classmethod
    def of(cls, type_: PropertyType) -> TypeDocument:
        scalar = VectorScalar(type_.dimension) if type_.is_vector else type_.scalar
        return cls(scalar, type_.nullable, type_.is_list, type_.enum_values)

    def read(self) -> PropertyType:
        """Return the property type."""
        return PropertyType(
            Scalar.VECTOR if isinstance(self.scalar, VectorScalar) else self.scalar,
            nullable=self.nullable,
            is_list=self.is_list,
            enum_values=self.enum_values,
            dimension=self.scalar.dimension if isinstance(self.scalar, VectorScalar) else None,
        )

    def __str__(self) -> str:
        return str(self.read())


def _shape_property(property_: Property) -> Json:
    return {
        "name": property_.name,
        "type": TypeDocument.of(property_.type).wire(),
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


IR_VERSION = 1


class Record(Struct, frozen=True, forbid_unknown_fields=True):
    """Base of all records; an unknown member is rejected instead of lost."""


class TypeRef(Record, frozen=True):
    type_id: int
    name: str


class ColumnRef(Record, frozen=True):
    """A column of a rule; the endpoint columns `src` and `dst` have no property id."""

    name: str
    property_id: int | None


class ValueTypeRecord(Record, frozen=True):
    scalar: str | dict[str, int]
    nullable: bool
    list: bool
    enum_values: tuple[str, ...] | None


class AnnotationRecord(Record, frozen=True):
    name: str
    value: str | None
    kwargs: tuple[tuple[str, str], ...] = ()


class EmbedRecord(Record, frozen=True):
    source: str
    source_id: int | None
    model: str | None


class DefaultRecord(Record, frozen=True):
    value: str | int | float | bool


class PropertyRecord(Record, frozen=True):
    property_id: int
    name: str
    type: ValueTypeRecord
    annotations: tuple[AnnotationRecord, ...]
    embed: EmbedRecord | None
    default: DefaultRecord | None
    declared_directly: bool
    satisfies: tuple[int, ...]


class ConstraintRecord(Record, frozen=True):
    kind: str
    columns: tuple[ColumnRef, ...]
    low: str | None
    high: str | None
    pattern: str | None
    on_property: bool


class InterfaceRecord(Record, frozen=True):
    type_id: int
    name: str
    properties: tuple[PropertyRecord, ...]
    constraints: tuple[ConstraintRecord, ...]


class NodeRecord(Record, frozen=True):
    type_id: int
    incarnation_id: int
    name: str
    implements: tuple[TypeRef, ...]
    annotations: tuple[AnnotationRecord, ...]
    properties: tuple[PropertyRecord, ...]
    constraints: tuple[ConstraintRecord, ...]


class CardinalityRecord(Record, frozen=True):
    min: int
    max: int | None


class EdgeRecord(Record, frozen=True, rename={"from_type": "from", "to_type": "to"}):
    type_id: int
    incarnation_id: int
    name: str
    from_type: TypeRef
    to_type: TypeRef
    cardinality: CardinalityRecord
    annotations: tuple[AnnotationRecord, ...]
    properties: tuple[PropertyRecord, ...]
    constraints: tuple[ConstraintRecord, ...]


class IrRecord(Record, frozen=True):
    ir_version: int
    identity_domain: str
    next_identity_id: int
    interfaces: tuple[InterfaceRecord, ...]
    nodes: tuple[NodeRecord, ...]
    edges: tuple[EdgeRecord, ...]


class CatalogFormatRecord(Struct, frozen=True):
    """The format version only, decoded first so that a later format is reported as such."""

    ir_version: int


def encode_record(catalog: Catalog) -> IrRecord:
    """Encode the catalog as it is stored, by name throughout.

    Raises:
        KeyError: the catalog refers to a name that it does not declare.
    """
    return IrRecord(
        ir_version=IR_VERSION,
        identity_domain=catalog.identity_domain,
        next_identity_id=catalog.next_identity_id,
        interfaces=tuple(_encode_interface(t) for _, t in sorted(catalog.interfaces.items())),
        nodes=tuple(_encode_node(t, catalog) for _, t in sorted(catalog.nodes.items())),
        edges=tuple(_encode_edge(t, catalog) for _, t in sorted(catalog.edges.items())),
    )


def _encode_interface(interface: InterfaceType) -> InterfaceRecord:
    return InterfaceRecord(
        type_id=interface.id,
        name=interface.name,
        properties=_encode_properties(interface.properties),
        constraints=_encode_constraints(interface),
    )


def _encode_node(node: NodeType, catalog: Catalog) -> NodeRecord:
    return NodeRecord(
        type_id=node.id,
        incarnation_id=node.table_incarnation,
        name=node.name,
        implements=tuple(TypeRef(catalog.interfaces[n].id, n) for n in node.implements),
        annotations=_encode_annotations(node.annotations),
        properties=_encode_properties(node.properties),
        constraints=_encode_constraints(node),
    )


def _encode_edge(edge: EdgeType, catalog: Catalog) -> EdgeRecord:
    return EdgeRecord(
        type_id=edge.id,
        incarnation_id=edge.table_incarnation,
        name=edge.name,
        from_type=TypeRef(catalog.nodes[edge.from_type].id, edge.from_type),
        to_type=TypeRef(catalog.nodes[edge.to_type].id, edge.to_type),
        cardinality=CardinalityRecord(edge.minimum, edge.maximum),
        annotations=_encode_annotations(edge.annotations),
        properties=_encode_properties(edge.properties),
        constraints=_encode_constraints(edge),
    )


def _encode_properties(properties: Iterable[Property]) -> tuple[PropertyRecord, ...]:
    return tuple(_encode_property(p) for p in properties)


def _encode_property(property_: Property) -> PropertyRecord:
    embed, default = property_.embed, property_.default
    return PropertyRecord(
        property_id=property_.id,
        name=property_.name,
        type=_encode_value_type(property_.type),
        annotations=_encode_annotations(property_.annotations),
        embed=EmbedRecord(embed.source, _require_known_id(embed.source_id), embed.model)
        if embed
        else None,
        default=DefaultRecord(default.value) if default else None,
        declared_directly=property_.declared_directly,
        satisfies=property_.satisfies,
    )


def _require_known_id(id_: int) -> int | None:
    return None if id_ == UNASSIGNED else id_


def _encode_value_type(type_: PropertyType) -> ValueTypeRecord:
    vector = {"Vector": type_.dimension or 0}
    return ValueTypeRecord(
        scalar=vector if type_.is_vector else str(type_.scalar),
        nullable=type_.nullable,
        list=type_.is_list,
        enum_values=type_.enum_values,
    )


def _encode_annotations(annotations: Iterable[Annotation]) -> tuple[AnnotationRecord, ...]:
    return tuple(AnnotationRecord(a.name, a.value, a.keywords) for a in annotations)


def _encode_constraints(owner: SchemaType) -> tuple[ConstraintRecord, ...]:
    ids: dict[str, int | None] = {p.name: p.id for p in owner.properties}
    if isinstance(owner, EdgeType):
        ids |= {"src": None, "dst": None}
    return tuple(_encode_constraint(c, ids) for c in owner.constraints)


def _encode_constraint(constraint: Constraint, ids: dict[str, int | None]) -> ConstraintRecord:
    return ConstraintRecord(
        kind=str(constraint.kind),
        columns=tuple(ColumnRef(name, ids[name]) for name in constraint.columns),
        low=constraint.low,
        high=constraint.high,
        pattern=constraint.pattern,
        on_property=constraint.on_property,
    )

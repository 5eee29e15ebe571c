"""The accepted schema as stored JSON: its IR, and the state record with its hashes.

The IR contains everything, identities included. The state record contains the hashes of the IR and
of the shape of the schema, so that any change of text or IR is detected.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict, dataclass
from typing import TypeVar

import msgspec

from omnigraph.catalog.assign_identities import FIRST_IDENTITY, MAX_IDENTITY, list_types_by_owner
from omnigraph.catalog.catalog import (
    UNASSIGNED,
    Annotation,
    Catalog,
    Constraint,
    ConstraintKind,
    DefaultValue,
    EdgeType,
    Embed,
    EntityType,
    InterfaceType,
    NodeType,
    Property,
)
from omnigraph.catalog.schema_json import (
    IR_VERSION,
    AnnotationRecord,
    CatalogFormatRecord,
    ConstraintRecord,
    EdgeRecord,
    EmbedRecord,
    InterfaceRecord,
    IrRecord,
    NodeRecord,
    PropertyRecord,
    ValueTypeRecord,
    encode_record,
    hash_shape,
    hash_text,
)
from omnigraph.errors import SchemaContractMismatch
from omnigraph.identity import PropertyId, TableIncarnationId, TypeId
from omnigraph.struct_decoding import decode_into
from omnigraph.types.property import PropertyType, Scalar

STATE_FORMAT_VERSION = 2
IDENTITY_VERSION = 2

_Record = TypeVar("_Record")


@dataclass(frozen=True, slots=True)
class SchemaState:
    """The hashes of the stored schema text and its IR."""

    format_version: int
    schema_shape_hash: str
    schema_ir_hash: str
    schema_identity_version: int
    schema_identity_domain: str
    schema_source_hash: str | None = None
    """Digest of the compiled schema text; absent in graphs of earlier builds."""

    @classmethod
    def of(cls, catalog: Catalog, source: str | None = None) -> SchemaState:
        return cls(
            format_version=STATE_FORMAT_VERSION,
            schema_shape_hash=hash_shape(catalog),
            schema_ir_hash=hash_ir(catalog),
            schema_identity_version=IDENTITY_VERSION,
            schema_identity_domain=catalog.identity_domain,
            schema_source_hash=None if source is None else hash_text(source),
        )


def encode_ir(catalog: Catalog) -> str:
    """Encode the whole catalog as compact JSON; equal catalogs give equal texts."""
    return msgspec.json.encode(encode_record(catalog)).decode()


def decode_ir(text: str | bytes) -> Catalog:
    """Decode a stored IR.

    Raises:
        SchemaContractMismatch: not an IR, of another version, or inconsistent.
    """
    record, catalog = _read_ir(text)
    for problem in _find_contradictions(catalog, record):
        raise SchemaContractMismatch(f"the stored schema IR contradicts itself: {problem}")
    return catalog


def _read_ir(text: str | bytes) -> tuple[IrRecord, Catalog]:
    version = _parse(text, CatalogFormatRecord, "schema IR").ir_version
    if version != IR_VERSION:
        age = "newer than" if version > IR_VERSION else "older than"
        raise SchemaContractMismatch(
            f"the stored schema IR has version {version}, {age} the supported {IR_VERSION}"
        )
    record = _parse(text, IrRecord, "schema IR")
    try:
        catalog = _decode_catalog(record)
    except (ValueError, LookupError) as error:
        raise SchemaContractMismatch(f"the stored schema IR is not valid: {error}") from error
    return record, catalog


def hash_ir(catalog: Catalog) -> str:
    return hash_text(encode_ir(catalog))


def encode_state(state: SchemaState) -> str:
    known = {name: value for name, value in asdict(state).items() if value is not None}
    return msgspec.json.encode(known).decode()


def decode_state(text: str | bytes) -> SchemaState:
    """Decode the stored state record.

    Raises:
        SchemaContractMismatch: not a state record, or of another version.
    """
    envelope = _parse(text, dict, "schema state")
    for member, supported in _SUPPORTED.items():
        if (found := envelope.get(member)) != supported:
            raise SchemaContractMismatch(
                f"the stored schema state has {member} {found!r}; only {supported} is supported"
            )
    return _parse(text, SchemaState, "schema state")


_SUPPORTED = {
    "format_version": STATE_FORMAT_VERSION,
    "schema_identity_version": IDENTITY_VERSION,
}


def load_if_digest_matches(source: str, ir_text: str, state_text: str) -> Catalog | None:
    """Return the accepted catalog if the state record has the hashes of these texts, else None.

    Runs whenever a graph is opened, so nothing is compiled. After None, `check_contract` decides
    whether the texts agree nevertheless.
    """
    state = decode_state(state_text)
    hashes = (state.schema_source_hash, state.schema_ir_hash)
    if (hash_text(source), hash_text(ir_text)) != hashes:
        return None
    _, catalog = _read_ir(ir_text)
    _require_domain(catalog, state)
    return catalog


def _require_domain(catalog: Catalog, state: SchemaState) -> None:
    if catalog.identity_domain != state.schema_identity_domain:
        raise SchemaContractMismatch(
            f"the schema IR belongs to identity domain {catalog.identity_domain}, "
            f"the state record to {state.schema_identity_domain}"
        )


def check_contract(
    ir_text: str | bytes, state_text: str | bytes, compiled_source: Catalog
) -> Catalog:
    """Return the accepted catalog after a full check of IR, state record and schema text.

    `compiled_source` is the catalog of the stored text, of which only the shape is compared.

    Raises:
        SchemaContractMismatch: with the part that drifted.
    """
    state = decode_state(state_text)
    catalog = decode_ir(ir_text)
    if hash_ir(catalog) != state.schema_ir_hash:
        raise SchemaContractMismatch("the stored schema IR does not match its recorded hash")
    if hash_shape(catalog) != state.schema_shape_hash:
        raise SchemaContractMismatch("the shape of the schema IR does not match its recorded hash")
    _require_domain(catalog, state)
    if hash_shape(compiled_source) != state.schema_shape_hash:
        raise SchemaContractMismatch(
            "the stored schema text no longer matches the accepted compiled schema"
        )
    return catalog


def _parse(text: str | bytes, wanted: type[_Record], what: str) -> _Record:
    try:
        return decode_into(text, wanted)
    except (msgspec.DecodeError, UnicodeError, RecursionError) as error:
        raise SchemaContractMismatch(f"the stored {what} cannot be read: {error}") from error


def _find_contradictions(catalog: Catalog, record: IrRecord) -> Iterator[str]:
    """Yield problems of ids: duplicate, out of bounds, or not those of their names."""
    if not FIRST_IDENTITY <= catalog.next_identity_id <= MAX_IDENTITY:
        yield f"the next identity is {catalog.next_identity_id}"
    seen: set[int] = set()
    for id_ in _collect_ids(catalog):
        if id_ in seen or not FIRST_IDENTITY <= id_ < catalog.next_identity_id:
            yield f"identity {id_} is used twice or was never assigned"
        seen.add(id_)
    yield from _find_broken_links(catalog)
    try:
        again = encode_record(catalog)
    except KeyError as error:
        yield f"{error} is not declared"
        return
    if again != record:
        yield "ids and names of its references differ, or its order is not the canonical one"


def _collect_ids(catalog: Catalog) -> Iterator[int]:
    for type_ in list_types_by_owner(catalog).values():
        yield type_.id
        yield from (p.id for p in type_.properties)
        if isinstance(type_, EntityType):
            yield type_.table_incarnation


def _find_broken_links(catalog: Catalog) -> Iterator[str]:
    """Yield problems of the properties of each type, and of their references."""
    for type_ in list_types_by_owner(catalog).values():
        own = {p.name: p.id for p in type_.properties}
        if [p.name for p in type_.properties] != sorted(own):
            yield f"the properties of {type_.name} are not in order, or one is declared twice"
        implements = type_.implements if isinstance(type_, NodeType) else ()
        interfaces = [catalog.interfaces[name] for name in implements if name in catalog.interfaces]
        for property_ in type_.properties:
            embed = property_.embed
            if embed and embed.source_id != own.get(embed.source, UNASSIGNED):
                yield f"the embedding source of {type_.name}.{property_.name}"
            stands_for = (i.property(property_.name) for i in interfaces)
            if property_.satisfies != tuple(sorted(p.id for p in stands_for if p)):
                yield f"the interface properties behind {type_.name}.{property_.name}"


def _decode_catalog(record: IrRecord) -> Catalog:
    catalog = Catalog(
        identity_domain=record.identity_domain,
        next_identity_id=record.next_identity_id,
        interfaces={r.name: _decode_interface(r) for r in record.interfaces},
        nodes={r.name: _decode_node(r) for r in record.nodes},
        edges={r.name: _decode_edge(r) for r in record.edges},
    )
    declared = len(record.interfaces) + len(record.nodes) + len(record.edges)
    if len(list_types_by_owner(catalog)) != declared:
        raise ValueError("a type is declared twice")
    return catalog


def _decode_interface(record: InterfaceRecord) -> InterfaceType:
    return InterfaceType(
        id=TypeId(record.type_id),
        name=record.name,
        properties=_decode_properties(record.properties),
        constraints=_decode_constraints(record.constraints),
    )


def _decode_node(record: NodeRecord) -> NodeType:
    return NodeType(
        id=TypeId(record.type_id),
        table_incarnation=TableIncarnationId(record.incarnation_id),
        name=record.name,
        properties=_decode_properties(record.properties),
        constraints=_decode_constraints(record.constraints),
        annotations=_decode_annotations(record.annotations),
        implements=tuple(ref.name for ref in record.implements),
    )


def _decode_edge(record: EdgeRecord) -> EdgeType:
    return EdgeType(
        id=TypeId(record.type_id),
        table_incarnation=TableIncarnationId(record.incarnation_id),
        name=record.name,
        properties=_decode_properties(record.properties),
        constraints=_decode_constraints(record.constraints),
        annotations=_decode_annotations(record.annotations),
        from_type=record.from_type.name,
        to_type=record.to_type.name,
        minimum=record.cardinality.min,
        maximum=record.cardinality.max,
    )


def _decode_properties(records: Iterable[PropertyRecord]) -> tuple[Property, ...]:
    return tuple(_decode_property(r) for r in records)


def _decode_property(record: PropertyRecord) -> Property:
    default = record.default
    return Property(
        id=PropertyId(record.property_id),
        name=record.name,
        type=_decode_value_type(record.type),
        annotations=_decode_annotations(record.annotations),
        embed=_embed(record.embed),
        default=DefaultValue(default.value) if default else None,
        declared_directly=record.declared_directly,
        satisfies=tuple(PropertyId(id_) for id_ in record.satisfies),
    )


def _embed(record: EmbedRecord | None) -> Embed | None:
    if record is None:
        return None
    return Embed(record.source, PropertyId(record.source_id or UNASSIGNED), record.model)


def _decode_value_type(record: ValueTypeRecord) -> PropertyType:
    if isinstance(record.scalar, dict):
        scalar, dimension = Scalar.VECTOR, record.scalar["Vector"]
    else:
        scalar, dimension = Scalar(record.scalar), None
    return PropertyType(
        scalar=scalar,
        nullable=record.nullable,
        is_list=record.list,
        enum_values=record.enum_values,
        dimension=dimension,
    )


def _decode_annotations(records: Iterable[AnnotationRecord]) -> tuple[Annotation, ...]:
    return tuple(Annotation(r.name, r.value, r.kwargs) for r in records)


def _decode_constraints(records: Iterable[ConstraintRecord]) -> tuple[Constraint, ...]:
    return tuple(
        Constraint(
            kind=ConstraintKind(r.kind),
            columns=tuple(column.name for column in r.columns),
            low=r.low,
            high=r.high,
            pattern=r.pattern,
            on_property=r.on_property,
        )
        for r in records
    )

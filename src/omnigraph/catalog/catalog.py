"""The compiled schema: frozen values, names resolved, identities attached.

A draft is compiled and checked but has no identities yet. A type also names the indexes of its
table; column layout and index construction are decided by storage.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

from omnigraph.errors import Diagnostic
from omnigraph.identity import (
    EntityKind,
    PropertyId,
    TableIdentity,
    TableIncarnationId,
    TableKey,
    TypeId,
    make_table_key,
)
from omnigraph.language.source import NOWHERE, SourceText, Span
from omnigraph.types.property import STORAGE_FIELDS, STRUCTURAL_FIELDS, PropertyType

RESERVED_EVERYWHERE = STORAGE_FIELDS | {"id"}
RESERVED_ON_EDGES = STRUCTURAL_FIELDS | {"from", "to"}


class TypeKind(StrEnum):
    INTERFACE = "interface"
    NODE = "node"
    EDGE = "edge"


class IndexKind(StrEnum):
    """The kind of index built for one column."""

    BTREE = "btree"
    FULL_TEXT = "full_text"
    VECTOR = "vector"


@dataclass(frozen=True, slots=True)
class Annotation:
    """Metadata as written; values are text."""

    name: str
    value: str | None = None
    keywords: tuple[tuple[str, str], ...] = ()


@dataclass(frozen=True, slots=True)
class Embed:
    """`@embed("source", model="m")`: the source text of a vector property."""

    source: str
    source_id: PropertyId
    model: str | None = None


@dataclass(frozen=True, slots=True)
class DefaultValue:
    """`@default(…)`: the JSON value stored when an insert or a load leaves the property out."""

    value: str | int | float | bool


@dataclass(frozen=True, slots=True)
class Property:
    """One property of a type; `satisfies` names the interface properties it implements."""

    id: PropertyId
    name: str
    type: PropertyType
    annotations: tuple[Annotation, ...] = ()
    embed: Embed | None = None
    default: DefaultValue | None = None
    declared_directly: bool = True
    satisfies: tuple[PropertyId, ...] = ()


class ConstraintKind(StrEnum):
    KEY = "key"
    UNIQUE = "unique"
    INDEX = "index"
    RANGE = "range"
    CHECK = "check"


@dataclass(frozen=True, slots=True)
class Constraint:
    """One constraint over columns of a type.

    `columns` holds property names (`src` and `dst` too on edges), sorted, without duplicates.
    `low` and `high` are set for RANGE, as written; `pattern` for CHECK.
    `on_property` is true if it was written on the property rather than in the body.
    """

    kind: ConstraintKind
    columns: tuple[str, ...]
    low: str | None = None
    high: str | None = None
    pattern: str | None = None
    on_property: bool = False


@dataclass(frozen=True, slots=True)
class InterfaceType:
    """Properties and constraints that types share by implementing them."""

    id: TypeId
    name: str
    properties: tuple[Property, ...]
    constraints: tuple[Constraint, ...] = ()

    def property(self, name: str) -> Property | None:
        return next((p for p in self.properties if p.name == name), None)


@dataclass(frozen=True)
class EntityType:
    """The common members of node and edge types; `properties` are sorted by name."""

    id: TypeId
    table_incarnation: TableIncarnationId
    name: str
    properties: tuple[Property, ...]
    constraints: tuple[Constraint, ...]
    annotations: tuple[Annotation, ...] = ()

    @property
    def kind(self) -> EntityKind:
        raise AssertionError("a type is a node type or an edge type")

    @cached_property
    def table_key(self) -> TableKey:
        return make_table_key(self.kind, self.name)

    @property
    def identity(self) -> TableIdentity:
        return TableIdentity(self.id, self.table_incarnation)

    @cached_property
    def by_name(self) -> Mapping[str, Property]:
        return {p.name: p for p in self.properties}

    def property(self, name: str) -> Property | None:
        return self.by_name.get(name)

    @cached_property
    def merges_by_entity(self) -> bool:
        """Return whether the schema says `@merge(entity)`, so that rows merge as a whole."""
        return any(a.name == "merge" and a.value == "entity" for a in self.annotations)

    @cached_property
    def embedded(self) -> tuple[Property, ...]:
        """The vector properties that are computed from others."""
        return tuple(p for p in self.properties if p.embed is not None and p.type.is_vector)

    def of_kind(self, kind: ConstraintKind) -> tuple[Constraint, ...]:
        return tuple(c for c in self.constraints if c.kind is kind)


@dataclass(frozen=True)
class NodeType(EntityType):
    """A type of nodes."""

    implements: tuple[str, ...] = ()

    @property
    def kind(self) -> EntityKind:
        return EntityKind.NODE

    @cached_property
    def key(self) -> tuple[Property, ...]:
        """The key members in the order of ids: by stable property id, not by name."""
        columns = next((c.columns for c in self.of_kind(ConstraintKind.KEY)), ())
        members = [self.by_name[name] for name in columns]
        return tuple(sorted(members, key=lambda p: p.id))


@dataclass(frozen=True)
class EdgeType(EntityType):
    """A type of edges: between which types, and how many at each source."""

    from_type: str = ""
    to_type: str = ""
    minimum: int = 0
    maximum: int | None = None

    @property
    def kind(self) -> EntityKind:
        return EntityKind.EDGE

    @property
    def has_cardinality(self) -> bool:
        return self.minimum > 0 or self.maximum is not None

    @property
    def same_ends(self) -> bool:
        return self.from_type == self.to_type


@dataclass(frozen=True)
class Catalog:
    """The whole schema. Iteration is by name, independent of the order in the source."""

    identity_domain: str
    next_identity_id: int
    interfaces: Mapping[str, InterfaceType] = field(default_factory=dict)
    nodes: Mapping[str, NodeType] = field(default_factory=dict)
    edges: Mapping[str, EdgeType] = field(default_factory=dict)

    @cached_property
    def _edges_by_folded_name(self) -> Mapping[str, EdgeType]:
        return {name.lower(): edge for name, edge in self.edges.items()}

    @cached_property
    def by_table_key(self) -> Mapping[TableKey, NodeType | EdgeType]:
        types: list[NodeType | EdgeType] = [*self.nodes.values(), *self.edges.values()]
        return {t.table_key: t for t in types}

    def find_edge(self, word: str) -> EdgeType | None:
        """The edge a traversal or an input line means: the exact name, else ignoring case."""
        return self.edges.get(word) or self._edges_by_folded_name.get(word.lower())

    def implementers(self, interface: str) -> tuple[NodeType, ...]:
        return tuple(n for n in self.nodes.values() if interface in n.implements)

    def edges_touching(self, node_type: str) -> tuple[EdgeType, ...]:
        """The edge types with this node type at either end."""
        return tuple(e for e in self.edges.values() if node_type in (e.from_type, e.to_type))


def render_constraint(constraint: Constraint) -> str:
    """The constraint as a schema would write it in a body."""
    arguments = list(constraint.columns)
    if constraint.kind is ConstraintKind.RANGE:
        arguments.append(f"{constraint.low or ''}..{constraint.high or ''}")
    if constraint.pattern is not None:
        arguments.append(json.dumps(constraint.pattern, ensure_ascii=False))
    return f"@{constraint.kind}({', '.join(arguments)})"


UNASSIGNED = 0
"""The id of everything in a draft; assigned ids start at 1."""

Owner = tuple[TypeKind, str]
Member = tuple[TypeKind, str, str]


@dataclass(frozen=True)
class Draft:
    """The catalog with every id `UNASSIGNED`, `satisfies` empty and the rename hints.

    Hints map the new name to the old one; spans locate each declaration, so that identity errors
    can still refer to the text.
    """

    source: SourceText
    catalog: Catalog
    type_renames: Mapping[Owner, str] = field(default_factory=dict)
    property_renames: Mapping[Member, str] = field(default_factory=dict)
    type_spans: Mapping[Owner, Span] = field(default_factory=dict)
    property_spans: Mapping[Member, Span] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = ()

    def span_of(self, owner: Owner, member: str | None = None) -> Span:
        if member is None:
            return self.type_spans.get(owner, NOWHERE)
        return self.property_spans.get((*owner, member), NOWHERE)

    def find_position(self, entity: str) -> str:
        """Format file, line and column of `kind:Type` or `kind:Type.property`.

        A property that is not declared in the type, as one of an interface, has the position of the
        type. A type that is not declared has only the file.
        """
        kind, _, rest = entity.partition(":")
        name, _, member = rest.partition(".")
        span = NOWHERE
        if kind in tuple(TypeKind):
            owner = (TypeKind(kind), name)
            span = self.span_of(owner, member or None)
            if span is NOWHERE:
                span = self.span_of(owner)
        if span is NOWHERE:
            return self.source.name
        line, column = self.source.line_and_column(span.start)
        return f"{self.source.name}:{line}:{column}"


ID = "id"
SRC = "src"
DST = "dst"


@dataclass(frozen=True, slots=True)
class DeclaredIndex:
    """An index declared by the schema, built by maintenance and not by writes."""

    columns: tuple[str, ...]
    kind: IndexKind


def list_indexes(type_: EntityType) -> tuple[DeclaredIndex, ...]:
    """The indexes of a table in the order of its columns, each once."""
    indexes = [DeclaredIndex((name,), IndexKind.BTREE) for name in _list_id_columns(type_)]
    indexed = _list_single_columns(type_, ConstraintKind.INDEX)
    keyed = _list_single_columns(type_, ConstraintKind.KEY)
    for property_ in sorted(type_.properties, key=lambda p: p.name):
        if property_.name in indexed | keyed:
            kinds = _list_kinds(property_, is_key=property_.name in keyed)
            indexes += [DeclaredIndex((property_.name,), kind) for kind in kinds]
    return tuple(indexes)


def index_kinds(type_: PropertyType) -> tuple[IndexKind, ...]:
    """Return the indexes `@index` builds for a column of this type: none for lists and blobs."""
    if type_.is_list or type_.is_blob:
        return ()
    if type_.is_vector:
        return (IndexKind.VECTOR,)
    if type_.is_string and not type_.is_enum:
        return (IndexKind.FULL_TEXT,)
    return (IndexKind.BTREE,)


def _list_kinds(property_: Property, *, is_key: bool) -> tuple[IndexKind, ...]:
    """List the kinds; a text key also needs lookups by exact value, which full text cannot do."""
    kinds = index_kinds(property_.type)
    if is_key and IndexKind.FULL_TEXT in kinds:
        return (*kinds, IndexKind.BTREE)
    return kinds


def _list_id_columns(type_: EntityType) -> tuple[str, ...]:
    return (ID, SRC, DST) if isinstance(type_, EdgeType) else (ID,)


def _list_single_columns(type_: EntityType, kind: ConstraintKind) -> frozenset[str]:
    return frozenset(c.columns[0] for c in type_.of_kind(kind) if len(c.columns) == 1)

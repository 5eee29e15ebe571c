"""The syntax tree of a schema file, as written: names are not resolved."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.language.source import Span, declare_span
from omnigraph.types.property import PropertyType


@dataclass(frozen=True, slots=True)
class SchemaLiteral:
    """A literal as written: `kind` is string, integer, float or bool."""

    kind: str
    text: str
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class NameRef:
    """The name of a type where it is used."""

    name: str
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class RangeBounds:
    """`lo..hi` as written; either side may be missing, not both."""

    low: str | None
    high: str | None
    span: Span = declare_span()


AnnotationArgument = SchemaLiteral | NameRef
ConstraintArgument = RangeBounds | SchemaLiteral | NameRef


@dataclass(frozen=True, slots=True)
class AnnotationDecl:
    """`@name`, `@name(value)` or `@name(value, key=value, …)`."""

    name: str
    argument: AnnotationArgument | None = None
    keywords: tuple[tuple[str, SchemaLiteral], ...] = ()
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class ConstraintClause:
    """`@key(…)`, `@unique(…)`, `@index(…)`, `@range(…)` or `@check(…)` in a body."""

    kind: str
    arguments: tuple[ConstraintArgument, ...]
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class PropertyDecl:
    """`name: String @key`."""

    name: str
    type: PropertyType
    annotations: tuple[AnnotationDecl, ...] = ()
    span: Span = declare_span()
    type_span: Span = declare_span()


BodyItem = PropertyDecl | ConstraintClause


@dataclass(frozen=True, slots=True)
class InterfaceDecl:
    """`interface Named { … }`."""

    name: str
    properties: tuple[PropertyDecl, ...]
    span: Span = declare_span()
    name_span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class NodeDecl:
    """`node Person implements Named { … }`."""

    name: str
    annotations: tuple[AnnotationDecl, ...]
    implements: tuple[NameRef, ...]
    body: tuple[BodyItem, ...]
    span: Span = declare_span()
    name_span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class Cardinality:
    """`@card(0..1)`."""

    minimum: int
    maximum: int | None
    span: Span = declare_span()


@dataclass(frozen=True, slots=True)
class EdgeDecl:
    """`edge Knows: Person -> Person { … }`."""

    name: str
    from_type: NameRef
    to_type: NameRef
    cardinality: Cardinality | None
    annotations: tuple[AnnotationDecl, ...]
    body: tuple[BodyItem, ...]
    span: Span = declare_span()
    name_span: Span = declare_span()


Declaration = InterfaceDecl | NodeDecl | EdgeDecl


@dataclass(frozen=True, slots=True)
class SchemaFile:
    """A schema text."""

    declarations: tuple[Declaration, ...]

"""What a schema text declares, between its syntax tree and the catalog."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.catalog.catalog import Annotation, Constraint, Property
from omnigraph.catalog.schema_mistakes import OwnerName
from omnigraph.language.source import NOWHERE, Span


@dataclass(frozen=True, slots=True)
class PlacedConstraint:
    """A constraint and where it is written; the place takes no part in comparison."""

    constraint: Constraint
    span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DeclaredProperty:
    """A property with the constraints written on it.

    Two of them are equal when they mean the same, wherever they stand and whatever they were
    called before.
    """

    property: Property
    rules: tuple[PlacedConstraint, ...] = ()
    renamed_from: str | None = field(default=None, compare=False)
    span: Span = field(default=NOWHERE, compare=False)
    type_span: Span = field(default=NOWHERE, compare=False)
    embed_span: Span = field(default=NOWHERE, compare=False)


@dataclass(frozen=True, slots=True)
class DeclaredType:
    """One interface, node type or edge type; a node type with what its interfaces give it."""

    owner: OwnerName
    span: Span
    properties: Mapping[str, DeclaredProperty]
    constraints: tuple[Constraint, ...]
    annotations: tuple[Annotation, ...] = ()
    renamed_from: str | None = None

    def sort_properties(self) -> tuple[Property, ...]:
        return tuple(self.properties[name].property for name in sorted(self.properties))

"""The two sides of a migration, and one type as it stands on both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from omnigraph.catalog.catalog import Annotation, Catalog, NodeType, Property, TypeKind
from omnigraph.catalog.migration_steps import DropMode, UnsupportedChange
from omnigraph.catalog.renames import SchemaType, list_types_by_owner
from omnigraph.identity import PropertyId, TypeId

EDITABLE = frozenset({"description", "instruction"})
"""Annotations that are prose: they may change without asking the data."""


@dataclass(frozen=True)
class SchemaSides:
    """The accepted schema, the desired one with its identities, and how drops are done."""

    accepted: Catalog
    desired: Catalog
    drop_mode: DropMode
    expressions: Mapping[str, str] = field(default_factory=dict)
    """What gives existing rows their values, by `Type.property` or `kind:Type.property`."""

    def expression(self, pair: ChangedType, name: str) -> str | None:
        """What gives the property its values in existing rows; an interface has no rows."""
        if pair.kind is TypeKind.INTERFACE:
            return None
        found = self.expressions.get(f"{pair.entity}.{name}")
        return found or self.expressions.get(f"{pair.after.name}.{name}")

    @cached_property
    def interface_of(self) -> Mapping[PropertyId, TypeId]:
        """The interface of each interface property that exists on both sides."""
        accepted, desired = (_list_interface_properties(c) for c in (self.accepted, self.desired))
        return {id_: owner for id_, owner in desired.items() if id_ in accepted}

    def types(self, kind: TypeKind) -> tuple[Sequence[SchemaType], Sequence[SchemaType]]:
        """The accepted and the desired types of one kind, each by name."""
        return _list_types(self.accepted, kind), _list_types(self.desired, kind)

    def list_implemented(self, pair: ChangedType) -> tuple[frozenset[TypeId], frozenset[TypeId]]:
        """The interfaces the type implements, before and after."""
        return _list_implemented(self.accepted, pair.before), _list_implemented(
            self.desired, pair.after
        )


@dataclass(frozen=True, slots=True)
class ChangedType:
    """One type before and after; `after` may have another name."""

    kind: TypeKind
    before: SchemaType
    after: SchemaType

    @property
    def entity(self) -> str:
        return f"{self.kind}:{self.after.name}"

    def refuse(self, reason: str, code: str | None = None) -> UnsupportedChange:
        return UnsupportedChange(self.entity, reason, code)

    def refuse_property(
        self, property_: Property, reason: str, code: str | None = None
    ) -> UnsupportedChange:
        return UnsupportedChange(f"{self.entity}.{property_.name}", reason, code)


def select_prose(annotations: Sequence[Annotation]) -> tuple[Annotation, ...]:
    return tuple(a for a in annotations if a.name in EDITABLE)


def select_other_annotations(annotations: Sequence[Annotation]) -> tuple[Annotation, ...]:
    return tuple(a for a in annotations if a.name not in EDITABLE)


BEYOND_PROSE = (
    "changing annotations beyond @description/@instruction is not supported; leave them as they are"
)


def _list_types(catalog: Catalog, kind: TypeKind) -> Sequence[SchemaType]:
    return [type_ for (k, _), type_ in list_types_by_owner(catalog).items() if k is kind]


def _list_implemented(catalog: Catalog, type_: SchemaType) -> frozenset[TypeId]:
    names = type_.implements if isinstance(type_, NodeType) else ()
    return frozenset(catalog.interfaces[name].id for name in names)


def _list_interface_properties(catalog: Catalog) -> dict[PropertyId, TypeId]:
    return {p.id: i.id for i in catalog.interfaces.values() for p in i.properties}

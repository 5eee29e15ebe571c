"""Compare types of the accepted and the desired schema: names, metadata and constraints."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from omnigraph.catalog.assign_identities import SchemaType, list_types_by_owner
from omnigraph.catalog.catalog import (
    Annotation,
    Catalog,
    Constraint,
    ConstraintKind,
    EdgeType,
    EntityType,
    NodeType,
    Property,
    TypeKind,
    render_constraint,
)
from omnigraph.evolution.migration_steps import (
    AddConstraint,
    AnnotationDocument,
    CardinalityBounds,
    ChangeCardinality,
    ConstraintDocument,
    DropMode,
    RemoveConstraint,
    RenameType,
    Step,
    UnsupportedChange,
    UpdateTypeMetadata,
)
from omnigraph.identity import PropertyId, TypeId

EDITABLE = frozenset({"description", "instruction", "merge"})
"""Annotations that may change without a check of the data."""


@dataclass(frozen=True)
class SchemaSides:
    """The accepted schema, the desired one with its identities, and how drops are done."""

    accepted: Catalog
    desired: Catalog
    drop_mode: DropMode
    expressions: Mapping[str, str] = field(default_factory=dict)
    """Expressions for existing rows, by `Type.property` or `kind:Type.property`."""

    def expression(self, pair: ChangedType, name: str) -> str | None:
        """Return the expression for the property in existing rows; an interface has no rows."""
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


def select_editable(annotations: Sequence[Annotation]) -> tuple[Annotation, ...]:
    return tuple(a for a in annotations if a.name in EDITABLE)


def select_other_annotations(annotations: Sequence[Annotation]) -> tuple[Annotation, ...]:
    return tuple(a for a in annotations if a.name not in EDITABLE)


BEYOND_EDITABLE = (
    "changing annotations beyond @description/@instruction is not supported; leave them as they are"
)


def _list_types(catalog: Catalog, kind: TypeKind) -> Sequence[SchemaType]:
    return [type_ for (k, _), type_ in list_types_by_owner(catalog).items() if k is kind]


def _list_implemented(catalog: Catalog, type_: SchemaType) -> frozenset[TypeId]:
    names = type_.implements if isinstance(type_, NodeType) else ()
    return frozenset(catalog.interfaces[name].id for name in names)


def _list_interface_properties(catalog: Catalog) -> dict[PropertyId, TypeId]:
    return {p.id: i.id for i in catalog.interfaces.values() for p in i.properties}


def plan_type_changes(pair: ChangedType, sides: SchemaSides) -> Iterator[Step]:
    """Yield renames, then changes of interfaces and endpoints, then metadata."""
    yield from _rename(pair)
    yield from _plan_implements(pair, sides)
    yield from _plan_endpoints(pair, sides)
    yield from _plan_cardinality(pair)
    yield from _plan_type_metadata(pair)


def _rename(pair: ChangedType) -> Iterator[Step]:
    old, new = pair.before.name, pair.after.name
    if old == new:
        return
    if pair.kind is TypeKind.INTERFACE:
        yield pair.refuse(
            f"renaming interfaces is not supported: {old} to {new}; keep the old name"
        )
    else:
        yield RenameType(pair.kind, old, new)


def _plan_implements(pair: ChangedType, sides: SchemaSides) -> Iterator[Step]:
    before, after = sides.list_implemented(pair)
    if before != after:
        yield pair.refuse("changing implemented interfaces is not supported; keep those it has")


def _plan_endpoints(pair: ChangedType, sides: SchemaSides) -> Iterator[Step]:
    """Refuse changed endpoints, compared by identity: a renamed node type is the same end."""
    before, after = pair.before, pair.after
    if not isinstance(before, EdgeType) or not isinstance(after, EdgeType):
        return
    if _describe_ends(before, sides.accepted) != _describe_ends(after, sides.desired):
        yield pair.refuse(
            "changing edge endpoints is not supported: "
            f"{before.from_type} -> {before.to_type} to {after.from_type} -> {after.to_type}; "
            "add another edge type"
        )


def _describe_ends(edge: EdgeType, catalog: Catalog) -> tuple[TypeId, TypeId]:
    return catalog.nodes[edge.from_type].id, catalog.nodes[edge.to_type].id


def _plan_cardinality(pair: ChangedType) -> Iterator[Step]:
    before, after = pair.before, pair.after
    if not isinstance(before, EdgeType) or not isinstance(after, EdgeType):
        return
    old = CardinalityBounds(before.minimum, before.maximum)
    new = CardinalityBounds(after.minimum, after.maximum)
    if old != new:
        yield ChangeCardinality(TypeKind.EDGE, after.name, old, new)


def _plan_type_metadata(pair: ChangedType) -> Iterator[Step]:
    before, after = pair.before, pair.after
    if not isinstance(before, EntityType) or not isinstance(after, EntityType):
        return
    if select_editable(before.annotations) != select_editable(after.annotations):
        edited = map(AnnotationDocument.of, select_editable(after.annotations))
        yield UpdateTypeMetadata(pair.kind, after.name, tuple(edited))
    if select_other_annotations(before.annotations) != select_other_annotations(after.annotations):
        reason = BEYOND_EDITABLE.replace("@instruction", "@instruction/@merge")
        yield pair.refuse(reason)


_STAY = "; leave it where it is, since both mean the same"
Member = PropertyId | str
"""A column by its property's id; `src` and `dst` have none and stand for themselves."""


@dataclass(frozen=True, slots=True)
class _Rule:
    """A constraint by column identities instead of names."""

    kind: ConstraintKind
    members: frozenset[Member]
    low: str | None
    high: str | None
    pattern: str | None


_Rules = Mapping[_Rule, Constraint]


@dataclass(frozen=True)
class ConstraintChanges:
    """The rules of one type before and after."""

    pair: ChangedType
    before: _Rules
    after: _Rules

    @cached_property
    def _before_on(self) -> Mapping[Member, _Rules]:
        return _group_by_property(self.before)

    @cached_property
    def _after_on(self) -> Mapping[Member, _Rules]:
        return _group_by_property(self.after)

    @classmethod
    def between(cls, pair: ChangedType) -> ConstraintChanges:
        return cls(pair, _collect_rules(pair.before), _collect_rules(pair.after))

    def of_property(self, property_: Property) -> Iterator[Step]:
        """Yield changed rules of a retained or added property: first removed, then added ones."""
        for rule in self._before_on.get(property_.id, {}):
            if rule not in self.after:
                yield self._remove_constraint(self.before[rule])
            elif self._has_moved(rule):
                reason = "moving property constraints into the body is not supported"
                yield self.pair.refuse_property(property_, f"{reason}: @{rule.kind}{_STAY}")
        for rule, constraint in self._after_on.get(property_.id, {}).items():
            if rule not in self.before:
                yield self._add_constraint(constraint)
            elif self._has_moved(rule):
                reason = "moving body rules to property constraints is not supported"
                yield self.pair.refuse_property(property_, f"{reason}: @{rule.kind}{_STAY}")

    def of_body(self) -> Iterator[Step]:
        """Yield changed rules of the body, and removed rules of dropped properties."""
        kept = {p.id for p in self.pair.after.properties}
        for rule, constraint in self.before.items():
            concerns_body = not constraint.on_property or not rule.members & kept
            if concerns_body and rule not in self.after:
                yield self._remove_constraint(constraint)
        for rule, constraint in self.after.items():
            if not constraint.on_property and rule not in self.before:
                yield self._add_constraint(constraint)

    def _has_moved(self, rule: _Rule) -> bool:
        return self.before[rule].on_property != self.after[rule].on_property

    def _add_constraint(self, constraint: Constraint) -> Step:
        rule = ConstraintDocument.of(constraint)
        return AddConstraint(self.pair.kind, self.pair.after.name, rule)

    def _remove_constraint(self, constraint: Constraint) -> Step:
        """Return the step, refused for a key: the ids of its type are derived from it."""
        if constraint.kind is ConstraintKind.KEY:
            return self.pair.refuse(
                f"removing {render_constraint(constraint)} is not supported; add another type"
            )
        rule = ConstraintDocument.of(constraint)
        return RemoveConstraint(self.pair.kind, self.pair.after.name, rule)


def _collect_rules(type_: SchemaType) -> _Rules:
    ids = {p.name: p.id for p in type_.properties}
    return {_describe_rule(constraint, ids): constraint for constraint in type_.constraints}


def _describe_rule(constraint: Constraint, ids: Mapping[str, PropertyId]) -> _Rule:
    members: frozenset[Member] = frozenset(ids.get(name, name) for name in constraint.columns)
    return _Rule(constraint.kind, members, constraint.low, constraint.high, constraint.pattern)


def _group_by_property(rules: _Rules) -> Mapping[Member, _Rules]:
    """The rules that are written on a property, by its id."""
    found: dict[Member, dict[_Rule, Constraint]] = {}
    for rule, constraint in rules.items():
        if constraint.on_property:
            (member,) = rule.members
            found.setdefault(member, {})[rule] = constraint
    return found

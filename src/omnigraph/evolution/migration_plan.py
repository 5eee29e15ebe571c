"""Plan the migration from the accepted schema to the desired one, as ordered steps.

A change that could lose values, change ids or refuse stored rows is a step that is not supported.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.catalog.assign_identities import SchemaType, identify_next
from omnigraph.catalog.catalog import (
    Annotation,
    Catalog,
    ConstraintKind,
    DefaultValue,
    Draft,
    Property,
    TypeKind,
)
from omnigraph.catalog.codec import encode_ir
from omnigraph.catalog.schema_json import TypeDocument
from omnigraph.catalog.schema_lint import (
    DROP_EDGE_TYPE,
    DROP_NODE_TYPE,
    DROP_PROPERTY,
    DROP_VECTOR,
    REQUIRED_WITHOUT_DEFAULT,
    TYPE_CHANGE,
)
from omnigraph.errors import BadExpression, Diagnostic, Severity
from omnigraph.evolution.migration_steps import (
    AddConstraint,
    AddProperty,
    AddType,
    AnnotationDocument,
    ChangePropertyType,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    RenameProperty,
    Step,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)
from omnigraph.evolution.type_migration import (
    BEYOND_EDITABLE,
    ChangedType,
    ConstraintChanges,
    SchemaSides,
    plan_type_changes,
    select_editable,
    select_other_annotations,
)
from omnigraph.identity import PropertyId
from omnigraph.language.source import NOWHERE
from omnigraph.result import Result
from omnigraph.types.property import INTEGERS, PropertyType, Scalar

ADDITIVE = (
    AddType,
    AddProperty,
    ExtendEnum,
    UpdateTypeMetadata,
    UpdatePropertyMetadata,
)
"""Steps that keep the meaning of stored rows: branches with and without them can be merged."""


def is_additive(step: Step) -> bool:
    if isinstance(step, AddConstraint):
        return step.constraint.index is not None
    return isinstance(step, ADDITIVE)


class MigrationNote(Result, frozen=True):
    """A note about a migration, without a position, because the declaration may be gone."""

    severity: Severity
    code: str
    message: str


class MigrationPlan(Result, frozen=True):
    """The steps of a migration, and notes about it."""

    supported: bool
    step_count: int
    steps: tuple[Step, ...]
    notes: tuple[MigrationNote, ...]

    @classmethod
    def of(cls, steps: tuple[Step, ...], notes: Iterable[Diagnostic]) -> MigrationPlan:
        is_supported = not any(isinstance(step, UnsupportedChange) for step in steps)
        told = tuple(MigrationNote(one.severity, one.code, one.message) for one in notes)
        return cls(is_supported, len(steps), steps, told)

    @property
    def first_unsupported(self) -> UnsupportedChange | None:
        return next((s for s in self.steps if isinstance(s, UnsupportedChange)), None)

    @property
    def is_empty(self) -> bool:
        return not self.steps


@dataclass(frozen=True, slots=True)
class PlannedMigration:
    """A plan, and the catalog that it leads to."""

    plan: MigrationPlan
    catalog: Catalog

    @property
    def steps(self) -> tuple[Step, ...]:
        return self.plan.steps


def plan_migration(
    accepted: Catalog,
    desired: Draft,
    *,
    allow_data_loss: bool = False,
    expressions: Mapping[str, str] | None = None,
    other: Catalog | None = None,
) -> PlannedMigration:
    """Plan the steps that make `desired` the schema of a graph that has `accepted`.

    Unsupported changes are steps too, so that a plan shows all of them at once. `expressions`
    compute new and changed properties of existing rows, each by `Type.property`, or by
    `edge:Type.property` where a node type has the same name. New declarations get the ids they
    have in `other`, the schema of another branch.

    Raises:
        BadExpression: an expression is for an unknown property.
        CompileError: rename hints that do not fit the accepted schema.
    """
    identified = identify_next(desired, accepted, other)
    mode = DropMode.HARD if allow_data_loss else DropMode.SOFT
    sides = SchemaSides(accepted, identified.catalog, mode, expressions or {})
    _require_known(sides, desired)
    steps = tuple(step for kind in TypeKind for step in _plan_kind(kind, sides))
    if not steps and encode_ir(accepted) != encode_ir(identified.catalog):
        steps = (UnsupportedChange("schema", "unclassified schema change"),)
    notes = (*desired.warnings, *identified.notes, *_note_drops(steps, sides, desired))
    return PlannedMigration(MigrationPlan.of(steps, notes), identified.catalog)


def _require_known(sides: SchemaSides, draft: Draft) -> None:
    types = sides.desired.by_table_key.items()
    known = {f"{key}.{p.name}" for key, type_ in types for p in type_.properties}
    short = {name.partition(":")[2] for name in known}
    for name, expression in sides.expressions.items():
        if name not in known | short:
            owner = name.partition(".")[0]
            keys = [key for key, type_ in types if owner in (key, type_.name)]
            position = draft.find_position(keys[0] if keys else owner)
            raise BadExpression(name, expression, "there is no such property", position)


def _plan_kind(kind: TypeKind, sides: SchemaSides) -> Iterator[Step]:
    accepted, desired = sides.types(kind)
    before = {t.id: t for t in accepted}
    for after in desired:
        if after.id in before:
            yield from _plan_type(ChangedType(kind, before[after.id], after), sides)
        else:
            yield AddType(kind, after.name)
    kept = {t.id for t in desired}
    for gone in accepted:
        if gone.id not in kept:
            yield _plan_removed_type(kind, gone, sides)


def _plan_type(pair: ChangedType, sides: SchemaSides) -> Iterator[Step]:
    constraints = ConstraintChanges.between(pair)
    yield from plan_type_changes(pair, sides)
    yield from plan_property_changes(pair, sides, constraints)
    yield from constraints.of_body()


def _plan_removed_type(kind: TypeKind, type_: SchemaType, sides: SchemaSides) -> Step:
    if kind is TypeKind.INTERFACE:
        return UnsupportedChange(
            f"{kind}:{type_.name}", "removing interface is not supported; leave it, it has no rows"
        )
    return DropType(kind, type_.name, sides.drop_mode)


def _note_drops(steps: tuple[Step, ...], sides: SchemaSides, draft: Draft) -> Iterator[Diagnostic]:
    """Yield a coded note for each drop of stored data; an interface stores none."""
    fate = {
        DropMode.SOFT: "earlier snapshots keep it until cleanup",
        DropMode.HARD: "its history is removed as well and cannot be brought back",
    }[sides.drop_mode]
    for step in steps:
        if isinstance(step, DropType):
            code = DROP_NODE_TYPE if step.type_kind is TypeKind.NODE else DROP_EDGE_TYPE
            span = NOWHERE
        elif isinstance(step, DropProperty) and step.type_kind is not TypeKind.INTERFACE:
            code = _drop_code(step, sides)
            span = draft.span_of((step.type_kind, step.type_name))
        else:
            continue
        yield draft.source.diagnostic(
            code, f"{step.describe()}: {fate}", span, stage="migration", severity=Severity.INFO
        )


def _drop_code(step: DropProperty, sides: SchemaSides) -> str:
    accepted, desired = sides.types(step.type_kind)
    owner = next(t.id for t in desired if t.name == step.type_name)
    before = next(t for t in accepted if t.id == owner)
    gone = next(p for p in before.properties if p.name == step.property_name)
    return DROP_VECTOR if gone.type.is_vector else DROP_PROPERTY


# --- properties -----------------------------------------------------------------------------------

_WIDER = frozenset(
    {
        (Scalar.I32, Scalar.I64),
        (Scalar.I32, Scalar.F64),
        (Scalar.U32, Scalar.U64),
        (Scalar.U32, Scalar.I64),
        (Scalar.U32, Scalar.F64),
        (Scalar.F32, Scalar.F64),
    }
)
"""Pairs of which the second holds every value of the first exactly."""


def keeps_values(before: PropertyType, after: PropertyType) -> bool:
    """Return whether every value the new type allows is converted without loss."""
    if before.is_list and not after.is_list:
        return False
    if before.is_vector or after.is_vector or before.is_blob or after.is_blob:
        kinds = [(t.scalar, t.dimension, t.is_list) for t in (before, after)]
        return kinds[0] == kinds[1]
    return before.scalar is after.scalar or (before.scalar, after.scalar) in _WIDER


def keeps_ids(before: PropertyType, after: PropertyType) -> bool:
    """Return whether ids derived from the values stay the same."""
    both = {before.scalar, after.scalar}
    is_same = len(both) == 1 or both <= INTEGERS
    return is_same and before.is_list == after.is_list


def allows_less(before: PropertyType, after: PropertyType) -> bool:
    """Return whether the new type refuses values that the old one allows."""
    if before.nullable and not after.nullable:
        return True
    if after.enum_values is None:
        return False
    return before.enum_values is None or not set(before.enum_values) <= set(after.enum_values)


def is_computable(after: PropertyType) -> bool:
    """Return whether an expression can compute the type: no lists, vectors or blobs."""
    return not (after.is_list or after.is_vector or after.is_blob)


NOT_COMPUTABLE = (
    "an expression gives single values, and no part of a key; "
    "add another property and fill it with mutations"
)


def plan_property_changes(
    pair: ChangedType, sides: SchemaSides, constraints: ConstraintChanges
) -> Iterator[Step]:
    """Yield the steps of the desired properties by name, then those of dropped ones."""
    before = {p.id: p for p in pair.before.properties}
    for after in pair.after.properties:
        if after.id in before:
            yield from _plan_changed(pair, sides, before[after.id], after, constraints)
        else:
            yield from _plan_added(pair, sides, after, constraints)
    kept = {p.id for p in pair.after.properties}
    for gone in pair.before.properties:
        if gone.id not in kept:
            yield DropProperty(pair.kind, pair.after.name, gone.name, sides.drop_mode)


def _plan_added(
    pair: ChangedType, sides: SchemaSides, property_: Property, constraints: ConstraintChanges
) -> Iterator[Step]:
    expression = sides.expression(pair, property_.name)
    if expression is not None and not is_computable(property_.type):
        yield pair.refuse_property(property_, NOT_COMPUTABLE)
    elif property_.type.nullable or property_.default is not None or expression is not None:
        yield AddProperty(
            pair.kind,
            pair.after.name,
            property_.name,
            TypeDocument.of(property_.type),
            None if property_.default is None else property_.default.value,
            expression,
        )
    else:
        yield pair.refuse_property(
            property_,
            f"adding required property '{property_.name}' to an existing type needs a @default "
            "or an expression",
            REQUIRED_WITHOUT_DEFAULT,
        )
    yield from constraints.of_property(property_)


def _plan_changed(
    pair: ChangedType,
    sides: SchemaSides,
    before: Property,
    after: Property,
    constraints: ConstraintChanges,
) -> Iterator[Step]:
    if before.name != after.name:
        yield RenameProperty(pair.kind, pair.after.name, before.name, after.name)
    yield from _plan_type_change(pair, sides, before, after)
    if _plan_embedding(before) != _plan_embedding(after):
        reason = "changing the @embed source or model of an existing property is not supported"
        yield pair.refuse_property(after, f"{reason}; add another vector property")
    yield from constraints.of_property(after)
    if before.declared_directly != after.declared_directly:
        reason = "changing declaration provenance (own or from an interface) is not supported"
        yield pair.refuse_property(after, f"{reason}; leave it where it is declared")
    if _find_stable_links(pair, sides, before) != _find_stable_links(pair, sides, after):
        reason = "changing interface satisfaction links is not supported"
        yield pair.refuse_property(after, f"{reason}; keep the property that satisfies it")
    yield from _plan_metadata(pair, before, after)


def _plan_type_change(
    pair: ChangedType, sides: SchemaSides, before: Property, after: Property
) -> Iterator[Step]:
    expression = sides.expression(pair, after.name)
    if before.type == after.type and expression is None:
        return
    old, new = TypeDocument.of(before.type), TypeDocument.of(after.type)
    step = ChangePropertyType(pair.kind, pair.after.name, after.name, old, new, expression)
    added = _plan_widening(before.type, after.type)
    is_key = _is_in_key(pair, before)
    if expression is not None:
        if is_key or not is_computable(after.type):
            yield pair.refuse_property(after, NOT_COMPUTABLE)
        else:
            yield step
    elif added:
        yield ExtendEnum(pair.kind, pair.after.name, after.name, added)
    elif keeps_values(before.type, after.type) and (
        not is_key or keeps_ids(before.type, after.type)
    ):
        yield step
    else:
        why = "it would change ids" if is_key else "values could be lost"
        if is_key:
            instead = "add another type"
        else:
            instead = "give an expression" if is_computable(after.type) else "add another property"
        reason = f"changing property type from {before.type} to {after.type} is not supported"
        yield pair.refuse_property(after, f"{reason}: {why}; {instead}", TYPE_CHANGE)


def _is_in_key(pair: ChangedType, property_: Property) -> bool:
    keys = [c.columns for c in pair.before.constraints if c.kind is ConstraintKind.KEY]
    return any(property_.name in columns for columns in keys)


def _plan_widening(before: PropertyType, after: PropertyType) -> tuple[str, ...]:
    """Return the values a pure enum widening adds; none for any other change."""
    if before.enum_values is None or after.enum_values is None:
        return ()
    if before.nullable != after.nullable or not set(before.enum_values) < set(after.enum_values):
        return ()
    return tuple(v for v in after.enum_values if v not in before.enum_values)


def _plan_embedding(property_: Property) -> tuple[PropertyId | str, str | None] | None:
    """Return the source of an embedding; by name where an interface leaves it to implementers."""
    if property_.embed is None:
        return None
    return property_.embed.source_id or property_.embed.source, property_.embed.model


def _find_stable_links(
    pair: ChangedType, sides: SchemaSides, property_: Property
) -> frozenset[PropertyId]:
    """Return the links whose interface property exists and is implemented on both sides.

    Any other link comes or goes with an interface property or an `implements`, which has a step
    of its own.
    """
    before, after = sides.list_implemented(pair)
    return frozenset(
        link for link in property_.satisfies if sides.interface_of.get(link) in before & after
    )


def _plan_metadata(pair: ChangedType, before: Property, after: Property) -> Iterator[Step]:
    if _select_editable(before) != _select_editable(after):
        annotations = tuple(map(AnnotationDocument.of, _select_editable(after)))
        yield UpdatePropertyMetadata(pair.kind, pair.after.name, after.name, annotations)
    if select_other_annotations(before.annotations) != select_other_annotations(after.annotations):
        yield pair.refuse_property(after, BEYOND_EDITABLE)


def _select_editable(property_: Property) -> tuple[Annotation, ...]:
    """Return the prose of a property, and its default as an annotation."""
    default = property_.default
    spelled = () if default is None else (Annotation("default", _render_default(default)),)
    return (*spelled, *select_editable(property_.annotations))


def _render_default(default: DefaultValue) -> str:
    return default.value if isinstance(default.value, str) else json.dumps(default.value)

"""Plan the migration from the accepted schema to the desired one, as ordered steps."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

from omnigraph.catalog.assign_identities import SchemaType, identify_next
from omnigraph.catalog.catalog import (
    Catalog,
    Draft,
    TypeKind,
)
from omnigraph.catalog.codec import encode_ir
from omnigraph.catalog.schema_lint import (
    DROP_EDGE_TYPE,
    DROP_NODE_TYPE,
    DROP_PROPERTY,
    DROP_VECTOR,
)
from omnigraph.errors import BadExpression, Diagnostic, Severity
from omnigraph.evolution.migration_steps import (
    AddConstraint,
    AddProperty,
    AddType,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    Step,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)
from omnigraph.evolution.property_compatibility import plan_property_changes
from omnigraph.evolution.type_changes import (
    ChangedType,
    ConstraintChanges,
    SchemaSides,
    plan_type_changes,
)
from omnigraph.language.source import NOWHERE
from omnigraph.result import Result

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

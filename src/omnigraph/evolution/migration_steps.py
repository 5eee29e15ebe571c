"""Steps of a migration: the kinds, whose fields are their JSON, and the line a person reads."""

from __future__ import annotations

import json
from enum import StrEnum
from typing import assert_never

import msgspec

from omnigraph.catalog.catalog import (
    Annotation,
    Constraint,
    ConstraintKind,
    TypeKind,
    render_constraint,
)
from omnigraph.catalog.schema_json import TypeDocument
from omnigraph.result import Result


class DropMode(StrEnum):
    """Soft: earlier snapshots still read it. Hard: its old versions are removed after publish."""

    SOFT = "soft"
    HARD = "hard"


class AnnotationDocument(Result, frozen=True):
    """An annotation in the JSON of a step."""

    name: str
    value: str | None
    kwargs: dict[str, str] = msgspec.field(default_factory=dict)

    @classmethod
    def of(cls, annotation: Annotation) -> AnnotationDocument:
        return cls(annotation.name, annotation.value, dict(annotation.keywords))

    def __str__(self) -> str:
        if self.value is None:
            return f"@{self.name}"
        if self.name == "merge":
            return f"@merge({self.value})"
        return f"@{self.name}({json.dumps(self.value, ensure_ascii=False)})"


class RangeDocument(Result, frozen=True):
    """A range rule in the JSON of a step."""

    property: str
    min: str | None
    max: str | None


class CheckDocument(Result, frozen=True):
    """A pattern rule in the JSON of a step."""

    property: str
    pattern: str | None


class ConstraintDocument(Result, frozen=True):
    """A constraint in the JSON of a step: one member, which is called like its kind."""

    key: tuple[str, ...] | None = msgspec.field(default=None, name="Key")
    unique: tuple[str, ...] | None = msgspec.field(default=None, name="Unique")
    index: tuple[str, ...] | None = msgspec.field(default=None, name="Index")
    range: RangeDocument | None = msgspec.field(default=None, name="Range")
    check: CheckDocument | None = msgspec.field(default=None, name="Check")

    @classmethod
    def of(cls, constraint: Constraint) -> ConstraintDocument:
        columns = constraint.columns
        match constraint.kind:
            case ConstraintKind.KEY:
                return cls(key=columns)
            case ConstraintKind.UNIQUE:
                return cls(unique=columns)
            case ConstraintKind.INDEX:
                return cls(index=columns)
            case ConstraintKind.RANGE:
                return cls(range=RangeDocument(columns[0], constraint.low, constraint.high))
            case ConstraintKind.CHECK:
                return cls(check=CheckDocument(columns[0], constraint.pattern))
            case _:
                assert_never(constraint.kind)

    def read(self) -> Constraint:
        """Return the constraint, without its position in the schema."""
        if self.range is not None:
            bounds = self.range.min, self.range.max
            return Constraint(ConstraintKind.RANGE, (self.range.property,), *bounds)
        if self.check is not None:
            columns = (self.check.property,)
            return Constraint(ConstraintKind.CHECK, columns, pattern=self.check.pattern)
        if self.index is not None:
            return Constraint(ConstraintKind.INDEX, self.index)
        if self.unique is not None:
            return Constraint(ConstraintKind.UNIQUE, self.unique)
        return Constraint(ConstraintKind.KEY, self.key or ())


class CardinalityBounds(Result, frozen=True):
    """The numbers of edges of a type that a node may have."""

    min: int
    max: int | None

    def __str__(self) -> str:
        return f"@card({self.min}..{'' if self.max is None else self.max})"


class MigrationStep(Result, frozen=True, tag_field="kind"):
    """The base of the steps; the JSON member `kind` distinguishes them."""

    def describe(self) -> str:
        raise NotImplementedError


class AddType(MigrationStep, frozen=True, tag="add_type"):
    """Create an empty table; an interface has none."""

    type_kind: TypeKind
    name: str

    def describe(self) -> str:
        return f"add {_choose_noun(self.type_kind)} {self.name}"


class RenameType(MigrationStep, frozen=True, tag="rename_type"):
    """Rename a type: its table, path, history and ids are unchanged."""

    type_kind: TypeKind
    old: str = msgspec.field(name="from")
    new: str = msgspec.field(name="to")

    def describe(self) -> str:
        return f"rename {_choose_noun(self.type_kind)} {self.old} to {self.new}"


class AddProperty(MigrationStep, frozen=True, tag="add_property"):
    """Add a column: NULL in existing rows, or the default if there is one.

    With an expression, it computes the values of existing rows.
    """

    type_kind: TypeKind
    type_name: str
    property_name: str
    property_type: TypeDocument
    default: str | int | float | bool | None = None
    expression: str | None = None

    def describe(self) -> str:
        line = f"add property {self.type_name}.{self.property_name}: {self.property_type}"
        if self.expression is not None:
            return f"{line}, existing rows get {self.expression}"
        if self.default is None:
            return line
        return f"{line}, existing rows get {json.dumps(self.default, ensure_ascii=False)}"


class RenameProperty(MigrationStep, frozen=True, tag="rename_property"):
    """Rename a column; its values and the property id are unchanged."""

    type_kind: TypeKind
    type_name: str
    old: str = msgspec.field(name="from")
    new: str = msgspec.field(name="to")

    def describe(self) -> str:
        return f"rename property {self.type_name}.{self.old} to {self.new}"


class ChangePropertyType(MigrationStep, frozen=True, tag="change_property_type"):
    """Convert the values to another type, without loss.

    If the new type accepts fewer values than the old one, every row is checked first. With an
    expression, it computes every value.
    """

    type_kind: TypeKind
    type_name: str
    property_name: str
    old: TypeDocument = msgspec.field(name="from")
    new: TypeDocument = msgspec.field(name="to")
    expression: str | None = None

    def describe(self) -> str:
        line = (
            f"change property {self.type_name}.{self.property_name} from {self.old} to {self.new}"
        )
        return line if self.expression is None else f"{line}, by {self.expression}"


class ChangeCardinality(MigrationStep, frozen=True, tag="change_cardinality"):
    """The allowed numbers of edges change; if they shrink, all edges are counted first."""

    type_kind: TypeKind
    type_name: str
    old: CardinalityBounds = msgspec.field(name="from")
    new: CardinalityBounds = msgspec.field(name="to")

    def describe(self) -> str:
        return f"change {self.old} of edge type {self.type_name} to {self.new}"


class RemoveConstraint(MigrationStep, frozen=True, tag="remove_constraint"):
    """Remove a rule or an index; stored rows do not change."""

    type_kind: TypeKind
    type_name: str
    constraint: ConstraintDocument

    def describe(self) -> str:
        noun = _choose_noun(self.type_kind)
        return f"remove {render_constraint(self.constraint.read())} from {noun} {self.type_name}"


class AddConstraint(MigrationStep, frozen=True, tag="add_constraint"):
    """Declare an index, to be built by maintenance, or a rule, for which every row is checked."""

    type_kind: TypeKind
    type_name: str
    constraint: ConstraintDocument

    def describe(self) -> str:
        rule, noun = render_constraint(self.constraint.read()), _choose_noun(self.type_kind)
        return f"add {rule} to {noun} {self.type_name}"


class ExtendEnum(MigrationStep, frozen=True, tag="extend_enum"):
    """Add enum values; stored rows do not change."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    added_values: tuple[str, ...]

    def describe(self) -> str:
        values = ", ".join(self.added_values)
        return f"extend enum {self.type_name}.{self.property_name} with {values}"


class UpdateTypeMetadata(MigrationStep, frozen=True, tag="update_type_metadata"):
    """Change the description, instruction or `@merge` of a type, given by `annotations`."""

    type_kind: TypeKind
    name: str
    annotations: tuple[AnnotationDocument, ...]

    def describe(self) -> str:
        what = f"{_choose_noun(self.type_kind)} {self.name}"
        return f"update metadata of {what}: {_render_annotations(self.annotations)}"


class UpdatePropertyMetadata(MigrationStep, frozen=True, tag="update_property_metadata"):
    """Change the description or default of a property, given by `annotations`.

    A default applies to later writes only: stored rows do not change.
    """

    type_kind: TypeKind
    type_name: str
    property_name: str
    annotations: tuple[AnnotationDocument, ...]

    def describe(self) -> str:
        what = f"property {self.type_name}.{self.property_name}"
        return f"update metadata of {what}: {_render_annotations(self.annotations)}"


class DropType(MigrationStep, frozen=True, tag="drop_type"):
    """Drop a type with its rows from the current schema."""

    type_kind: TypeKind
    name: str
    mode: DropMode

    def describe(self) -> str:
        return f"drop {_choose_noun(self.type_kind)} {self.name} ({self.mode})"


class DropProperty(MigrationStep, frozen=True, tag="drop_property"):
    """Drop a column with its values from the current schema."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    mode: DropMode

    def describe(self) -> str:
        return f"drop property {self.type_name}.{self.property_name} ({self.mode})"


class UnsupportedChange(MigrationStep, frozen=True, tag="unsupported_change"):
    """An unsupported change; a plan with one cannot be applied."""

    entity: str
    reason: str
    code: str | None = None

    def describe(self) -> str:
        code = f" [{self.code}]" if self.code else ""
        return f"unsupported, {self.entity}: {self.reason}{code}"


Step = (
    AddType
    | RenameType
    | AddProperty
    | RenameProperty
    | ChangePropertyType
    | ChangeCardinality
    | AddConstraint
    | RemoveConstraint
    | ExtendEnum
    | UpdateTypeMetadata
    | UpdatePropertyMetadata
    | DropType
    | DropProperty
    | UnsupportedChange
)


def _choose_noun(kind: TypeKind) -> str:
    return "interface" if kind is TypeKind.INTERFACE else f"{kind} type"


def _render_annotations(annotations: tuple[AnnotationDocument, ...]) -> str:
    return " ".join(map(str, annotations)) or "none left"

"""Steps of a migration: the kinds, their JSON and the line a person reads."""

from __future__ import annotations

import json
from dataclasses import dataclass
from enum import StrEnum
from typing import assert_never

from omnigraph.catalog.catalog import (
    Annotation,
    Constraint,
    ConstraintKind,
    DefaultValue,
    TypeKind,
    render_constraint,
)
from omnigraph.catalog.schema_json import Json, encode_type
from omnigraph.errors import JsonValue
from omnigraph.types.property import PropertyType


class DropMode(StrEnum):
    """Soft: earlier snapshots still read it. Hard: its old versions are removed after publish."""

    SOFT = "soft"
    HARD = "hard"


@dataclass(frozen=True, slots=True)
class AddType:
    """An empty table comes into being; an interface has none."""

    type_kind: TypeKind
    name: str

    def wire(self) -> Json:
        return {"kind": "add_type", "type_kind": str(self.type_kind), "name": self.name}

    def describe(self) -> str:
        return f"add {_choose_noun(self.type_kind)} {self.name}"


@dataclass(frozen=True, slots=True)
class RenameType:
    """Only the name changes: table, path, history and ids stay."""

    type_kind: TypeKind
    old: str
    new: str

    def wire(self) -> Json:
        return {
            "kind": "rename_type",
            "type_kind": str(self.type_kind),
            "from": self.old,
            "to": self.new,
        }

    def describe(self) -> str:
        return f"rename {_choose_noun(self.type_kind)} {self.old} to {self.new}"


@dataclass(frozen=True, slots=True)
class AddProperty:
    """A column is added: NULL in existing rows, or the default where there is one.

    With an expression, existing rows get what it gives for them instead.
    """

    type_kind: TypeKind
    type_name: str
    property_name: str
    property_type: PropertyType
    default: DefaultValue | None = None
    expression: str | None = None

    def wire(self) -> Json:
        body: Json = {
            "kind": "add_property",
            "type_kind": str(self.type_kind),
            "type_name": self.type_name,
            "property_name": self.property_name,
            "property_type": encode_type(self.property_type),
        }
        if self.default is not None:
            body["default"] = self.default.value
        if self.expression is not None:
            body["expression"] = self.expression
        return body

    def describe(self) -> str:
        line = f"add property {self.type_name}.{self.property_name}: {self.property_type}"
        if self.expression is not None:
            return f"{line}, existing rows get {self.expression}"
        if self.default is None:
            return line
        return f"{line}, existing rows get {json.dumps(self.default.value, ensure_ascii=False)}"


@dataclass(frozen=True, slots=True)
class RenameProperty:
    """The column gets another name; values and the property's id stay."""

    type_kind: TypeKind
    type_name: str
    old: str
    new: str

    def wire(self) -> Json:
        return {
            "kind": "rename_property",
            "type_kind": str(self.type_kind),
            "type_name": self.type_name,
            "from": self.old,
            "to": self.new,
        }

    def describe(self) -> str:
        return f"rename property {self.type_name}.{self.old} to {self.new}"


@dataclass(frozen=True, slots=True)
class ChangePropertyType:
    """The values become values of another type, of which none is lost.

    Where the new type allows less than the old one, every row is checked first. With an
    expression, every value becomes what it gives for the row.
    """

    type_kind: TypeKind
    type_name: str
    property_name: str
    old: PropertyType
    new: PropertyType
    expression: str | None = None

    def wire(self) -> Json:
        body: Json = {
            "kind": "change_property_type",
            "type_kind": str(self.type_kind),
            "type_name": self.type_name,
            "property_name": self.property_name,
            "from": encode_type(self.old),
            "to": encode_type(self.new),
        }
        if self.expression is not None:
            body["expression"] = self.expression
        return body

    def describe(self) -> str:
        line = (
            f"change property {self.type_name}.{self.property_name} from {self.old} to {self.new}"
        )
        return line if self.expression is None else f"{line}, by {self.expression}"


@dataclass(frozen=True, slots=True)
class ChangeCardinality:
    """Other numbers of edges are allowed; where fewer are, all edges are counted first."""

    type_name: str
    old: tuple[int, int | None]
    new: tuple[int, int | None]

    def wire(self) -> Json:
        return {
            "kind": "change_cardinality",
            "type_kind": str(TypeKind.EDGE),
            "type_name": self.type_name,
            "from": {"min": self.old[0], "max": self.old[1]},
            "to": {"min": self.new[0], "max": self.new[1]},
        }

    def describe(self) -> str:
        old, new = spell_cardinality(*self.old), spell_cardinality(*self.new)
        return f"change {old} of edge type {self.type_name} to {new}"


@dataclass(frozen=True, slots=True)
class RemoveConstraint:
    """A rule no longer holds, or an index is no longer kept; stored rows do not change."""

    type_kind: TypeKind
    type_name: str
    constraint: Constraint

    def wire(self) -> Json:
        return {
            "kind": "remove_constraint",
            "type_kind": str(self.type_kind),
            "type_name": self.type_name,
            "constraint": encode_constraint(self.constraint),
        }

    def describe(self) -> str:
        noun = _choose_noun(self.type_kind)
        return f"remove {render_constraint(self.constraint)} from {noun} {self.type_name}"


@dataclass(frozen=True, slots=True)
class AddConstraint:
    """An index is declared, to be built by maintenance, or a rule that every row is checked for."""

    type_kind: TypeKind
    type_name: str
    constraint: Constraint

    def wire(self) -> Json:
        return {
            "kind": "add_constraint",
            "type_kind": str(self.type_kind),
            "type_name": self.type_name,
            "constraint": encode_constraint(self.constraint),
        }

    def describe(self) -> str:
        rule, noun = render_constraint(self.constraint), _choose_noun(self.type_kind)
        return f"add {rule} to {noun} {self.type_name}"


@dataclass(frozen=True, slots=True)
class ExtendEnum:
    """More values are allowed from now on; stored rows do not change."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    added_values: tuple[str, ...]

    def wire(self) -> Json:
        return {
            "kind": "extend_enum",
            "type_kind": str(self.type_kind),
            "type_name": self.type_name,
            "property_name": self.property_name,
            "added_values": list(self.added_values),
        }

    def describe(self) -> str:
        values = ", ".join(self.added_values)
        return f"extend enum {self.type_name}.{self.property_name} with {values}"


@dataclass(frozen=True, slots=True)
class UpdateTypeMetadata:
    """The description or instruction of a type; `annotations` is what it has from now on."""

    type_kind: TypeKind
    name: str
    annotations: tuple[Annotation, ...]

    def wire(self) -> Json:
        return {
            "kind": "update_type_metadata",
            "type_kind": str(self.type_kind),
            "name": self.name,
            "annotations": [_encode_annotation(a) for a in self.annotations],
        }

    def describe(self) -> str:
        what = f"{_choose_noun(self.type_kind)} {self.name}"
        return f"update metadata of {what}: {_render_annotations(self.annotations)}"


@dataclass(frozen=True, slots=True)
class UpdatePropertyMetadata:
    """The description or default of a property; `annotations` is what it has from now on.

    A default counts for later writes only: stored rows do not change.
    """

    type_kind: TypeKind
    type_name: str
    property_name: str
    annotations: tuple[Annotation, ...]

    def wire(self) -> Json:
        return {
            "kind": "update_property_metadata",
            "type_kind": str(self.type_kind),
            "type_name": self.type_name,
            "property_name": self.property_name,
            "annotations": [_encode_annotation(a) for a in self.annotations],
        }

    def describe(self) -> str:
        what = f"property {self.type_name}.{self.property_name}"
        return f"update metadata of {what}: {_render_annotations(self.annotations)}"


@dataclass(frozen=True, slots=True)
class DropType:
    """The type leaves the current schema with its rows."""

    type_kind: TypeKind
    name: str
    mode: DropMode

    def wire(self) -> Json:
        return {
            "kind": "drop_type",
            "type_kind": str(self.type_kind),
            "name": self.name,
            "mode": str(self.mode),
        }

    def describe(self) -> str:
        return f"drop {_choose_noun(self.type_kind)} {self.name} ({self.mode})"


@dataclass(frozen=True, slots=True)
class DropProperty:
    """The column leaves the current schema with its values."""

    type_kind: TypeKind
    type_name: str
    property_name: str
    mode: DropMode

    def wire(self) -> Json:
        return {
            "kind": "drop_property",
            "type_kind": str(self.type_kind),
            "type_name": self.type_name,
            "property_name": self.property_name,
            "mode": str(self.mode),
        }

    def describe(self) -> str:
        return f"drop property {self.type_name}.{self.property_name} ({self.mode})"


@dataclass(frozen=True, slots=True)
class UnsupportedChange:
    """An unsupported change; a plan with one cannot be applied."""

    entity: str
    reason: str
    code: str | None = None

    def wire(self) -> Json:
        body: Json = {
            "kind": "unsupported_change",
            "entity": self.entity,
            "reason": self.reason,
        }
        if self.code is not None:
            body["code"] = self.code
        return body

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


def encode_constraint(constraint: Constraint) -> Json:
    """`{"Index": ["a", "b"]}`, and the same for the other kinds, with what else they say."""
    columns: JsonValue = list(constraint.columns)
    match constraint.kind:
        case ConstraintKind.KEY:
            return {"Key": columns}
        case ConstraintKind.UNIQUE:
            return {"Unique": columns}
        case ConstraintKind.INDEX:
            return {"Index": columns}
        case ConstraintKind.RANGE:
            bounds = {"min": constraint.low, "max": constraint.high}
            return {"Range": {"property": constraint.columns[0], **bounds}}
        case ConstraintKind.CHECK:
            pattern = constraint.pattern
            return {"Check": {"property": constraint.columns[0], "pattern": pattern}}
        case _:
            assert_never(constraint.kind)


def spell_cardinality(minimum: int, maximum: int | None) -> str:
    return f"@card({minimum}..{'' if maximum is None else maximum})"


def _choose_noun(kind: TypeKind) -> str:
    return "interface" if kind is TypeKind.INTERFACE else f"{kind} type"


def _encode_annotation(annotation: Annotation) -> Json:
    body: Json = {"name": annotation.name, "value": annotation.value}
    if annotation.keywords:
        body["kwargs"] = dict(annotation.keywords)
    return body


def _render_annotations(annotations: tuple[Annotation, ...]) -> str:
    if not annotations:
        return "none left"
    return " ".join(
        f"@{a.name}({json.dumps(a.value, ensure_ascii=False)})"
        if a.value is not None
        else f"@{a.name}"
        for a in annotations
    )

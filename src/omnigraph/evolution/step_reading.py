"""Decode steps of a migration from their JSON."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from omnigraph.catalog.catalog import Annotation, Constraint, ConstraintKind, DefaultValue, TypeKind
from omnigraph.evolution.migration_steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCardinality,
    ChangePropertyType,
    DropMode,
    DropProperty,
    DropType,
    ExtendEnum,
    RemoveConstraint,
    RenameProperty,
    RenameType,
    Step,
    UnsupportedChange,
    UpdatePropertyMetadata,
    UpdateTypeMetadata,
)
from omnigraph.types.property import PropertyType, Scalar

Body = Mapping[str, Any]


def read_step(body: Body) -> Step:
    """The step that its `wire()` gave."""
    return _READERS[body["kind"]](body)


def _read_add_type(body: Body) -> Step:
    return AddType(_kind(body), body["name"])


def _read_rename_type(body: Body) -> Step:
    return RenameType(_kind(body), body["from"], body["to"])


def _read_add_property(body: Body) -> Step:
    return AddProperty(
        *_property(body),
        property_type=_read_type(body["property_type"]),
        default=DefaultValue(body["default"]) if "default" in body else None,
        expression=body.get("expression"),
    )


def _read_rename_property(body: Body) -> Step:
    return RenameProperty(_kind(body), body["type_name"], body["from"], body["to"])


def _read_change_type(body: Body) -> Step:
    old, new = _read_type(body["from"]), _read_type(body["to"])
    return ChangePropertyType(*_property(body), old, new, body.get("expression"))


def _read_cardinality(body: Body) -> Step:
    old, new = ((body[side]["min"], body[side]["max"]) for side in ("from", "to"))
    return ChangeCardinality(body["type_name"], old, new)


def _read_add_constraint(body: Body) -> Step:
    return AddConstraint(_kind(body), body["type_name"], _read_constraint(body["constraint"]))


def _read_remove_constraint(body: Body) -> Step:
    return RemoveConstraint(_kind(body), body["type_name"], _read_constraint(body["constraint"]))


def _read_extend_enum(body: Body) -> Step:
    return ExtendEnum(*_property(body), tuple(body["added_values"]))


def _read_type_metadata(body: Body) -> Step:
    return UpdateTypeMetadata(_kind(body), body["name"], _read_annotations(body))


def _read_property_metadata(body: Body) -> Step:
    return UpdatePropertyMetadata(*_property(body), _read_annotations(body))


def _read_drop_type(body: Body) -> Step:
    return DropType(_kind(body), body["name"], DropMode(body["mode"]))


def _read_drop_property(body: Body) -> Step:
    return DropProperty(*_property(body), DropMode(body["mode"]))


def _read_unsupported(body: Body) -> Step:
    return UnsupportedChange(body["entity"], body["reason"], body.get("code"))


_READERS: Mapping[str, Callable[[Body], Step]] = {
    "add_type": _read_add_type,
    "rename_type": _read_rename_type,
    "add_property": _read_add_property,
    "rename_property": _read_rename_property,
    "change_property_type": _read_change_type,
    "change_cardinality": _read_cardinality,
    "add_constraint": _read_add_constraint,
    "remove_constraint": _read_remove_constraint,
    "extend_enum": _read_extend_enum,
    "update_type_metadata": _read_type_metadata,
    "update_property_metadata": _read_property_metadata,
    "drop_type": _read_drop_type,
    "drop_property": _read_drop_property,
    "unsupported_change": _read_unsupported,
}


def _kind(body: Body) -> TypeKind:
    return TypeKind(body["type_kind"])


def _property(body: Body) -> tuple[TypeKind, str, str]:
    return _kind(body), body["type_name"], body["property_name"]


def _read_type(body: Body) -> PropertyType:
    scalar, values = body["scalar"], body["enum_values"]
    dimension = scalar["Vector"] if isinstance(scalar, Mapping) else None
    return PropertyType(
        Scalar.VECTOR if dimension is not None else Scalar(scalar),
        nullable=body["nullable"],
        is_list=body["list"],
        enum_values=None if values is None else tuple(values),
        dimension=dimension,
    )


def _read_constraint(body: Body) -> Constraint:
    [(name, facts)] = body.items()
    kind = ConstraintKind(name.lower())
    if isinstance(facts, Mapping):
        low, high, pattern = (facts.get(one) for one in ("min", "max", "pattern"))
        return Constraint(kind, (facts["property"],), low, high, pattern)
    return Constraint(kind, tuple(facts))


def _read_annotations(body: Body) -> tuple[Annotation, ...]:
    return tuple(
        Annotation(one["name"], one["value"], tuple(one.get("kwargs", {}).items()))
        for one in body["annotations"]
    )

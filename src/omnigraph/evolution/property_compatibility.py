"""Decide which changes of a property are compatible with stored rows, and plan them as steps.

A change that could lose values, change ids or refuse stored rows is an unsupported step.
"""

from __future__ import annotations

import json
from collections.abc import Iterator

from omnigraph.catalog.catalog import Annotation, ConstraintKind, DefaultValue, Property
from omnigraph.catalog.schema_json import TypeDocument
from omnigraph.catalog.schema_lint import REQUIRED_WITHOUT_DEFAULT, TYPE_CHANGE
from omnigraph.evolution.migration_steps import (
    AddProperty,
    AnnotationDocument,
    ChangePropertyType,
    DropProperty,
    ExtendEnum,
    RenameProperty,
    Step,
    UpdatePropertyMetadata,
)
from omnigraph.evolution.type_changes import (
    BEYOND_EDITABLE,
    ChangedType,
    ConstraintChanges,
    SchemaSides,
    select_editable,
    select_other_annotations,
)
from omnigraph.identity import PropertyId
from omnigraph.types.property import INTEGERS, PropertyType, Scalar

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

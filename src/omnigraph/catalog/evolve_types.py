"""What changes about a type itself: its name, its place in the schema, its metadata."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.catalog.catalog import Catalog, EdgeType, EntityType, TypeKind
from omnigraph.catalog.evolve_pairs import (
    BEYOND_PROSE,
    ChangedType,
    SchemaSides,
    select_other_annotations,
    select_prose,
)
from omnigraph.catalog.migration_steps import (
    ChangeCardinality,
    RenameType,
    Step,
    UpdateTypeMetadata,
)
from omnigraph.identity import TypeId


def plan_type_changes(pair: ChangedType, sides: SchemaSides) -> Iterator[Step]:
    """Rename, then what it is connected to, then metadata."""
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
    """Endpoints are compared by identity: a renamed node type is the same end."""
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
    old, new = (before.minimum, before.maximum), (after.minimum, after.maximum)
    if old != new:
        yield ChangeCardinality(after.name, old, new)


def _plan_type_metadata(pair: ChangedType) -> Iterator[Step]:
    before, after = pair.before, pair.after
    if not isinstance(before, EntityType) or not isinstance(after, EntityType):
        return
    if select_prose(before.annotations) != select_prose(after.annotations):
        yield UpdateTypeMetadata(pair.kind, after.name, select_prose(after.annotations))
    if select_other_annotations(before.annotations) != select_other_annotations(after.annotations):
        yield pair.refuse(BEYOND_PROSE)

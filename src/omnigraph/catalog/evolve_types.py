"""What changes about a type itself: its name, its place in the schema, its metadata."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.catalog.evolve_pairs import (
    BEYOND_PROSE,
    Sides,
    TypePair,
    other_annotations,
    prose,
)
from omnigraph.catalog.model import Catalog, EdgeType, EntityType, TypeKind
from omnigraph.catalog.steps import ChangeCardinality, RenameType, Step, UpdateTypeMetadata
from omnigraph.identity import TypeId


def type_changes(pair: TypePair, sides: Sides) -> Iterator[Step]:
    """Rename, then what it is connected to, then metadata."""
    yield from _rename(pair)
    yield from _implements(pair, sides)
    yield from _endpoints(pair, sides)
    yield from _cardinality(pair)
    yield from _metadata(pair)


def _rename(pair: TypePair) -> Iterator[Step]:
    old, new = pair.before.name, pair.after.name
    if old == new:
        return
    if pair.kind is TypeKind.INTERFACE:
        yield pair.unsupported(f"renaming interfaces is not supported: {old} to {new}")
    else:
        yield RenameType(pair.kind, old, new)


def _implements(pair: TypePair, sides: Sides) -> Iterator[Step]:
    before, after = sides.implemented(pair)
    if before != after:
        yield pair.unsupported("changing implemented interfaces is not supported")


def _endpoints(pair: TypePair, sides: Sides) -> Iterator[Step]:
    """Endpoints are compared by identity: a renamed node type is the same end."""
    before, after = pair.before, pair.after
    if not isinstance(before, EdgeType) or not isinstance(after, EdgeType):
        return
    if _ends(before, sides.accepted) != _ends(after, sides.desired):
        yield pair.unsupported(
            "changing edge endpoints is not supported: "
            f"{before.from_type} -> {before.to_type} to {after.from_type} -> {after.to_type}"
        )


def _ends(edge: EdgeType, catalog: Catalog) -> tuple[TypeId, TypeId]:
    return catalog.nodes[edge.from_type].id, catalog.nodes[edge.to_type].id


def _cardinality(pair: TypePair) -> Iterator[Step]:
    before, after = pair.before, pair.after
    if not isinstance(before, EdgeType) or not isinstance(after, EdgeType):
        return
    old, new = (before.minimum, before.maximum), (after.minimum, after.maximum)
    if old != new:
        yield ChangeCardinality(after.name, old, new)


def _metadata(pair: TypePair) -> Iterator[Step]:
    before, after = pair.before, pair.after
    if not isinstance(before, EntityType) or not isinstance(after, EntityType):
        return
    if prose(before.annotations) != prose(after.annotations):
        yield UpdateTypeMetadata(pair.kind, after.name, prose(after.annotations))
    if other_annotations(before.annotations) != other_annotations(after.annotations):
        yield pair.unsupported(BEYOND_PROSE)

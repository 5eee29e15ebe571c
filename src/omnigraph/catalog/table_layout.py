"""The table behind a type: its columns in physical order and the indexes it should have.

Plain descriptions: what a column type is in Arrow, and how an index is built, is decided below.
"""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.catalog.catalog import (
    ConstraintKind,
    EdgeType,
    EntityType,
    IndexKind,
    Property,
)
from omnigraph.types.property import PropertyType

ID = "id"
SRC = "src"
DST = "dst"


@dataclass(frozen=True, slots=True)
class DeclaredIndex:
    """An index the schema asks for; it is built by maintenance, not by a write."""

    columns: tuple[str, ...]
    kind: IndexKind


def list_indexes(type_: EntityType) -> tuple[DeclaredIndex, ...]:
    """The indexes of a table in the order of its columns, each once."""
    indexes = [DeclaredIndex((name,), IndexKind.BTREE) for name in _list_id_columns(type_)]
    indexed = _list_single_columns(type_, ConstraintKind.INDEX)
    keyed = _list_single_columns(type_, ConstraintKind.KEY)
    for property_ in sorted(type_.properties, key=lambda p: p.name):
        if property_.name in indexed | keyed:
            kinds = _list_kinds(property_, is_key=property_.name in keyed)
            indexes += [DeclaredIndex((property_.name,), kind) for kind in kinds]
    return tuple(indexes)


def index_kinds(type_: PropertyType) -> tuple[IndexKind, ...]:
    """What `@index` builds for a column of this type: lists and blobs get nothing."""
    if type_.is_list or type_.is_blob:
        return ()
    if type_.is_vector:
        return (IndexKind.VECTOR,)
    if type_.is_string and not type_.is_enum:
        return (IndexKind.FULL_TEXT,)
    return (IndexKind.BTREE,)


def _list_kinds(property_: Property, *, is_key: bool) -> tuple[IndexKind, ...]:
    """A key of free text is looked up by its exact value too, which full text cannot answer."""
    kinds = index_kinds(property_.type)
    if is_key and IndexKind.FULL_TEXT in kinds:
        return (*kinds, IndexKind.BTREE)
    return kinds


def _list_id_columns(type_: EntityType) -> tuple[str, ...]:
    return (ID, SRC, DST) if isinstance(type_, EdgeType) else (ID,)


def _list_single_columns(type_: EntityType, kind: ConstraintKind) -> frozenset[str]:
    return frozenset(c.columns[0] for c in type_.of_kind(kind) if len(c.columns) == 1)

"""Property types as Arrow types, and the schema of one table."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Protocol

import pyarrow as pa

from omnigraph.errors import ManifestCorrupt
from omnigraph.identity import EntityKind
from omnigraph.types.property import PropertyType, Scalar

STABLE_PROPERTY_ID = b"omnigraph.stable_property_id"
"""Field metadata that ties a column to its property, whatever the property is called."""

DATETIME = pa.timestamp("ms", tz="UTC")

BLOB = pa.struct([pa.field("data", pa.large_binary()), pa.field("uri", pa.string())])
"""A blob on its way to storage: `data` holds the bytes, or `uri` says where they are.

Exactly one of the two is set; a null blob is a null struct, and an empty `data` is a blob of no
bytes. Only the storage layer knows the blob column of the table format.
"""

_SCALARS = {
    Scalar.STRING: pa.string(),
    Scalar.BLOB: BLOB,
    Scalar.BOOL: pa.bool_(),
    Scalar.I32: pa.int32(),
    Scalar.I64: pa.int64(),
    Scalar.U32: pa.uint32(),
    Scalar.U64: pa.uint64(),
    Scalar.F32: pa.float32(),
    Scalar.F64: pa.float64(),
    Scalar.DATE: pa.date32(),
    Scalar.DATETIME: DATETIME,
}


class ColumnProperty(Protocol):
    """What a column needs to know of a property of the schema."""

    @property
    def id(self) -> int: ...
    @property
    def name(self) -> str: ...
    @property
    def type(self) -> PropertyType: ...


def to_arrow_type(type: PropertyType) -> pa.DataType:
    """The Arrow type that holds values of a property type."""
    if type.is_vector:
        return pa.list_(pa.field("item", pa.float32(), nullable=True), type.dimension)
    scalar = _SCALARS[type.scalar]
    return pa.list_(pa.field("item", scalar, nullable=True)) if type.is_list else scalar


def to_arrow_field(property: ColumnProperty) -> pa.Field:
    """The column of one property, marked with its stable id."""
    return pa.field(
        property.name,
        to_arrow_type(property.type),
        nullable=property.type.nullable,
        metadata={STABLE_PROPERTY_ID: str(property.id).encode()},
    )


def get_property_id(field: pa.Field) -> int | None:
    """The property id a column was marked with; `None` for columns that are no property.

    Raises:
        ManifestCorrupt: the mark is no number.
    """
    text = (field.metadata or {}).get(STABLE_PROPERTY_ID)
    try:
        return None if text is None else int(text)
    except ValueError as error:
        raise ManifestCorrupt(
            f"the stored column {field.name} is marked with {text!r}, which is not a property id"
        ) from error


def build_entity_schema(kind: EntityKind, properties: Iterable[ColumnProperty]) -> pa.Schema:
    """The columns of a table in physical order: `id`, the ends of an edge, properties by name."""
    structural = ("id", "src", "dst") if kind is EntityKind.EDGE else ("id",)
    fields = [pa.field(name, pa.string(), nullable=False) for name in structural]
    fields += [to_arrow_field(p) for p in sorted(properties, key=lambda p: p.name)]
    return pa.schema(fields)

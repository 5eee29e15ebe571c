"""The columns and row kinds of the manifest table."""

from __future__ import annotations

from enum import StrEnum
from typing import TypedDict

import pyarrow as pa

from omnigraph.identity import TableIdentity

STAMP_KEY = "omnigraph:internal_schema_version"
"""Metadata of the manifest's Arrow schema: the storage format that wrote the graph."""

PRIMARY_KEY = "object_id"

COLUMNS = pa.schema(
    [
        pa.field("object_id", pa.string(), nullable=False),
        pa.field("object_type", pa.string(), nullable=False),
        pa.field("location", pa.string()),
        pa.field("metadata", pa.string()),
        pa.field("base_objects", pa.list_(pa.string())),
        pa.field("table_key", pa.string(), nullable=False),
        pa.field("stable_table_id", pa.uint64()),
        pa.field("table_incarnation_id", pa.uint64()),
        pa.field("table_version", pa.uint64()),
        pa.field("table_branch", pa.string()),
        pa.field("row_count", pa.uint64()),
    ]
)


class RowKind(StrEnum):
    TABLE = "table"
    TABLE_VERSION = "table_version"
    TABLE_TOMBSTONE = "table_tombstone"
    GRAPH_HEAD = "graph_head"
    SCHEMA_CONTRACT = "schema_contract"
    GRAPH_COMMIT = "graph_commit"
    RECOVERY_AUDIT = "recovery_audit"


SCHEMA_CONTRACT_ID = "schema:current"


class Row(TypedDict):
    object_id: str
    object_type: str
    location: str | None
    metadata: str | None
    base_objects: list[str] | None
    table_key: str
    stable_table_id: int | None
    table_incarnation_id: int | None
    table_version: int | None
    table_branch: str | None
    row_count: int | None


def make_row(
    object_id: str,
    kind: RowKind,
    *,
    table_key: str = "",
    identity: TableIdentity | None = None,
    location: str | None = None,
    metadata: str | None = None,
    version: int | None = None,
    branch: str | None = None,
    row_count: int | None = None,
) -> Row:
    return Row(
        object_id=object_id,
        object_type=str(kind),
        location=location,
        metadata=metadata,
        base_objects=None,
        table_key=table_key,
        stable_table_id=identity.stable_table_id if identity else None,
        table_incarnation_id=identity.table_incarnation_id if identity else None,
        table_version=version,
        table_branch=branch,
        row_count=row_count,
    )


def make_table_row_id(identity: TableIdentity) -> str:
    return f"table:{_split_parts(identity)}"


def make_version_row_id(identity: TableIdentity, version: int) -> str:
    return f"table_version:{_split_parts(identity)}:{version:020d}"


def make_tombstone_row_id(identity: TableIdentity, version: int) -> str:
    return f"table_tombstone:{_split_parts(identity)}:{version:020d}"


def make_head_row_id(branch: str) -> str:
    return f"graph_head:{branch}"


def make_audit_row_id(operation_id: str, kind: str) -> str:
    return f"recovery_audit:{operation_id}:{kind}"


def _split_parts(identity: TableIdentity) -> str:
    return f"{identity.stable_table_id:016x}:{identity.table_incarnation_id:016x}"


_ROW_TYPE = pa.struct(list(COLUMNS))


def to_arrow(rows: list[Row]) -> pa.Table:
    """The rows as a table; made as one array of structs, which costs half of an array a column."""
    return pa.Table.from_struct_array(pa.array(rows, _ROW_TYPE))

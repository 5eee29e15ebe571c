"""Which rows and columns of one type a frame has."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.catalog.codec import encode_ir
from omnigraph.errors import BadRequest
from omnigraph.execution.read import Given
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.identity import TableKey
from omnigraph.language.source import SourceText
from omnigraph.pipeline.table_scan import TableScan
from omnigraph.plan.bind_where import bind_row_condition
from omnigraph.plan.expressions import Predicate
from omnigraph.storage.snapshot import Snapshot


def choose_columns(schema: pa.Schema, names: Sequence[str] | None) -> pa.Schema:
    """The named columns of a schema, in the order of the names; all without names."""
    if names is None:
        return schema
    for name in names:
        if name not in schema.names:
            raise BadRequest(f"no such column '{name}' among {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in names])


def scan_type(
    snapshot: Snapshot,
    catalog: Catalog,
    type_: NodeType | EdgeType,
    columns: Sequence[str] | None = None,
    where: str | None = None,
) -> TableScan:
    """A scan of the rows of a type, blobs included, for which a condition is true."""
    key = TableKey(type_.table_key)
    filters: tuple[Predicate, ...] = ()
    if where is not None:
        filters = (bind_row_condition(SourceText(where, "<where>"), type_, catalog),)
    table = snapshot.table(key)
    return TableScan(
        ir=encode_ir(catalog),
        table_key=key,
        table=table,
        made_at_ns=table.read_made_at_ns(),
        columns=tuple(choose_columns(build_logical_schema(type_), columns).names),
        given=Given({}, datetime.now(UTC)),
        filters=filters,
        with_blobs=True,
    )

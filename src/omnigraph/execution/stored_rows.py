"""Convert rows: assigned values to columns, engine rows to stored rows and back, rows to records.

Engine rows and stored rows differ in blobs only.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import wraps
from typing import TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.cache import Cache
from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType, Property
from omnigraph.errors import BadRequest, ExternalBlobPolicy, TypeNotFound
from omnigraph.execution.read.code_arrays import Longs
from omnigraph.plan.expressions import Constant, NowValue, Operand, ParameterValue
from omnigraph.plan.plan_nodes import Assignment
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import (
    ROW_ID,
    ScanOrder,
    Table,
    make_blob_array,
    make_blob_field,
    read_blobs,
)
from omnigraph.types.arrow import BLOB, build_entity_schema, to_arrow_type
from omnigraph.types.canonical_strings import encode_canonical_column, encode_composite_ids
from omnigraph.types.parameters import assign_value
from omnigraph.types.property import PropertyType
from omnigraph.types.to_json import export_lines


def evaluate_assignment(
    operand: Operand, parameters: Mapping[str, object], now: datetime.datetime
) -> object:
    """Evaluate an assignment to a Python value."""
    match operand:
        case Constant():
            return list(operand.value) if isinstance(operand.value, tuple) else operand.value
        case ParameterValue():
            return parameters[operand.name]
        case NowValue():
            return now
        case _:
            raise AssertionError(f"{type(operand).__name__} cannot be assigned")


def convert_to_stored(value: object, type_: PropertyType, where: str) -> object:
    """Convert a value to that of its column; raise if it is out of range or of another kind."""
    try:
        return assign_value(value, type_)
    except BadRequest as error:
        raise BadRequest(f"{where}: {error.message}") from error


def build_assigned_columns(
    type_: NodeType | EdgeType,
    assignments: tuple[Assignment, ...],
    parameters: Mapping[str, object],
    now: datetime.datetime,
) -> dict[str, pa.Array]:
    """Build the assigned columns, each as one value of the column's type."""
    columns = {}
    for one in assignments:
        where = f"{type_.name}.{one.column}"
        value = evaluate_assignment(one.value, parameters, now)
        if not _is_fitted(one):
            value = convert_to_stored(value, one.type, where)
        columns[one.column] = pa.array([value], to_arrow_type(one.type))
    return columns


def _is_fitted(one: Assignment) -> bool:
    """Return whether the value is a literal that was converted when the text was bound."""
    is_of_column = isinstance(one.value, Constant) and one.value.type == one.type
    return is_of_column and not one.type.is_blob


def get_default_value(property_: Property, where: str) -> pa.Scalar:
    """Return the value of an omitted property: its default, or NULL."""
    arrow_type = to_arrow_type(property_.type)
    if property_.default is None and property_.type.nullable:
        return pa.scalar(None, arrow_type)
    value = property_.default.value if property_.default is not None else None
    return pa.scalar(convert_to_stored(value, property_.type, where), arrow_type)


def derive_key_ids(type_: NodeType, columns: Mapping[str, pa.Array]) -> pa.Array:
    """Derive the ids of keyed nodes from their key columns."""
    parts = [encode_canonical_column(columns[member.name], member.type) for member in type_.key]
    return parts[0] if len(parts) == 1 else encode_composite_ids(parts)


EntityTypes = NodeType | EdgeType

_T = TypeVar("_T")

_ROWS_PER_TAKE = 100_000
"""Rows per batch; more would only raise peak memory."""


def _keep_for_type(make: Callable[[EntityTypes], _T]) -> Callable[[EntityTypes], _T]:
    """Cache a function of a type by the identity of the type object.

    Comparing types with hundreds of properties would cost more than a small write.
    """
    kept: Cache[int, tuple[EntityTypes, _T]] = Cache(1024)

    @wraps(make)
    def find(type_: EntityTypes) -> _T:
        known = kept.find(id(type_))
        if known is None:
            # The type is retained, so that no other object can get its id.
            known = type_, make(type_)
            kept.keep(id(type_), known)
        return known[1]

    return find


@_keep_for_type
def build_logical_schema(type_: EntityTypes) -> pa.Schema:
    """Return the schema of rows that are checked and changed."""
    return build_entity_schema(type_.kind, type_.properties)


@_keep_for_type
def make_empty_rows(type_: EntityTypes) -> pa.Table:
    return build_logical_schema(type_).empty_table()


@_keep_for_type
def build_table_schema(type_: EntityTypes) -> pa.Schema:
    """Return the schema of the stored table."""
    return pa.schema([_to_stored_field(field) for field in build_logical_schema(type_)])


def _to_stored_field(field: pa.Field) -> pa.Field:
    if field.type != BLOB:
        return field
    metadata = {k.decode(): v.decode() for k, v in (field.metadata or {}).items()}
    return make_blob_field(field.name, nullable=field.nullable, metadata=metadata)


def convert_to_table_rows(rows: pa.Table, type_: EntityTypes) -> pa.Table:
    """Convert rows to the form in which they are written.

    Raises:
        ExternalBlobPolicy: a blob is given as an address, which is not allowed here.
    """
    stored = build_table_schema(type_)
    if rows.schema.equals(stored):
        return rows  # no blobs
    refuse_address(find_address(rows))
    columns = []
    for field in build_logical_schema(type_):
        values = rows.column(field.name)
        columns.append(_to_stored_blobs(values) if field.type == BLOB else values)
    return pa.table(columns, schema=stored)


NO_ADDRESS = "no address is on the graph's list"
"""Reason of refusal of a blob that is given as an address."""


def find_address(rows: pa.Table) -> str | None:
    """Find the first blob that is given as an address."""
    for field in rows.schema:
        if field.type == BLOB and rows.num_rows:
            uris = pc.struct_field(rows.column(field.name), "uri").drop_null()
            if len(uris):
                return str(uris[0].as_py())
    return None


def refuse_address(address: str | None) -> None:
    """Raise if a blob is given as an address.

    Raises:
        ExternalBlobPolicy: it is; no address is allowed.
    """
    if address is not None:
        raise ExternalBlobPolicy(address, NO_ADDRESS)


def _to_stored_blobs(values: pa.ChunkedArray) -> pa.Array:
    cells = values.combine_chunks() if values.num_chunks else pa.array([], BLOB)
    return make_blob_array(pc.struct_field(cells, "data"))


def convert_from_table_rows(rows: pa.Table, type_: EntityTypes) -> pa.Table:
    """Convert rows read with `blob_bytes` to the engine's form and column order."""
    wanted = build_logical_schema(type_)
    columns = []
    for field in wanted:
        values = rows.column(field.name)
        if field.type == BLOB:
            values = _read_blobs(values)
        elif values.type != field.type:
            values = values.cast(field.type)
        columns.append(values)
    return pa.table(columns, schema=wanted)


def _read_blobs(values: pa.ChunkedArray) -> pa.Array:
    data = values.combine_chunks() if values.num_chunks else pa.array([], pa.large_binary())
    data = data.cast(pa.large_binary())
    parts = [data, pa.nulls(len(data), pa.string())]
    return pa.StructArray.from_arrays(parts, fields=list(BLOB), mask=pc.is_null(data))


def read_by_id(table: Table, ids: pa.Array, type_: EntityTypes) -> pa.Table:
    """Read whole rows by id, blobs included."""
    return _with_blobs(table, table.lookup("id", ids, _list_columns_to_read(type_)), type_)


def read_by_row_id(table: Table, row_ids: Longs, type_: EntityTypes) -> pa.Table:
    """Read rows by row id, without a lookup."""
    names = _list_columns_to_read(type_)
    starts = range(0, max(len(row_ids), 1), _ROWS_PER_TAKE)
    pieces = (pa.array(row_ids[start : start + _ROWS_PER_TAKE], pa.uint64()) for start in starts)
    parts = [table.take_row_ids(piece, names) for piece in pieces]
    return _with_blobs(table, pa.concat_tables(parts), type_)


def _list_columns_to_read(type_: EntityTypes) -> list[str]:
    """List all columns except blobs, and the row id to read those by."""
    wanted = build_logical_schema(type_)
    plain = [field.name for field in wanted if field.type != BLOB]
    return plain if len(plain) == len(wanted) else [*plain, ROW_ID]


def _with_blobs(table: Table, found: pa.Table, type_: EntityTypes) -> pa.Table:
    for field in build_logical_schema(type_):
        if field.type == BLOB:
            values = read_blobs(table, field.name, found.column(ROW_ID).to_pylist())
            found = found.append_column(field.name, pa.array(values, pa.large_binary()))
    return convert_from_table_rows(found, type_)


def read_all(table: Table, type_: EntityTypes) -> pa.Table:
    """Read every row, blobs included."""
    return convert_from_table_rows(table.scan(blob_bytes=True), type_)


def read_batches(table: Table, type_: EntityTypes) -> Iterator[pa.RecordBatch]:
    """Yield the rows, a batch at a time."""
    for batch in table.batches(blob_bytes=True):
        yield from convert_from_table_rows(pa.Table.from_batches([batch]), type_).to_batches()


ROWS_AT_ONCE = 8_192


def export_types(catalog: Catalog, names: Sequence[str] | None) -> list[NodeType | EdgeType]:
    """List the types to export, in byte order of their table keys: edges before nodes."""
    if names is not None:
        known = {type_.name for type_ in catalog.by_table_key.values()}
        for name in names:
            if name not in known:
                raise TypeNotFound(name, f"unknown export type '{name}'")
    wanted = None if names is None else set(names)
    return [
        type_
        for _, type_ in sorted(catalog.by_table_key.items())
        if wanted is None or type_.name in wanted
    ]


def export_jsonl(snapshot: Snapshot, types: Iterable[NodeType | EdgeType]) -> Iterator[bytes]:
    """Yield blocks of whole lines, within a type by ascending id."""
    for type_ in types:
        table = snapshot.table(type_.table_key)
        ordered = table.scan(order_by=[ScanOrder("id")], blob_bytes=True)
        rows = convert_from_table_rows(ordered, type_)
        for batch in rows.to_batches(max_chunksize=ROWS_AT_ONCE):
            yield export_lines(type_.name, type_.kind, batch)


def export_records(
    snapshot: Snapshot, types: Iterable[NodeType | EdgeType]
) -> Iterator[dict[str, object]]:
    """Yield the records as Python objects, one at a time."""
    for block in export_jsonl(snapshot, types):
        for line in block.splitlines():
            yield msgspec.json.decode(line)

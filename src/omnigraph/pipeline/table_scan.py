"""Scan fragments of one pinned table, by the names and types of the schema."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.catalog.codec import encode_ir
from omnigraph.errors import BadRequest
from omnigraph.execution.predicates import RowScope, evaluate_mask
from omnigraph.execution.read import Given, Reader, restrict_to_type, split
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.identity import TableKey
from omnigraph.language.source import SourceText
from omnigraph.pipeline.kernels.write_kernel import group_fragments
from omnigraph.pipeline.staging_area import decode_catalog_cached
from omnigraph.plan.bind_conditions import bind_row_condition
from omnigraph.plan.expressions import Predicate
from omnigraph.plan.walk import list_operands_of, list_used_properties
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table
from omnigraph.types.arrow import BLOB

ROWS_PER_PARTITION = 1 << 18
_BATCH_ROWS = 1 << 16
_NOTHING_FITS = "FALSE"


@dataclass(frozen=True, slots=True, kw_only=True)
class TableScan:
    """Scan of a table as plain data, which can be sent to another machine."""

    ir: str
    table_key: TableKey
    table: Table
    made_at_ns: int
    """Commit time of the version when the scan was planned; a frame may outlive the table."""
    columns: tuple[str, ...]
    given: Given
    filters: tuple[Predicate, ...] = ()
    """Conditions on rows, over properties of this table only."""
    with_blobs: bool = False
    """True if blobs are read; otherwise a present blob is an empty one."""

    @property
    def type_(self) -> NodeType | EdgeType:
        return decode_catalog_cached(self.ir).by_table_key[self.table_key]


def plan_partitions(table: Table, rows_each: int = ROWS_PER_PARTITION) -> list[tuple[int, ...]]:
    """Group the fragments of a table so that each group is worth a task."""
    return group_fragments(table, rows_each)


def scan_rows(scan: TableScan, fragments: Sequence[int]) -> Iterator[pa.RecordBatch]:
    """Yield the rows of fragments that pass the filters, in the types of the schema.

    Raises:
        BadRequest: the graph was replaced since the scan was planned, as by a copy of itself.
    """
    if scan.table.read_commit_time_ns() != scan.made_at_ns:
        raise BadRequest(
            f"the graph of this frame was replaced: version {scan.table.version} of "
            f"{scan.table.location} is not the one it was made of; make the frame again"
        )
    columns = _Columns(scan)
    if columns.filter == _NOTHING_FITS:
        return
    batches = scan.table.batches(
        columns.stored,
        columns.filter,
        batch_size=_BATCH_ROWS,
        fragments=fragments,
        blob_bytes=scan.with_blobs and columns.has_blobs,
    )
    for batch in batches:
        found = columns.passing(columns.of(batch), batch.num_rows)
        if found.num_rows:
            yield found


@dataclass
class _Columns:
    """Stored columns of a scan, and the conversion of rows from them."""

    scan: TableScan
    filter: str | None = field(init=False)
    _rest: tuple[Predicate, ...] = field(init=False)
    _names: tuple[str, ...] = field(init=False)
    _reader: Reader = field(init=False)

    def __post_init__(self) -> None:
        scan, type_ = self.scan, self.scan.type_
        self._reader = Reader(scan.table, type_, row_count=1)
        filters = [restrict_to_type(predicate, type_.name) for predicate in scan.filters]
        parts = split(filters, self._reader, scan.given)
        self.filter, self._rest = parts.filter, parts.rest
        read = {
            name
            for predicate in parts.rest
            for operand in list_operands_of(predicate)
            for _, name in list_used_properties(operand)
        }
        self._names = tuple(dict.fromkeys([*scan.columns, "id", *sorted(read)]))

    @property
    def stored(self) -> list[str]:
        fields = (self._reader.get_stored_field(name) for name in self._names)
        return sorted({field.name for field in fields if field is not None})

    @property
    def has_blobs(self) -> bool:
        return any(self._reader.arrow_type(name) == BLOB for name in self._names)

    def of(self, batch: pa.RecordBatch) -> Mapping[str, pa.Array]:
        return {name: self._convert_column(batch, name) for name in self._names}

    def _convert_column(self, batch: pa.RecordBatch, name: str) -> pa.Array:
        stored, wanted = self._reader.get_stored_field(name), self._reader.arrow_type(name)
        if stored is None:
            return pa.nulls(batch.num_rows, wanted)
        found = batch.column(stored.name)
        if wanted == BLOB:
            return _read_blobs(found, with_bytes=self.scan.with_blobs)
        return found if found.type == wanted else found.cast(wanted)

    def passing(self, values: Mapping[str, pa.Array], rows: int) -> pa.RecordBatch:
        """Filter rows by the conditions that the scan could not check; return the named columns."""
        mask: pa.Array | None = None
        scope = RowScope(
            rows, lambda _, name: values[name], self.scan.given.parameters, self.scan.given.now
        )
        for predicate in self._rest:
            kept = evaluate_mask(predicate, scope)
            mask = kept if mask is None else pc.and_(mask, kept)
        found = pa.RecordBatch.from_pydict({name: values[name] for name in self.scan.columns})
        return found if mask is None else found.filter(mask)


def _read_blobs(values: pa.Array, *, with_bytes: bool) -> pa.Array:
    missing = values.is_null()
    empty = pa.repeat(pa.scalar(b"", pa.large_binary()), len(values))
    data = values.cast(pa.large_binary()) if with_bytes else empty
    parts = [data, pa.nulls(len(values), pa.string())]
    return pa.StructArray.from_arrays(parts, fields=list(BLOB), mask=missing)


def choose_columns(schema: pa.Schema, names: Sequence[str] | None) -> pa.Schema:
    """Return the named columns of a schema, in the order of the names; all without names."""
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
    """Return a scan of the rows of a type, blobs included, for which a condition is true."""
    key = TableKey(type_.table_key)
    filters: tuple[Predicate, ...] = ()
    if where is not None:
        filters = (bind_row_condition(SourceText(where, "<where>"), type_, catalog),)
    table = snapshot.table(key)
    return TableScan(
        ir=encode_ir(catalog),
        table_key=key,
        table=table,
        made_at_ns=table.read_commit_time_ns(),
        columns=tuple(choose_columns(build_logical_schema(type_), columns).names),
        given=Given({}, datetime.now(UTC)),
        filters=filters,
        with_blobs=True,
    )

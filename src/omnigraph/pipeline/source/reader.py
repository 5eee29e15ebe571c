"""Batch reads: a type, one partition for each group of fragments, or the result of a query."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, Filter, InputPartition
from pyspark.sql.types import StructType

from omnigraph.catalog.codec import encode_ir
from omnigraph.catalog.model import EdgeType, NodeType
from omnigraph.errors import BadRequest
from omnigraph.execution.physical import logical_schema
from omnigraph.execution.read.resolve import Given
from omnigraph.identity import TableKey
from omnigraph.pipeline.inputs import table_mapping
from omnigraph.pipeline.source.access import graph_access
from omnigraph.pipeline.source.columns import arrow_schema, spark_type, to_spark
from omnigraph.pipeline.source.filters import pushed
from omnigraph.pipeline.source.options import Pin, QueryText, SourceOptions
from omnigraph.pipeline.source.scan import TableScan, partition, scan_rows
from omnigraph.plan.expressions import STRING, Predicate
from omnigraph.settings import Settings
from omnigraph.types.property import PropertyType


@dataclass
class FragmentGroup(InputPartition):
    """Some fragments of a pinned table."""

    scan: TableScan
    fragments: tuple[int, ...]


@dataclass
class QueryRun(InputPartition):
    """A query on a pinned snapshot."""

    pin: Pin
    query: QueryText
    settings: Settings


def source_schema(options: SourceOptions) -> pa.Schema:
    """The columns of a read, as the graph is now."""
    access = graph_access()
    settings = access.settings()
    if options.query is not None:
        whole = access.query_schema(options.pin, options.query, settings)
    else:
        _, type_ = _type(options, settings)
        whole = logical_schema(type_)
    return _chosen(whole, options.columns)


def _type(options: SourceOptions, settings: Settings) -> tuple[TableScan, NodeType | EdgeType]:
    """A scan of everything of the type, pinned now."""
    snapshot, catalog = graph_access().pinned(options.pin, settings)
    mapping = table_mapping(catalog, options.need_type(), {})
    assert mapping is not None, "a type was named"
    key = TableKey(mapping.table_key)
    given = Given({}, datetime.now(UTC))
    scan = TableScan(encode_ir(catalog), key, snapshot.table(key), (), given, with_blobs=True)
    return scan, catalog.by_table_key[key]


def _chosen(schema: pa.Schema, names: Sequence[str] | None) -> pa.Schema:
    if names is None:
        return schema
    for name in names:
        if name not in schema.names:
            raise BadRequest(f"there is no column '{name}' among {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in names])


def _types(type_: NodeType | EdgeType) -> dict[str, PropertyType]:
    structural = ("id", "src", "dst") if isinstance(type_, EdgeType) else ("id",)
    return dict.fromkeys(structural, STRING) | {p.name: p.type for p in type_.properties}


class TypeReader(DataSourceReader):
    """Reads the rows of one type. Every filter is left to Spark."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options, self._schema = options, arrow_schema(schema)
        self._filters: tuple[Predicate, ...] = ()

    def partitions(self) -> Sequence[InputPartition]:
        settings = graph_access().settings()
        scan, type_ = _type(self._options, settings)
        _chosen(logical_schema(type_), self._schema.names)
        wanted = replace(scan, columns=tuple(self._schema.names), filters=self._filters)
        groups = partition(scan.table, self._options.rows_per_partition)
        return [FragmentGroup(wanted, group) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, FragmentGroup):
            return  # a table without rows has no fragments, and Spark asks all the same
        for batch in scan_rows(partition.scan, partition.fragments):
            yield in_schema(batch, self._schema)


class FilteringReader(TypeReader):
    """The same, where what is not asked for is not read either.

    Spark refuses a reader that takes filters while it is told not to hand them over, hence two.
    """

    def pushFilters(self, filters: list[Filter]) -> Iterable[Filter]:
        """Take what helps; Spark applies all of them again, so it need not be exact."""
        _, type_ = _type(self._options, graph_access().settings())
        natural = logical_schema(type_)
        same = {
            name: kind
            for name, kind in _types(type_).items()
            if name in self._schema.names
            and _same(self._schema.field(name).type, natural.field(name).type)
        }
        self._filters = pushed(filters, same)
        return filters


def _same(asked: pa.DataType, stored: pa.DataType) -> bool:
    """Whether Spark compares a column as it is stored, and not as something it was cast to."""
    return bool(asked == spark_type(stored))


class QueryReader(DataSourceReader):
    """Reads the result of a query, run by the embedded executor in one task."""

    def __init__(self, options: SourceOptions, schema: StructType) -> None:
        self._options, self._schema = options, arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        access, pin = graph_access(), self._options.pin
        assert self._options.query is not None, "made for a query"
        settings = access.settings()
        snapshot, _ = access.pinned(pin, settings)
        return [QueryRun(replace(pin, snapshot=snapshot.id), self._options.query, settings)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, QueryRun)
        found = graph_access().query_batches(partition.pin, partition.query, partition.settings)
        for batch in found:
            yield in_schema(batch, self._schema)


def in_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns Spark asked for, exactly in the types it asked for."""
    names = batch.schema.names
    for name in schema.names:
        if name not in names:
            raise BadRequest(f"there is no column '{name}' among {', '.join(names)}")
    arrays = [to_spark(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def make_reader(options: SourceOptions, schema: StructType, *, pushdown: bool) -> DataSourceReader:
    if options.query is not None:
        return QueryReader(options, schema)
    if pushdown and options.pushdown:
        return FilteringReader(options, schema)
    return TypeReader(options, schema)

"""Batch reads: a type, one partition for each group of fragments, or the result of a query.

A reader keeps nothing of a query. Spark plans one reader for a relation and uses its partitions for
every query on that relation, and where it offers filters to sources, the partitions that one query
left are those the next one finds. A reader here takes no filters, so its partitions are the same
whoever asks for them; rows are chosen by the option `where`, which belongs to the relation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from omnigraph.catalog.codec import encode_ir
from omnigraph.errors import BadRequest
from omnigraph.execution.physical import logical_schema
from omnigraph.execution.read.resolve import Given
from omnigraph.identity import TableKey
from omnigraph.language.source import SourceText
from omnigraph.pipeline.inputs import table_mapping
from omnigraph.pipeline.source.access import graph_access
from omnigraph.pipeline.source.columns import arrow_schema, to_spark
from omnigraph.pipeline.source.options import Pin, QueryText, ReadOptions
from omnigraph.pipeline.source.scan import TableScan, partition, scan_rows
from omnigraph.plan.bind_where import bind_row_condition
from omnigraph.plan.expressions import Predicate
from omnigraph.settings import Settings


@dataclass
class FragmentGroup(InputPartition):
    """Some fragments of a pinned table."""

    scan: TableScan
    fragments: tuple[int, ...]
    newest_file: str | None
    """Of the table as it was planned: Spark keeps partitions for as long as it keeps a frame."""


@dataclass
class QueryRun(InputPartition):
    """A query on a pinned snapshot."""

    pin: Pin
    query: QueryText
    settings: Settings


def source_schema(options: ReadOptions, pin: Pin) -> pa.Schema:
    """The columns of a read."""
    access = graph_access()
    settings = access.settings()
    if options.query is not None:
        whole = access.query_schema(pin, options.query, settings)
    else:
        whole = logical_schema(_scan(options, pin, settings).type_)
    return _chosen(whole, options.columns)


def _scan(options: ReadOptions, pin: Pin, settings: Settings) -> TableScan:
    """A scan of the rows the options ask for, without any columns yet."""
    snapshot, catalog = graph_access().pinned(pin, settings)
    mapping = table_mapping(catalog, options.need_type(), {})
    assert mapping is not None, "a type was named"
    key = TableKey(mapping.table_key)
    where: tuple[Predicate, ...] = ()
    if options.where is not None:
        text = SourceText(options.where, "<where>")
        where = (bind_row_condition(text, catalog.by_table_key[key], catalog),)
    given = Given({}, datetime.now(UTC))
    table = snapshot.table(key)
    return TableScan(encode_ir(catalog), key, table, (), given, where, with_blobs=True)


def _chosen(schema: pa.Schema, names: Sequence[str] | None) -> pa.Schema:
    if names is None:
        return schema
    for name in names:
        if name not in schema.names:
            raise BadRequest(f"there is no column '{name}' among {', '.join(schema.names)}")
    return pa.schema([schema.field(name) for name in names])


class TypeReader(DataSourceReader):
    """Reads the rows of one type."""

    def __init__(self, options: ReadOptions, pin: Pin, schema: StructType) -> None:
        self._options, self._pin, self._schema = options, pin, arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        scan = _scan(self._options, self._pin, graph_access().settings())
        _chosen(logical_schema(scan.type_), self._schema.names)
        wanted = replace(scan, columns=tuple(self._schema.names))
        newest = scan.table.newest_file()
        groups = partition(scan.table, self._options.rows_per_partition)
        return [FragmentGroup(wanted, group, newest) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, FragmentGroup):
            return  # a table without rows has no fragments, and Spark asks all the same
        scan = partition.scan
        if scan.table.newest_file() != partition.newest_file:
            raise BadRequest(
                f"the graph of this frame is gone: {scan.table} is a table of another graph, made "
                "at the same place; load the frame again"
            )
        for batch in scan_rows(scan, partition.fragments):
            yield in_schema(batch, self._schema)


class QueryReader(DataSourceReader):
    """Reads the result of a query, run by the embedded executor in one task."""

    def __init__(self, query: QueryText, pin: Pin, schema: StructType) -> None:
        self._query, self._pin, self._schema = query, pin, arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        return [QueryRun(self._pin, self._query, graph_access().settings())]

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


def make_reader(options: ReadOptions, pin: Pin, schema: StructType) -> DataSourceReader:
    if options.query is not None:
        return QueryReader(options.query, pin, schema)
    return TypeReader(options, pin, schema)

"""Batch reads: a type, one partition for each group of fragments, or the result of a query.

A reader keeps nothing of a query. Spark plans one reader for a relation and uses its partitions for
every query on that relation, and where it offers filters to sources, the partitions that one query
left are those the next one finds. A reader here takes no filters, so its partitions are the same
whoever asks for them; rows are chosen by the option `where`, which belongs to the relation.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.identity import TableKey
from omnigraph.pipeline.inputs import build_table_mapping
from omnigraph.pipeline.spark_columns import cast_to_schema, make_arrow_schema
from omnigraph.pipeline.table_scan import TableScan, plan_partitions, scan_rows
from omnigraph.pipeline.type_scan import choose_columns, scan_type
from omnigraph.settings import Settings
from omnigraph.spark_source.options import Pin, QueryText, SourceReadOptions
from omnigraph.spark_source.pinned_graph import (
    read_environment_settings,
    read_pinned,
    read_query_schema,
    run_query_batches,
)


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


def read_source_schema(options: SourceReadOptions, pin: Pin) -> pa.Schema:
    """The columns of a read."""
    settings = read_environment_settings()
    if options.query is not None:
        return choose_columns(read_query_schema(pin, options.query, settings), options.columns)
    scan = _scan(options, options.columns, pin, settings)
    return choose_columns(build_logical_schema(scan.type_), options.columns)


def _scan(
    options: SourceReadOptions, columns: Sequence[str] | None, pin: Pin, settings: Settings
) -> TableScan:
    snapshot, catalog = read_pinned(pin, settings)
    type_ = find_named_type(catalog, options.need_type())
    return scan_type(snapshot, catalog, type_, columns, options.where)


def find_named_type(catalog: Catalog, name: str) -> NodeType | EdgeType:
    mapping = build_table_mapping(catalog, name, {})
    assert mapping is not None, "a type was named"
    return catalog.by_table_key[TableKey(mapping.table_key)]


class TypeReader(DataSourceReader):
    """Reads the rows of one type."""

    def __init__(self, options: SourceReadOptions, pin: Pin, schema: StructType) -> None:
        self._options, self._pin, self._schema = options, pin, make_arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        scan = _scan(self._options, self._schema.names, self._pin, read_environment_settings())
        groups = plan_partitions(scan.table, self._options.rows_per_partition)
        return [FragmentGroup(scan, group) for group in groups]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        if not isinstance(partition, FragmentGroup):
            return  # a table without rows has no fragments, and Spark asks all the same
        for batch in scan_rows(partition.scan, partition.fragments):
            yield cast_to_schema(batch, self._schema)


class QueryReader(DataSourceReader):
    """Reads the result of a query, run by the embedded executor in one task."""

    def __init__(self, query: QueryText, pin: Pin, schema: StructType) -> None:
        self._query, self._pin, self._schema = query, pin, make_arrow_schema(schema)

    def partitions(self) -> Sequence[InputPartition]:
        return [QueryRun(self._pin, self._query, read_environment_settings())]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, QueryRun)
        for batch in run_query_batches(partition.pin, partition.query, partition.settings):
            yield cast_to_schema(batch, self._schema)


def make_reader(options: SourceReadOptions, pin: Pin, schema: StructType) -> DataSourceReader:
    if options.query is not None:
        return QueryReader(options.query, pin, schema)
    return TypeReader(options, pin, schema)

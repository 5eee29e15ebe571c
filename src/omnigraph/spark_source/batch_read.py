"""Batch reads of a type or of a query, from a graph that each process opens by its address."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import BadRequest
from omnigraph.execution.read import build_output_schema
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.graph import graph as graphs
from omnigraph.identity import TableKey
from omnigraph.language.source import SourceText
from omnigraph.pipeline.input_splits import build_table_mapping
from omnigraph.pipeline.spark_columns import cast_to_schema, make_arrow_schema
from omnigraph.pipeline.table_scan import (
    TableScan,
    choose_columns,
    plan_partitions,
    scan_rows,
    scan_type,
)
from omnigraph.settings import Settings
from omnigraph.spark_source.options import Pin, QueryText, SourceReadOptions
from omnigraph.storage.snapshot import Snapshot


def read_environment_settings() -> Settings:
    """Read the settings from the environment of this process."""
    return Settings.from_environment(os.environ)


def resolve_pin(pin: Pin, settings: Settings) -> Pin:
    """Resolve a state to its commit, which later writes do not change."""
    graph = _open(pin, settings)
    commit = pin.snapshot
    if pin.at_us is not None:
        commit = _commit_at(graph, pin.branch, pin.at_us)
    view = graph.at(snapshot=commit, version=pin.version, branch=pin.branch).view
    return replace(pin, snapshot=view.snapshot.id, version=None, at_us=None)


def _open(pin: Pin, settings: Settings) -> graphs.Graph:
    return graphs.open(
        pin.uri, read_only=True, actor=pin.actor, policy=pin.policy, settings=settings
    )


def _commit_at(graph: graphs.Graph, branch: str, at_us: int) -> str:
    """Return the newest commit of a branch made at or before a time."""
    commits = graph.commits(branch=branch)
    for commit in commits:
        if commit.created_at <= at_us:
            return commit.commit_id
    oldest = commits[-1]
    raise BadRequest(
        f"branch '{branch}' has no commit at or before the time of option 'timestampAsOf'; the "
        f"oldest one, {oldest.commit_id}, is of {_to_datetime(oldest.created_at).isoformat()}"
    )


def _to_datetime(at_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)


def read_pinned(pin: Pin, settings: Settings) -> tuple[Snapshot, Catalog]:
    """Return the state to read, and its schema."""
    view = _open_pinned(pin, settings).view
    return view.snapshot, view.catalog


def _open_pinned(pin: Pin, settings: Settings) -> graphs.GraphView:
    return _open(pin, settings).at(snapshot=pin.snapshot, branch=pin.branch)


def read_query_schema(pin: Pin, query: QueryText, settings: Settings) -> pa.Schema:
    """Return the columns of a query's result; reads only the schema."""
    plan = _open_pinned(pin, settings).plan(SourceText(query.text, "<query>"), query.name)
    return build_output_schema(plan.columns)


def run_query_batches(pin: Pin, query: QueryText, settings: Settings) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a query's result in batches."""
    return _open_pinned(pin, settings).query(query.text, query.name, query.params).batches()


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
    """Return the columns of a read."""
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

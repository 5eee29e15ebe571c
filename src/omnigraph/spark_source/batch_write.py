"""Batch writes: executors stage rows, one process commits them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from uuid import NAMESPACE_OID, uuid4, uuid5

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import (
    DataSourceArrowWriter,
    DataSourceStreamArrowWriter,
    WriterCommitMessage,
)

from omnigraph.catalog.codec import encode_ir
from omnigraph.embedding.text_vectors import open_task_vectors
from omnigraph.errors import BadRequest
from omnigraph.execution.load_options import LoadMode, LoadOptions
from omnigraph.graph.apply_load import commit_rows
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.guard import Guard
from omnigraph.identity import TableKey
from omnigraph.pipeline.input_splits import ColumnMapping, build_table_mapping
from omnigraph.pipeline.kernels.stage_kernel import (
    FrameSpec,
    StagedSplit,
    StageSpec,
    stage_partition,
)
from omnigraph.pipeline.spark_columns import round_decimals
from omnigraph.pipeline.staged_input import StagedRows, list_vector_tables
from omnigraph.pipeline.staging_area import StagingArea, decode_catalog_cached
from omnigraph.pipeline.tasks import Partition
from omnigraph.policy import Action
from omnigraph.spark_source.batch_read import read_environment_settings, read_pinned
from omnigraph.spark_source.options import Pin, SourceWriteOptions
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.staging_heartbeat import end_shared_heartbeat, share_heartbeat
from omnigraph.storage.tables import Table
from omnigraph.writer.change import WriteOptions

_QUERY_ID = "sql.streaming.queryId"
_EPOCH = "streaming.sql.batchId"
_RUN = "spark.jobGroup.id"


@dataclass
class StagedMessage(WriterCommitMessage):
    """Rows staged by one task, their location, and their stream."""

    area: str
    split: StagedSplit
    query: str | None = None


class _Target:
    """Target of a write: opened once where the write is planned, then sent to the tasks."""

    def __init__(self, options: SourceWriteOptions, mode: LoadMode) -> None:
        self.options, self.mode, self.settings = options, mode, read_environment_settings()
        self.load = LoadOptions(mode=mode, partial=options.partial)
        self._require_allowed()
        _, catalog = read_pinned(Pin(options.uri, options.branch), self.settings)
        mapping = build_table_mapping(catalog, options.type_name, {})
        assert mapping is not None, "a type was named"
        self.mapping: ColumnMapping = mapping
        self.ir = encode_ir(catalog)

    def stage(self, area: str, batches: Iterator[pa.RecordBatch]) -> StagedSplit:
        """Stage the rows of one task."""
        staging = StagingArea(self._open_root(), area)
        key = TableKey(self.mapping.table_key)
        locations = {key: staging.table_location(key)}
        spec = StageSpec(
            ir=self.ir,
            locations=locations,
            aws=self.settings.aws,
            options=self.load,
            vectors=open_task_vectors(staging.root),
            stored=self._find_stored(key),
        )
        context = TaskContext.get()
        number = context.partitionId() if context is not None else 0
        task = Partition(number, map(_read_back, batches))
        # Hours may lie between the first task and the commit, and no process lives as long.
        with share_heartbeat(staging.root, staging.note):
            return stage_partition(FrameSpec(spec, self.mapping), task)

    def _find_stored(self, key: TableKey) -> dict[TableKey, Table]:
        """Return the current rows that may keep their vectors; a stream runs for long."""
        type_ = decode_catalog_cached(self.ir).by_table_key[key]
        if self.mode is not LoadMode.MERGE or not type_.embedded:
            return {}
        snapshot, catalog = read_pinned(Pin(self.options.uri, self.options.branch), self.settings)
        found = list_vector_tables(snapshot, catalog, self.mode)
        return {key: found[key]} if key in found else {}

    def commit(
        self, area: str, splits: Sequence[StagedSplit], origin: str | None = None
    ) -> str | None:
        options = self.options
        self._require_allowed()
        return commit_rows(
            BranchSnapshots(self._open_root()),
            StagedRows(area, self.ir, splits),
            self.load,
            WriteOptions(branch=options.branch, actor_id=options.actor, message=options.message),
            origin,
        )

    def _require_allowed(self) -> None:
        options = self.options
        Guard(options.policy, options.actor).allow(Action.CHANGE, branch=options.branch)

    def forget(self, area: str) -> None:
        staging = StagingArea(self._open_root(), area)
        end_shared_heartbeat(staging.root, staging.note)
        staging.remove()

    def _open_root(self) -> GraphRoot:
        return GraphRoot.at(self.options.uri, self.settings)


def _read_back(batch: pa.RecordBatch) -> pa.RecordBatch:
    columns = {name: round_decimals(batch.column(name)) for name in batch.schema.names}
    return pa.RecordBatch.from_pydict(columns)


class BatchWriter(DataSourceArrowWriter):
    """Writes the rows of a data frame as one commit."""

    def __init__(self, options: SourceWriteOptions, *, overwrite: bool) -> None:
        mode = _parse_batch_mode(options.mode, overwrite=overwrite)
        self._target, self._area = _Target(options, mode), uuid4().hex

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        return StagedMessage(self._area, self._target.stage(self._area, iterator))

    def commit(self, messages: list[WriterCommitMessage | None]) -> None:
        splits = [one.split for one in messages if isinstance(one, StagedMessage)]
        if any(_has_rows(split) for split in splits):
            self._target.commit(self._area, splits)
            return
        self._target.forget(self._area)
        if self._target.mode is LoadMode.OVERWRITE:
            raise BadRequest(
                "an overwrite without rows would leave nothing of the type; "
                "delete the rows with a mutation if that is meant"
            )

    def abort(
        self,
        messages: list[WriterCommitMessage | None],  # noqa: ARG002 - Spark's signature
    ) -> None:
        """Remove the staged rows; nothing was published."""
        self._target.forget(self._area)


def _parse_batch_mode(asked: LoadMode | None, *, overwrite: bool) -> LoadMode:
    if overwrite:
        if asked not in (None, LoadMode.OVERWRITE):
            raise BadRequest(f"option mode '{asked}' contradicts mode(\"overwrite\")")
        return LoadMode.OVERWRITE
    if asked is LoadMode.OVERWRITE:
        raise BadRequest('replace all rows with mode("overwrite")')
    return asked or LoadMode.APPEND


class StreamWriter(DataSourceStreamArrowWriter):
    """Writes every epoch of a streaming query as one commit, exactly once.

    The commit records the query and the epoch. An epoch that Spark repeats after a
    crash finds that commit and is skipped.
    """

    def __init__(self, options: SourceWriteOptions, *, overwrite: bool) -> None:
        if overwrite or options.mode is LoadMode.OVERWRITE:
            raise BadRequest("a stream appends or merges; it cannot replace all rows each time")
        self._options, self._mode = options, options.mode or LoadMode.APPEND
        self._target = _Target(options, self._mode)

    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedMessage:
        query, area = _find_epoch()
        return StagedMessage(area, self._target.stage(area, iterator), query)

    def commit(self, messages: list[WriterCommitMessage | None], batchId: int) -> None:
        staged = [one for one in messages if isinstance(one, StagedMessage)]
        if not staged:
            return
        query = self._options.stream_id or staged[0].query
        if query is None:
            raise BadRequest(
                "this version of Spark does not report the id of the query; give option 'streamId'"
            )
        area, splits = staged[0].area, [one.split for one in staged]
        if not any(_has_rows(split) for split in splits):
            self._target.forget(area)
            return
        self._target.commit(area, splits, name_stream_origin(query, batchId))

    def abort(
        self,
        messages: list[WriterCommitMessage | None],
        batchId: int,  # noqa: ARG002 - Spark's signature
    ) -> None:
        for area in {one.area for one in messages if isinstance(one, StagedMessage)}:
            self._target.forget(area)


def name_stream_origin(query: str, epoch: int) -> str:
    """Return the origin of the commit of an epoch, equal in every repetition."""
    return f"spark-stream:{query}:{epoch}"


def _has_rows(split: StagedSplit) -> bool:
    return bool(split.lines)


def _find_epoch() -> tuple[str | None, str]:
    """Return the streaming query, and the staging area shared by all tasks of this attempt."""
    context = TaskContext.get()
    if context is None:
        return None, uuid4().hex
    query = context.getLocalProperty(_QUERY_ID)
    parts = [query, context.getLocalProperty(_RUN), context.getLocalProperty(_EPOCH)]
    return query, uuid5(NAMESPACE_OID, "/".join(str(part) for part in parts)).hex

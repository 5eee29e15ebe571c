"""Loading any amount of input as one commit, by the tasks of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.errors import BadRequest, ReadSetChanged
from omnigraph.graph.engines import require_engine
from omnigraph.graph.loading import (
    BulkOptions,
    LoadRequest,
    Records,
    ensure_branch,
    is_frame,
    is_table,
    load_result,
    read_records,
)
from omnigraph.graph.results import LoadResult, SkippedRows
from omnigraph.pipeline.inputs import InputOptions
from omnigraph.pipeline.load import (
    FileSource,
    FrameSource,
    LoadJob,
    LoadOptions,
    Measured,
    Source,
    TableSource,
)
from omnigraph.pipeline.session import spark
from omnigraph.pipeline.spool import spooled
from omnigraph.pipeline.tasks import InlineTasks, SparkTasks, Tasks, check_executors
from omnigraph.settings import Settings
from omnigraph.storage.recovery.intent import WriterKind
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.write import Ticket
from omnigraph.writer.change import Prepared, View
from omnigraph.writer.driver import Writer


def bulk_load(
    writer: Writer,
    records: Records | pa.Table | object,
    request: LoadRequest,
    engine: str,
    options: BulkOptions,
) -> LoadResult:
    """Load every row or none, through the pipeline."""
    options.checked()
    root = writer.branches.root
    created = ensure_branch(writer.branches, request)
    tasks = _tasks(root.settings, engine, options, records)
    with ExitStack() as resources:
        change = _BulkLoad(root, tasks, records, request, options, resources)
        published = writer.write(
            change,
            branch=request.branch,
            actor=request.actor_id,
            expected_head=request.expected_head,
        )
        plain = load_result(change.job.counts, request, published, created=created)
        return _with_measures(plain, change.job.measured())


@dataclass(frozen=True)
class _BulkLoad:
    """Any amount of input; what it leaves beside the graph goes when `resources` are closed."""

    root: GraphRoot
    tasks: Tasks
    records: object
    request: LoadRequest
    options: BulkOptions
    resources: ExitStack
    kind = WriterKind.LOAD
    is_costly = True

    @cached_property
    def job(self) -> LoadJob:
        """Made when it is first prepared: what is written down for it needs protection."""
        spool = self.resources.enter_context(spooled(self.root, _in_memory(self.records)))
        options = LoadOptions(
            self.request.mode,
            partial=self.options.partial,
            skip=self.options.on_error == "skip",
            rejects=self.options.rejects,
        )
        source = _source(self.records, spool, self.options)
        return self.resources.enter_context(
            closing(LoadJob(self.root, self.tasks, source, options))
        )

    def prepare(self, view: View, ticket: Ticket) -> Prepared:
        return Prepared(self.job.prepare(view.snapshot, view.catalog, ticket))

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        return self.request.is_repeatable


def _with_measures(result: LoadResult, measured: Measured) -> LoadResult:
    return replace(
        result,
        engine=measured.engine,
        spark_app_id=measured.spark_app_id,
        stages=tuple(stage.wire() for stage in measured.stages),
        rows=measured.rows,
        bytes=measured.bytes,
        seconds=measured.seconds,
        skipped=SkippedRows(measured.left.total, tuple(measured.left.first)),
    )


def _tasks(settings: Settings, engine: str, options: BulkOptions, records: object) -> Tasks:
    frame: Any = records
    session = options.session or (frame.sparkSession if is_frame(records) else None)
    chosen = "spark" if is_frame(records) else engine
    return tasks_of(chosen, settings, session, options.spark_conf)


def tasks_of(
    engine: str,
    settings: Settings,
    session: object | None = None,
    conf: Mapping[str, str] | None = None,
) -> Tasks:
    """Where the tasks of bulk work run: in this process, or on a Spark session."""
    require_engine(engine)
    if engine == "local":
        return InlineTasks()
    given: Any = session
    chosen = spark(given, settings=settings, conf=conf)
    check_executors(chosen)
    return SparkTasks(chosen)


def _in_memory(records: object) -> bytes | None:
    """What must be written down before tasks can read it."""
    if is_table(records) or is_frame(records) or isinstance(records, str | Path):
        return None
    if isinstance(records, list | tuple) and records and isinstance(records[0], str | Path):
        return None
    data, _ = read_records(records)  # type: ignore[arg-type]
    return data


def _source(records: object, spool: str | None, options: BulkOptions) -> Source:
    if is_table(records):
        table = pa.Table.from_batches([records]) if isinstance(records, pa.RecordBatch) else records
        return TableSource(table, _type_name(options), options.columns)
    if is_frame(records):
        return FrameSource(records, _type_name(options), options.columns)  # type: ignore[arg-type]
    inputs = InputOptions(options.format, options.type, options.columns)
    if spool is not None:
        return FileSource((spool,), inputs, name=None)
    places = records if isinstance(records, list | tuple) else [records]
    return FileSource(tuple(places), inputs)  # type: ignore[arg-type]


def _type_name(options: BulkOptions) -> str:
    if options.type is None:
        raise BadRequest("rows of a table do not say their type; give it with type=…")
    return options.type

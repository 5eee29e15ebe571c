"""Loading any amount of input as one commit, by the tasks of the pipeline."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.errors import ReadSetChanged
from omnigraph.execution.fill_vectors import is_configured
from omnigraph.graph.engines import require_engine
from omnigraph.graph.keyed_writes import write_once
from omnigraph.graph.loading import (
    GraphLoadRequest,
    LongInput,
    Records,
    RunsOn,
    describe_load,
    ensure_branch,
    is_frame,
    is_table,
    load_result,
    read_records,
)
from omnigraph.graph.results import LoadResult, SkippedRows
from omnigraph.pipeline.bulk_load import (
    FileSource,
    FrameSource,
    LoadJob,
    Measured,
    Source,
    TableSource,
)
from omnigraph.pipeline.embed_answers import forget_answers
from omnigraph.pipeline.spark_session import spark
from omnigraph.pipeline.spool import spool_input
from omnigraph.pipeline.tasks import InlineTasks, SparkTasks, Tasks, check_executors
from omnigraph.progress import working
from omnigraph.settings import Settings
from omnigraph.storage.recovery import WriterKind
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.staged import Ticket
from omnigraph.writer.change import CatalogSnapshot, Prepared
from omnigraph.writer.driver import Writer


def bulk_load(
    writer: Writer,
    records: Records | pa.Table | object,
    request: GraphLoadRequest,
    runs_on: RunsOn,
) -> LoadResult:
    """Load every row or none, through the pipeline."""
    root = writer.branches.root
    created = ensure_branch(writer.branches, request)
    tasks = _open_tasks(root.settings, runs_on, records)
    with ExitStack() as resources:
        change = _BulkLoad(root, tasks, records, request, resources)
        written = write_once(
            writer,
            change,
            lambda: describe_load(change.job.counts, request, created=created),
            request.key,
            branch=request.branch,
            actor=request.actor_id,
            expected_head=request.expected_head,
            message=request.message,
        )
        if is_configured(root.settings.embed):
            forget_answers(root)
        if written.kept is not None:
            return load_result({}, request, written, created=created)
        plain = load_result(change.job.counts, request, written, created=created)
        return _with_measures(plain, change.job.list_stage_times())


@dataclass(frozen=True)
class _BulkLoad:
    """Any amount of input; what it leaves next to the graph goes with `resources`."""

    root: GraphRoot
    tasks: Tasks
    records: object
    request: GraphLoadRequest
    resources: ExitStack
    kind = WriterKind.LOAD
    is_costly = True

    @cached_property
    def job(self) -> LoadJob:
        """Made when it is first prepared: what is written down for it needs protection."""
        spool = self.resources.enter_context(spool_input(self.root, _in_memory(self.records)))
        source = _make_source(self.records, spool)
        job = LoadJob(self.root, self.tasks, source, self.request.options)
        return self.resources.enter_context(closing(job))

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> Prepared | None:
        staged = self.job.prepare(view.snapshot, view.catalog, ticket)
        return Prepared(staged) if staged else None

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


def _open_tasks(settings: Settings, runs_on: RunsOn, records: object) -> Tasks:
    frame: Any = records
    session = runs_on.session or (frame.sparkSession if is_frame(records) else None)
    assert runs_on.engine is not None, "an engine was chosen"
    return open_tasks(runs_on.engine, settings, session, runs_on.spark_conf)


def open_tasks(
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
    with working("starting Spark"):
        chosen = spark(given, settings=settings, conf=conf)
    check_executors(chosen)
    return SparkTasks(chosen)


def _in_memory(records: object) -> Iterable[bytes] | None:
    """What must be written down before tasks can read it, in pieces."""
    if isinstance(records, LongInput):
        return records.chunks()
    if is_table(records) or is_frame(records) or isinstance(records, str | Path):
        return None
    if isinstance(records, list | tuple) and records and isinstance(records[0], str | Path):
        return None
    data, _ = read_records(records)  # type: ignore[arg-type]
    return (data,)


def _make_source(records: object, spool: str | None) -> Source:
    if is_table(records):
        table = pa.Table.from_batches([records]) if isinstance(records, pa.RecordBatch) else records
        return TableSource(table)
    if is_frame(records):
        return FrameSource(records)  # type: ignore[arg-type]
    if spool is not None:
        return FileSource((spool,), name=None)
    places = records if isinstance(records, list | tuple) else [records]
    return FileSource(tuple(places))  # type: ignore[arg-type]

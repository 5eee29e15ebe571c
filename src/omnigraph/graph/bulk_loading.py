"""Loading any amount of input as one commit, by the tasks of the pipeline."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.errors import BadRequest, ReadSetChanged
from omnigraph.graph.engines import require_engine
from omnigraph.graph.loading import (
    BulkOptions,
    LoadRequest,
    Records,
    check_head,
    ensure_branch,
    is_frame,
    is_table,
    load_result,
    may_retry,
    read_records,
)
from omnigraph.graph.preparing import MAX_PREPARATIONS, CommitWindow, prepared_on
from omnigraph.graph.results import LoadResult, SkippedRows
from omnigraph.graph.view import View, Views
from omnigraph.identity import CommitId
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
from omnigraph.storage.at_work import AtWork, at_work
from omnigraph.storage.publish import Published
from omnigraph.storage.recovery.intent import WriterKind
from omnigraph.storage.write import WriteRequest, commit_write, mint_ticket


def bulk_load(
    views: Views,
    records: Records | pa.Table | object,
    request: LoadRequest,
    engine: str,
    options: BulkOptions,
) -> LoadResult:
    """Load every row or none, through the pipeline."""
    options.checked()
    created = ensure_branch(views, request)
    tasks = _tasks(views, engine, options, records)
    with at_work(views.root) as note, spooled(views.root, _in_memory(records)) as spool:
        source = _source(records, spool, options)
        load_options = LoadOptions(
            request.mode,
            partial=options.partial,
            skip=options.on_error == "skip",
            rejects=options.rejects,
        )
        job = LoadJob(views.root, tasks, source, load_options)
        try:
            return _attempts(views, job, request, note, created=created)
        finally:
            job.close()


def _attempts(
    views: Views, job: LoadJob, request: LoadRequest, note: AtWork, *, created: bool
) -> LoadResult:
    with CommitWindow(views.root, is_costly=True) as window:
        for attempt in range(MAX_PREPARATIONS):
            view = views.newest(request.branch)
            check_head(view, request)
            try:
                with prepared_on(view.snapshot):
                    published = _commit(view, job, request, window, note)
            except ReadSetChanged as change:
                if not may_retry(request, change) or attempt + 1 == MAX_PREPARATIONS:
                    raise
                window.lost()
                continue
            views.remember(view.snapshot.ref, window.conclude(view.snapshot, published))
            plain = load_result(view, job.counts, request, published, created=created)
            return _with_measures(plain, job.measured())
    raise AssertionError("the last attempt returns or raises")


def _commit(
    view: View, job: LoadJob, request: LoadRequest, window: CommitWindow, note: AtWork
) -> Published:
    snapshot, ticket = view.snapshot, mint_ticket(view.snapshot, note)
    expected = None if request.expected_head is None else CommitId(request.expected_head)
    staged = job.prepare(snapshot, view.catalog, ticket)
    write = WriteRequest(snapshot, ticket, WriterKind.LOAD, staged, request.actor_id, expected)
    return commit_write(write, window.hold)


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


def _tasks(views: Views, engine: str, options: BulkOptions, records: object) -> Tasks:
    frame: Any = records
    session = options.session or (frame.sparkSession if is_frame(records) else None)
    chosen = "spark" if is_frame(records) else engine
    return tasks_of(chosen, views.root.settings, session, options.spark_conf)


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

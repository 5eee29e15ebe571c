"""Load any amount of input as one commit, by tasks of the pipeline; choose the engine of a load."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterable, Mapping, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.errors import BadRequest, ReadSetChanged
from omnigraph.execution.embed_on_write import is_configured
from omnigraph.execution.load_input import LoadMode
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.engines import require_engine
from omnigraph.graph.idempotency import write_once
from omnigraph.graph.loading import (
    EngineOptions,
    GraphLoadRequest,
    Records,
    StreamInput,
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
    StagedLoad,
    StagedWrite,
    TableSource,
)
from omnigraph.pipeline.inputs import measure_files
from omnigraph.pipeline.kernels.embed_kernel import forget_answers
from omnigraph.pipeline.spark_environment import find_java
from omnigraph.pipeline.spark_session import find_active_session, is_local, spark
from omnigraph.pipeline.staging_area import StagingArea, spool_input
from omnigraph.pipeline.tasks import InlineTasks, SparkTasks, Tasks, check_executors
from omnigraph.progress import working
from omnigraph.settings import AwsSettings, LoadEngine, Settings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.recovery import WriterKind
from omnigraph.storage.staged import Ticket
from omnigraph.storage.writer_heartbeat import continue_write_note
from omnigraph.writer.change import CatalogSnapshot, Prepared
from omnigraph.writer.driver import Writer

START_FACTOR = 8
"""Starting Spark costs as much as it saves on this many times the input."""


@dataclass(frozen=True, slots=True)
class EngineChoice:
    """Where a load runs, and why."""

    engine: str
    reason: str


def choose_engine(records: object, runs_on: EngineOptions, root: GraphRoot) -> EngineChoice:
    """Where to run a load.

    Raises:
        BadRequest: there is no such engine, or a file cannot be read.
    """
    if is_frame(records):
        return EngineChoice("spark", "the rows are a Spark data frame")
    asked = runs_on.engine or str(root.settings.load_engine)
    if asked not in tuple(LoadEngine):
        raise BadRequest(f"engine '{asked}' is not one of {', '.join(LoadEngine)}")
    if asked != LoadEngine.AUTO:
        return EngineChoice(asked, "asked for" if runs_on.engine else "OMNIGRAPH_LOAD_ENGINE")
    if runs_on.session is not None:
        return EngineChoice("spark", "a Spark session was given")
    if runs_on.spark_conf:
        return EngineChoice("spark", "Spark options were given")
    size = _measure_input(records, root.settings)
    if size is None:
        return EngineChoice("local", "the size of a stream is not known")
    return _choose_by_size(size, records, root)


def _choose_by_size(size: int, records: object, root: GraphRoot) -> EngineChoice:
    settings = root.settings
    least, shown = settings.spark.load_bytes, f"{_show_mebibytes(size)} of input"
    if size < least:  # whatever Spark there is; looking for it has a price
        limit = _show_mebibytes(least)
        return EngineChoice("local", f"{shown}; Spark is used from {limit} on")
    is_started = _is_spark_up(settings)
    if not is_started and size < least * START_FACTOR:
        limit = _show_mebibytes(least * START_FACTOR)
        return EngineChoice("local", f"{shown}; Spark is started from {limit} on")
    obstacle = _find_obstacle(records, root)
    if obstacle is not None:
        return EngineChoice("local", f"{shown}, but {obstacle}")
    return EngineChoice("spark", shown)


def _measure_input(records: object, settings: Settings) -> int | None:
    """About how many bytes of plain records there are; None if nobody knows yet."""
    given: Any = records
    if isinstance(records, StreamInput):
        return None
    if is_table(records):
        return int(given.nbytes)
    if isinstance(records, bytes):
        return len(records)
    return measure_files(_list_places(records), settings.aws)


def _list_places(records: object) -> Sequence[str | Path]:
    if isinstance(records, str | Path):
        return (records,)
    return records if isinstance(records, list | tuple) else ()


def _is_spark_up(settings: Settings) -> bool:
    """Whether there is a session, or a cluster that was named."""
    return bool(find_active_session() or settings.spark.remote or settings.spark.master)


def _find_obstacle(records: object, root: GraphRoot) -> str | None:
    """Why Spark cannot do it, if it cannot."""
    active, settings = find_active_session(), root.settings
    if active is None:
        if find_spec("pyspark") is None:
            return "PySpark is not installed"
        if not settings.spark.remote and not _has_java():
            return "Java was not found"
    if active is not None:
        is_elsewhere = not is_local(active)
    else:
        is_elsewhere = bool(settings.spark.remote) or not _is_on_this_machine(settings)
    places = [root.uri, *map(str, _list_places(records))]
    if is_elsewhere and any("://" not in one or one.startswith("file:") for one in places):
        return "Spark runs elsewhere and may not reach files of this machine"
    return None


def _is_on_this_machine(settings: Settings) -> bool:
    return (settings.spark.master or "local").partition("[")[0] == "local"


def _has_java() -> bool:
    try:
        find_java(os.environ)
    except BadRequest:
        return False
    return True


def _show_mebibytes(size: int) -> str:
    return f"{size / (1 << 20):,.1f}".removesuffix(".0") + " MiB"


def identify_input(given: Any, aws: AwsSettings) -> object:  # noqa: ANN401 - whatever can be loaded
    """Bytes, or something that can be written as JSON; different where the content is.

    Of a long stream only the beginning is known, and a data frame is known by what it computes.
    """
    if isinstance(given, bytes):
        return given
    if isinstance(given, StreamInput):
        return given.start
    if is_table(given):
        return _digest_table(given)
    if is_frame(given):
        return {"frame": given.semanticHash(), "columns": given.schema.json()}
    from omnigraph.pipeline.inputs import identify_files

    return identify_files(given if isinstance(given, list | tuple) else [given], aws)


def _digest_table(table: pa.Table | pa.RecordBatch) -> str:
    """A digest of the columns; how they are cut into chunks makes no difference."""
    digest = hashlib.sha256()
    for name, column in zip(table.schema.names, table.columns, strict=True):
        whole = column.combine_chunks() if isinstance(column, pa.ChunkedArray) else column
        chunks = whole.chunks if isinstance(whole, pa.ChunkedArray) else [whole]
        for chunk in chunks:
            batch, sink = pa.record_batch([chunk], names=[name]), pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as writer:
                writer.write_batch(batch)
            digest.update(sink.getvalue())
    return digest.hexdigest()


def bulk_load(
    writer: Writer,
    records: Records | pa.Table | object,
    request: GraphLoadRequest,
    runs_on: EngineOptions,
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


def _open_tasks(settings: Settings, runs_on: EngineOptions, records: object) -> Tasks:
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
    if isinstance(records, StreamInput):
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


def commit_rows(views: BranchSnapshots, write: StagedWrite) -> str | None:
    """The new commit; None where the branch has a commit of the same origin already.

    Raises:
        ConflictError: cleanup has taken the tasks that staged them for dead.
    """
    note = continue_write_note(views.root, StagingArea(views.root, write.area).note)
    with closing(StagedLoad(views.root, write)) as job:
        try:
            published = Writer(views).write(
                _StagedRows(views, job, write),
                branch=write.branch,
                actor=write.actor,
                message=write.message,
                note=note,
            )
        finally:
            note.end()
    return None if published is None or published.commit is None else published.commit.commit_id


class _StagedRows:
    """Rows that others staged, and that are there as often as they must be prepared."""

    kind, is_costly = WriterKind.LOAD, True

    def __init__(self, views: BranchSnapshots, job: StagedLoad, write: StagedWrite) -> None:
        self._views, self._job, self._write = views, job, write

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> Prepared | None:
        origin = self._write.origin
        # A commit that comes after this look makes the branch move, and then everything is redone.
        if origin is not None and self._has_commit_of(origin):
            return None
        staged = self._job.prepare(view.snapshot, view.catalog, ticket)
        return Prepared(staged, origin=origin)

    def _has_commit_of(self, origin: str) -> bool:
        commits = self._views.commits(self._write.branch)
        return any(commit.origin == origin for commit in commits)

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        return self._write.mode is not LoadMode.OVERWRITE

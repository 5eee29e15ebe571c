"""Loads as changes of a branch: in one piece, by tasks of the pipeline, or staged before."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog
from omnigraph.constraints.constraint_checks import require_valid
from omnigraph.errors import AlreadyExists, BranchNotFound, KeyConflict, ReadSetChanged
from omnigraph.execution.embed_on_write import WriteVectors, embeds_on_write, is_configured
from omnigraph.execution.load_input import LoadMode, LoadOptions, LoadPlan, parse_records, plan_load
from omnigraph.execution.pending_rows import CommittedRows, stage_tables
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.engines import EngineOptions, open_tasks
from omnigraph.graph.idempotency import KeyedWrite, WriteKey, write_once
from omnigraph.graph.input_forms import Records, StreamInput, is_frame, is_table, read_records
from omnigraph.graph.results import LoadResult, SkippedRows
from omnigraph.identity import TableKey
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
from omnigraph.pipeline.kernels.embed_kernel import forget_answers
from omnigraph.pipeline.staging_area import StagingArea, spool_input
from omnigraph.pipeline.tasks import Tasks
from omnigraph.settings import Settings
from omnigraph.storage import graph_branches
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import normalize_branch
from omnigraph.storage.refs import find_ref
from omnigraph.storage.staged import Ticket
from omnigraph.storage.write_plan import WriterKind
from omnigraph.storage.writer_heartbeat import continue_heartbeat
from omnigraph.typed_reading import convert_into
from omnigraph.types.jsonl import ParsedLines
from omnigraph.writer.change import BranchReader, CatalogSnapshot, PlanContent, WriteOptions
from omnigraph.writer.driver import Writer

REPORTED_PROBLEMS = 100
COSTLY_BYTES = 1 << 20
"""More input than this takes long to prepare, and is not prepared while others wait."""


@dataclass(frozen=True, slots=True)
class GraphLoadRequest:
    """One load: how and to which branch; the input too, where it is in one piece."""

    options: LoadOptions
    write: WriteOptions
    base: str | None = None
    data: bytes = b""
    file: str | None = None
    key: WriteKey | None = None

    @property
    def mode(self) -> LoadMode:
        return self.options.mode

    @property
    def is_repeatable(self) -> bool:
        """Whether it means the same on a branch that others changed; an overwrite does not."""
        return self.mode is not LoadMode.OVERWRITE

    def make_key(self, content: object) -> WriteKey | None:
        """Make the key, with all that tells two loads into a branch apart."""
        from omnigraph.graph.idempotency import WriteKey

        options = self.options
        how = (str(options.mode), options.format, options.partial, options.on_error)
        what = (options.type, dict(options.columns), options.select, options.delimiter)
        return WriteKey.of(self.write, "load", *how, *what, options.match, self.base, content)


def has_branch(root: GraphRoot, branch: str) -> bool:
    return find_ref(root.store, normalize_branch(branch)) is not None


def ensure_branch(views: BranchReader, request: GraphLoadRequest) -> bool:
    """Create the branch if it is missing and a base was given; tells whether it did."""
    name = normalize_branch(request.write.branch)
    if find_ref(views.root.store, name) is not None:
        return False
    if request.base is None:
        raise BranchNotFound(name, "name another branch to create it from")
    try:
        graph_branches.create(views.read_newest(request.base).snapshot, name, request.write.actor)
    except AlreadyExists:
        return False  # another load wanted it too, and was first
    return True


def describe_load(
    loaded: Mapping[TableKey, int], request: GraphLoadRequest, *, created: bool
) -> dict[str, object]:
    """What a load did, as it is kept with its commit."""
    counts: dict[str, dict[str, int]] = {"nodes": {}, "edges": {}}
    for key, count in loaded.items():
        kind, _, name = key.partition(":")
        counts[f"{kind}s"][name] = count
    return {"mode": str(request.mode), "branch_created": created, **counts}


@dataclass(frozen=True, slots=True)
class _Counts:
    nodes: dict[str, int]
    edges: dict[str, int]


def load_result(
    loaded: Mapping[TableKey, int],
    request: GraphLoadRequest,
    written: KeyedWrite,
    *,
    created: bool,
) -> LoadResult:
    kept = written.kept
    answer = describe_load(loaded, request, created=created) if kept is None else kept.answer
    counts = convert_into({kind: answer[kind] for kind in ("nodes", "edges")}, _Counts)
    return LoadResult(
        branch=normalize_branch(request.write.branch),
        base_branch=request.base,
        branch_created=bool(answer["branch_created"]),
        mode=str(request.mode),
        engine="local",
        nodes=counts.nodes,
        edges=counts.edges,
        actor_id=request.write.actor,
        commit=written.commit,
        is_replayed=kept is not None,
    )


# --- in one piece ---------------------------------------------------------------------------------


def load(writer: Writer, request: GraphLoadRequest) -> LoadResult:
    """Load every record or none."""
    created = ensure_branch(writer.branches, request)
    settings = writer.branches.root.settings.embed
    is_costly = embeds_on_write(
        settings, lambda: writer.branches.read_newest(request.write.branch).catalog
    )
    change = _Load(request, WriteVectors(settings), is_costly=is_costly)
    written = write_once(
        writer,
        change,
        lambda: describe_load(change.counts, request, created=created),
        request.write,
        request.key,
    )
    return load_result(change.counts, request, written, created=created)


class _Load:
    """Records in one piece."""

    kind = WriterKind.LOAD

    def __init__(
        self, request: GraphLoadRequest, vectors: WriteVectors, *, is_costly: bool = False
    ) -> None:
        self._request = request
        self._parsed: tuple[Catalog, ParsedLines] | None = None
        self._vectors = vectors
        self.is_costly = is_costly or len(request.data) > COSTLY_BYTES
        self.counts: Mapping[TableKey, int] = {}

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        request, snapshot, committed = self._request, view.snapshot, CommittedRows(view.snapshot)
        ids, parsed = snapshot.root.ids, self._parse(view.catalog)
        plan = plan_load(
            parsed, view.catalog, request.mode, committed, ids, request.file, self._vectors
        )
        require_valid(plan.table_changes(), view.catalog, committed)
        self.counts = plan.counts
        try:
            changes = [plan.changes[key] for key in sorted(plan.changes)]
            staged = stage_tables(snapshot, ticket, changes)
        except KeyConflict as conflict:
            raise _with_place(conflict, plan, request.file) from conflict
        return PlanContent(staged) if staged else None

    def _parse(self, catalog: Catalog) -> ParsedLines:
        """The input, parsed once for each schema it meets, however often the load is prepared."""
        if self._parsed is None or self._parsed[0] is not catalog:
            request = self._request
            parsed = parse_records(request.data, catalog, request.file, REPORTED_PROBLEMS)
            self._parsed = catalog, parsed
        return self._parsed[1]

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        return self._request.is_repeatable


def _with_place(conflict: KeyConflict, plan: LoadPlan, file: str | None) -> KeyConflict:
    """The conflict with the file and line of the record that caused it."""
    found = plan.changes.get(TableKey(conflict.table_key))
    if found is None or conflict.line is not None or conflict.id is None:
        return conflict
    change = found[0]
    at = change.ids.index(conflict.id).as_py()
    line = change.lines[at].as_py() if at >= 0 and change.lines is not None else None
    return KeyConflict(conflict.table_key, conflict.id, line, file)


# --- by tasks of the pipeline ---------------------------------------------------------------------


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
            request.write,
            request.key,
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

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        staged = self.job.prepare(view.snapshot, view.catalog, ticket)
        return PlanContent(staged) if staged else None

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


# --- rows staged before ---------------------------------------------------------------------------


def commit_rows(views: BranchSnapshots, write: StagedWrite) -> str | None:
    """The new commit; None where the branch has a commit of the same origin already.

    Raises:
        ConflictError: cleanup has taken the tasks that staged them for dead.
    """
    note = continue_heartbeat(views.root, StagingArea(views.root, write.area).note)
    with closing(StagedLoad(views.root, write)) as job:
        try:
            published = Writer(views).write(
                _StagedRows(views, job, write),
                WriteOptions(branch=write.branch, actor=write.actor, message=write.message),
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

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        origin = self._write.origin
        # A commit that comes after this look makes the branch move, and then everything is redone.
        if origin is not None and self._has_commit_of(origin):
            return None
        staged = self._job.prepare(view.snapshot, view.catalog, ticket)
        return PlanContent(staged, origin=origin)

    def _has_commit_of(self, origin: str) -> bool:
        commits = self._views.commits(self._write.branch)
        return any(commit.origin == origin for commit in commits)

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        return self._write.mode is not LoadMode.OVERWRITE

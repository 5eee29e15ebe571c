"""Load input of any form as a change of a branch, with any engine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import ExitStack, closing
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from omnigraph.catalog.catalog import Catalog
from omnigraph.embedding.row_vectors import embeds_on_write, is_configured
from omnigraph.embedding.text_vectors import TextVectors, remove_answers
from omnigraph.errors import AlreadyExists, BranchNotFound, ReadSetChanged
from omnigraph.execution.load_options import LoadMode, LoadOptions
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.conversion.load_inputs import LoadInput, StreamInput, TaskInput
from omnigraph.graph.engines import EngineOptions, open_tasks
from omnigraph.graph.idempotency import WriteKey, write_once
from omnigraph.identity import TableKey
from omnigraph.pipeline.bulk_load import LoadJob
from omnigraph.pipeline.input_splits import FileSource, FrameSource
from omnigraph.pipeline.load_stages import RecordInput, RecordLoad
from omnigraph.pipeline.staged_input import StagedRows
from omnigraph.pipeline.staging_area import StagingArea, spool_input
from omnigraph.pipeline.tasks import InlineTasks
from omnigraph.storage import graph_branches
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import normalize_branch
from omnigraph.storage.prepared_write import StagedTable, Ticket
from omnigraph.storage.refs import find_ref
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staging_heartbeat import continue_heartbeat
from omnigraph.storage.write_plan import WriterKind
from omnigraph.wire.write_results import LoadResult, list_loaded
from omnigraph.writer.change import BranchReader, CatalogSnapshot, PlanContent, WriteOptions
from omnigraph.writer.driver import Writer

COSTLY_BYTES = 1 << 20
"""Bytes of input above which a load is prepared before the fence is held."""


@dataclass(frozen=True, slots=True)
class GraphLoadRequest:
    """Options of one load, and its branch."""

    load: LoadOptions
    options: WriteOptions
    base: str | None = None
    key: WriteKey | None = None

    @property
    def mode(self) -> LoadMode:
        return self.load.mode

    def make_key(self, content: object) -> WriteKey | None:
        """Make the key of everything that distinguishes two loads into a branch."""
        from omnigraph.graph.idempotency import WriteKey

        load = self.load
        how = (str(load.mode), load.format, load.partial, load.on_error)
        what = (load.type, dict(load.columns), load.select, load.delimiter, load.match)
        return WriteKey.of(self.options, "load", *how, *what, self.base, content)


def has_branch(root: GraphRoot, branch: str) -> bool:
    return find_ref(root.store, normalize_branch(branch)) is not None


def ensure_branch(views: BranchReader, request: GraphLoadRequest) -> bool:
    """Create the branch if it is missing and a base was given; return whether it was created."""
    name = normalize_branch(request.options.branch)
    if find_ref(views.root.store, name) is not None:
        return False
    if request.base is None:
        raise BranchNotFound(name, "name another branch to create it from")
    try:
        graph_branches.create(
            views.read_newest(request.base).snapshot, name, request.options.actor_id
        )
    except AlreadyExists:
        return False  # another load wanted it too, and was first
    return True


def describe_load(
    loaded: Mapping[TableKey, int], request: GraphLoadRequest, *, created: bool
) -> LoadResult:
    """Return the result of a load, without a commit."""
    counts: dict[str, dict[str, int]] = {"node": {}, "edge": {}}
    for key, count in loaded.items():
        kind, _, name = key.partition(":")
        counts[kind][name] = count
    return LoadResult(
        branch=normalize_branch(request.options.branch),
        base_branch=request.base,
        branch_created=created,
        mode=str(request.mode),
        engine="local",
        engine_reason=None,
        loaded_nodes=list_loaded(counts["node"]),
        loaded_edges=list_loaded(counts["edge"]),
        total_entities=sum(loaded.values()),
        actor_id=request.options.actor_id,
        commit=None,
    )


# --- the change -----------------------------------------------------------------------------------


class Stages(Protocol):
    """The stages of a load: parse, complete, check, write files; run for a state of the branch."""

    @property
    def counts(self) -> Mapping[TableKey, int]:
        """Number of records of each type that were loaded."""
        ...

    def prepare(
        self, snapshot: Snapshot, catalog: Catalog, ticket: Ticket
    ) -> tuple[StagedTable, ...]:
        """Stage one transaction for each table the load changes."""
        ...


@dataclass(frozen=True)
class LoadChange:
    """A load as a change of a branch; prepared again when the branch moved."""

    open_stages: Callable[[], Stages]
    mode: LoadMode
    is_costly: bool = True
    origin: str | None = None
    """Identity of the load, recorded in the commit, if its writer may repeat it."""
    is_done: Callable[[], bool] = lambda: False
    """Returns whether the branch has a commit of this origin."""
    kind = WriterKind.LOAD

    @cached_property
    def stages(self) -> Stages:
        """The stages; opened by the first preparation, which protects their files from cleanup."""
        return self.open_stages()

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        # A commit that comes after this look makes the branch move, and then everything is redone.
        if self.is_done():
            return None
        staged = self.stages.prepare(view.snapshot, view.catalog, ticket)
        return PlanContent(staged, origin=self.origin) if staged or self.origin else None

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        """Return whether the load is valid on another state; an overwrite is not."""
        return self.mode is not LoadMode.OVERWRITE


def load(
    writer: Writer,
    given: LoadInput,
    request: GraphLoadRequest,
    runs_on: EngineOptions,
) -> LoadResult:
    """Load input as one commit or not at all."""
    root = writer.branches.root
    created = ensure_branch(writer.branches, request)
    with ExitStack() as resources:
        if isinstance(given, RecordInput):
            change = _plan_records(writer, given, request)
        else:
            change = _plan_tasks(root, given, request, runs_on, resources)
        result = write_once(
            writer,
            change,
            request.options,
            request.key,
            LoadResult,
            lambda: describe_load(change.stages.counts, request, created=created),
        )
        if not isinstance(given, RecordInput) and is_configured(root.settings.embed):
            remove_answers(root)
        if not result.is_replayed and isinstance(change.stages, LoadJob):
            return change.stages.report(result)
        return result


def _plan_records(writer: Writer, given: RecordInput, request: GraphLoadRequest) -> LoadChange:
    """Plan a load of records in memory."""
    settings, branch = writer.branches.root.settings.embed, request.options.branch
    is_costly = len(given.data) > COSTLY_BYTES or embeds_on_write(
        settings, lambda: writer.branches.read_newest(branch).catalog
    )
    stages = RecordLoad(given, request.mode, TextVectors(settings))
    return LoadChange(lambda: stages, request.mode, is_costly=is_costly)


def _plan_tasks(
    root: GraphRoot,
    given: TaskInput,
    request: GraphLoadRequest,
    runs_on: EngineOptions,
    resources: ExitStack,
) -> LoadChange:
    """Plan a load of any amount of input by tasks; its files are removed with `resources`."""
    session = runs_on.session
    if session is None and isinstance(given, FrameSource):
        session = given.frame.sparkSession
    assert runs_on.engine is not None, "an engine was chosen"
    tasks = open_tasks(runs_on.engine, root.settings, session, runs_on.spark_conf)

    def open_stages() -> LoadJob:
        source = given
        if isinstance(source, StreamInput):
            spool = resources.enter_context(spool_input(root, source.chunks()))
            source = FileSource((spool,), name=None)
        return resources.enter_context(closing(LoadJob(root, tasks, source, request.load)))

    return LoadChange(open_stages, request.mode)


# --- rows staged before ---------------------------------------------------------------------------


def commit_rows(
    views: BranchSnapshots,
    rows: StagedRows,
    load: LoadOptions,
    options: WriteOptions,
    origin: str | None = None,
) -> str | None:
    """Commit rows staged by others; None if the branch already has a commit of that origin.

    Raises:
        ConflictError: cleanup considered the tasks that staged them dead.
    """

    def is_done() -> bool:
        return origin is not None and any(
            commit.origin == origin for commit in views.commits(options.branch)
        )

    heartbeat = continue_heartbeat(views.root, StagingArea(views.root, rows.area).note)
    with closing(LoadJob(views.root, InlineTasks(), rows, load)) as job:
        change = LoadChange(lambda: job, load.mode, origin=origin, is_done=is_done)
        try:
            published = Writer(views).write(change, options, note=heartbeat)
        finally:
            heartbeat.end()
    return None if published is None or published.commit is None else published.commit.commit_id

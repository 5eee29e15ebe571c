"""Filling the vectors of a graph as one commit."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from omnigraph.catalog.codec import encode_ir
from omnigraph.errors import BadRequest, PreconditionFailed
from omnigraph.execution.embed.open import chosen_model, open_embedder
from omnigraph.execution.embed.spec import EmbedSpec, parse_spec, read_spec
from omnigraph.execution.load import LoadMode
from omnigraph.graph.preparing import MAX_PREPARATIONS
from omnigraph.graph.staged_rows import commit_rows
from omnigraph.graph.view import View, Views
from omnigraph.identity import MAIN
from omnigraph.pipeline.embed import GraphEmbedding, forget_answers, graph_targets
from omnigraph.pipeline.embed_kernels import EmbeddedRows
from omnigraph.pipeline.session import spark
from omnigraph.pipeline.source.access import StagedWrite
from omnigraph.pipeline.staging import StagingArea
from omnigraph.pipeline.tasks import InlineTasks, SparkTasks, Tasks, check_executors
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@dataclass(frozen=True, slots=True)
class GraphEmbedRequest:
    """Which vectors of a branch are filled, and by whom."""

    branch: str = MAIN
    types: tuple[str, ...] = ()
    spec: EmbedSpec | None = None
    reembed_all: bool = False
    per_minute: float | None = None
    actor: str | None = None
    engine: str = "spark"
    session: SparkSession | None = None
    spark_conf: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class GraphEmbedSummary:
    """How many vectors were made, and the commit they are in; None if there was nothing to do."""

    branch: str
    embedded: int
    model: str
    engine: str
    commit_id: str | None

    def wire(self) -> dict[str, object]:
        return {
            "branch": self.branch,
            "embedded": self.embedded,
            "model": self.model,
            "engine": self.engine,
            "graph_commit_id": self.commit_id,
        }


def spec_of(spec: str | Path | Mapping[str, object] | None) -> EmbedSpec | None:
    if spec is None:
        return None
    return parse_spec(spec) if isinstance(spec, Mapping) else read_spec(Path(spec))


def tasks_for(
    engine: str,
    session: SparkSession | None,
    conf: Mapping[str, str],
    settings: Settings,
) -> Tasks:
    """Where tasks of an engine run."""
    if engine == "local":
        return InlineTasks()
    if engine != "spark":
        raise BadRequest(f"engine '{engine}' is not one of spark, local")
    chosen = spark(session, settings=settings, conf=conf)
    check_executors(chosen)
    return SparkTasks(chosen)


def embed_graph(views: Views, request: GraphEmbedRequest) -> GraphEmbedSummary:
    """Fill vectors of a branch as one commit.

    Where the branch moves meanwhile the rows are read again; what the provider answered is kept,
    so that no text is paid for twice.
    """
    if request.per_minute is not None and not request.per_minute > 0:
        raise BadRequest("per_minute must be more than 0")
    settings = views.root.settings
    model = chosen_model(settings.embed)
    open_embedder(settings.embed)  # a missing key is said before anything is started
    tasks = tasks_for(request.engine, request.session, request.spark_conf, settings)
    for attempt in range(MAX_PREPARATIONS):
        view = views.newest(request.branch)
        try:
            made, commit_id = _attempt(views, view, request, tasks, model)
        except PreconditionFailed:
            if attempt + 1 == MAX_PREPARATIONS:
                raise
            continue
        forget_answers(view.snapshot)
        return GraphEmbedSummary(str(view.snapshot.branch), made, model, tasks.engine, commit_id)
    raise AssertionError("the last attempt returns or raises")


def _attempt(
    views: Views, view: View, request: GraphEmbedRequest, tasks: Tasks, model: str
) -> tuple[int, str | None]:
    targets = graph_targets(view.catalog, request.types, request.spec, model)
    job = GraphEmbedding(
        tasks,
        views.root.settings.embed,
        targets,
        reembed_all=request.reembed_all,
        per_minute=request.per_minute,
    )
    area = uuid4().hex
    try:
        rows = job.stage(view.snapshot, view.catalog, area)
        return sum(one.vectors for one in rows), _commit(views, view, request, rows, area)
    finally:
        StagingArea(views.root, area).remove()


def _commit(
    views: Views,
    view: View,
    request: GraphEmbedRequest,
    rows: Sequence[EmbeddedRows],
    area: str,
) -> str | None:
    if not any(one.vectors for one in rows):
        return None
    write = StagedWrite(
        uri=views.root.uri,
        branch=request.branch,
        mode=LoadMode.MERGE,
        partial=False,
        actor=request.actor,
        area=area,
        ir=encode_ir(view.catalog),
        splits=[one.split for one in rows],
        expected_head=view.snapshot.head,
    )
    return commit_rows(views, write)

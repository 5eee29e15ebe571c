"""Filling the vectors of a graph as one commit."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING
from uuid import uuid4

from omnigraph.catalog.codec import encode_ir
from omnigraph.errors import BadRequest, ReadSetChanged
from omnigraph.execution.embed import EmbedSpec, choose_model, open_embedder, parse_spec, read_spec
from omnigraph.execution.load_input import LoadMode
from omnigraph.graph.bulk_loading import open_tasks
from omnigraph.identity import MAIN
from omnigraph.pipeline.bulk_embed import GraphEmbedding, list_graph_targets
from omnigraph.pipeline.embed_answers import forget_answers
from omnigraph.pipeline.staged_load import StagedLoad, StagedWrite
from omnigraph.pipeline.staging_area import StagingArea
from omnigraph.pipeline.tasks import Tasks
from omnigraph.storage.names import normalize_branch
from omnigraph.storage.recovery import WriterKind
from omnigraph.storage.staged import Ticket
from omnigraph.writer.change import CatalogSnapshot, Prepared
from omnigraph.writer.driver import Writer

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
    message: str | None = None
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


def parse_embed_spec(spec: str | Path | Mapping[str, object] | None) -> EmbedSpec | None:
    if spec is None:
        return None
    return parse_spec(spec) if isinstance(spec, Mapping) else read_spec(Path(spec))


def embed_graph(writer: Writer, request: GraphEmbedRequest) -> GraphEmbedSummary:
    """Fill vectors of a branch as one commit."""
    if request.per_minute is not None and not request.per_minute > 0:
        raise BadRequest("per_minute must be more than 0")
    settings = writer.branches.root.settings
    open_embedder(settings.embed)  # a missing key is said before anything is started
    tasks = open_tasks(request.engine, settings, request.session, request.spark_conf)
    with closing(_Embedding(request, tasks, choose_model(settings.embed))) as change:
        published = writer.write(
            change, branch=request.branch, actor=request.actor, message=request.message
        )
    forget_answers(writer.branches.root)
    return GraphEmbedSummary(
        branch=normalize_branch(request.branch),
        embedded=change.vectors,
        model=change.model,
        engine=tasks.engine,
        commit_id=published.commit.commit_id if published and published.commit else None,
    )


class _Embedding:
    """Vectors of the rows that lack them.

    Where the branch moves meanwhile the rows are read again; what the provider answered is kept,
    so that no text is paid for twice.
    """

    kind, is_costly = WriterKind.LOAD, True

    def __init__(self, request: GraphEmbedRequest, tasks: Tasks, model: str) -> None:
        self._request, self._tasks, self.model = request, tasks, model
        self._area: StagingArea | None = None
        self.vectors = 0

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> Prepared | None:
        self.close()
        request, root = self._request, view.snapshot.root
        self._area = StagingArea(root, uuid4().hex)
        job = GraphEmbedding(
            self._tasks,
            root.settings.embed,
            list_graph_targets(view.catalog, request.types, request.spec, self.model),
            reembed_all=request.reembed_all,
            per_minute=request.per_minute,
        )
        rows = job.stage(view.snapshot, view.catalog, self._area.id)
        self.vectors = sum(one.vectors for one in rows)
        if not self.vectors:
            return None
        write = StagedWrite(
            uri=root.uri,
            branch=request.branch,
            mode=LoadMode.MERGE,
            partial=False,
            actor=request.actor,
            area=self._area.id,
            ir=encode_ir(view.catalog),
            splits=[one.split for one in rows],
        )
        staged = StagedLoad(root, write).prepare(view.snapshot, view.catalog, ticket)
        return Prepared(staged)

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        return True

    def close(self) -> None:
        """Remove what was staged."""
        if self._area is not None:
            self._area.remove()

"""The graph for processes that Spark starts: opened by address, used once.

Loaded by name from the data source. Whatever is committed here goes through the same window as
every other write: the fence of the graph keeps it apart from writers in other processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

import pyarrow as pa

from omnigraph.catalog.model import Catalog
from omnigraph.errors import PreconditionFailed, ReadSetChanged
from omnigraph.execution.load import LoadMode
from omnigraph.execution.read.project import output_schema
from omnigraph.graph import graph as graphs
from omnigraph.graph.preparing import MAX_PREPARATIONS, CommitWindow
from omnigraph.graph.querying import plan_query
from omnigraph.graph.view import View, Views
from omnigraph.identity import CommitId
from omnigraph.language.source import SourceText
from omnigraph.pipeline.source.access import StagedWrite
from omnigraph.pipeline.source.options import Pin, QueryText
from omnigraph.pipeline.source.staged import StagedLoad
from omnigraph.settings import Settings
from omnigraph.storage.publish import Published
from omnigraph.storage.recovery.intent import WriterKind
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.write import NO_ROW_CHANGED, WriteRequest, commit_write, mint_ticket


def settings() -> Settings:
    """What the environment of this process asks for."""
    return Settings.from_environment(os.environ)


def pinned(pin: Pin, settings: Settings) -> tuple[Snapshot, Catalog]:
    """The state a read is about, and its schema."""
    view = _view(pin, settings)
    return view.snapshot, view.catalog


def _view(pin: Pin, settings: Settings) -> View:
    graph = graphs.open(pin.uri, read_only=True, settings=settings)
    return graph.at(snapshot=pin.snapshot, branch=pin.branch).view


def query_schema(pin: Pin, query: QueryText, settings: Settings) -> pa.Schema:
    """The columns of a query's result; nothing is read but the schema."""
    plan = plan_query(_view(pin, settings), SourceText(query.text, "<query>"), query.name)
    return output_schema(plan.columns)


def query_batches(pin: Pin, query: QueryText, settings: Settings) -> Iterator[pa.RecordBatch]:
    """The rows of a query's result, a batch at a time."""
    graph = graphs.open(pin.uri, read_only=True, settings=settings)
    view = graph.at(snapshot=pin.snapshot, branch=pin.branch)
    return view.query(query.text, query.name, query.params).batches()


def commit_staged(write: StagedWrite, settings: Settings) -> str | None:
    """Staged rows as one commit, checked as every load is.

    Gives None, and changes nothing, where the branch has a commit of the same origin already.
    """
    return commit_rows(Views(GraphRoot.at(write.uri, settings)), write)


def commit_rows(views: Views, write: StagedWrite) -> str | None:
    """The same for a graph that is open."""
    job = StagedLoad(views.root, write)
    try:
        with CommitWindow(views.root, is_costly=True) as window:
            for _ in range(MAX_PREPARATIONS - 1):
                try:
                    return _attempt(views, job, write, window)
                except ReadSetChanged as change:
                    if not _may_retry(write, change):
                        raise
                    window.lost()
            return _attempt(views, job, write, window)
    finally:
        job.close()


def _attempt(views: Views, job: StagedLoad, write: StagedWrite, window: CommitWindow) -> str | None:
    view = views.newest(write.branch)
    if write.expected_head is not None and view.snapshot.head != write.expected_head:
        raise PreconditionFailed(view.snapshot.branch, write.expected_head, view.snapshot.head)
    # A commit that comes after this look makes the branch move, and then everything is redone.
    if write.origin is not None and _has_commit_of(views, write.branch, write.origin):
        return None
    published = _commit(view, job, write, window)
    views.remember(view.snapshot.ref, published.manifest)
    assert published.commit is not None, "a load always commits"
    return published.commit.commit_id


def _has_commit_of(views: Views, branch: str, origin: str) -> bool:
    return any(commit.origin == origin for commit in views.commits(branch))


def _commit(view: View, job: StagedLoad, write: StagedWrite, window: CommitWindow) -> Published:
    ticket = mint_ticket(view.snapshot)
    staged = job.prepare(view.snapshot, view.catalog, ticket)
    request = WriteRequest(
        view.snapshot,
        ticket,
        WriterKind.LOAD,
        staged,
        write.actor,
        None if write.expected_head is None else CommitId(write.expected_head),
        origin=write.origin,
    )
    return commit_write(request, window.hold)


def _may_retry(write: StagedWrite, change: ReadSetChanged) -> bool:
    return change.member in NO_ROW_CHANGED or write.mode is not LoadMode.OVERWRITE

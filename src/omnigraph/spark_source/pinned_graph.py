"""The graph for processes that Spark starts: opened by address, used once.

Whatever is committed here goes through the same window as every other write: the fence of the
graph keeps it apart from writers in other processes.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import BadRequest
from omnigraph.execution.read import build_output_schema
from omnigraph.graph import graph as graphs
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.staged_rows import commit_rows
from omnigraph.language.source import SourceText
from omnigraph.pipeline.staged_load import StagedWrite
from omnigraph.settings import Settings
from omnigraph.spark_source.options import Pin, QueryText
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.snapshot import Snapshot


def read_environment_settings() -> Settings:
    """What the environment of this process asks for."""
    return Settings.from_environment(os.environ)


def resolve_pin(pin: Pin, settings: Settings) -> Pin:
    """The same state, named by its commit: what is written later does not change it."""
    graph = _open(pin, settings)
    commit = pin.snapshot
    if pin.at_us is not None:
        commit = _commit_at(graph, pin.branch, pin.at_us)
    view = graph.at(snapshot=commit, version=pin.version, branch=pin.branch).view
    return replace(pin, snapshot=view.snapshot.id, version=None, at_us=None)


def _open(pin: Pin, settings: Settings) -> graphs.Graph:
    return graphs.open(
        pin.uri, read_only=True, actor=pin.actor, policy=pin.policy, settings=settings
    )


def _commit_at(graph: graphs.Graph, branch: str, at_us: int) -> str:
    """The newest commit of a branch that was made at or before a moment."""
    commits = graph.commits(branch=branch)
    for commit in commits:
        if commit.created_at <= at_us:
            return commit.commit_id
    oldest = commits[-1]
    raise BadRequest(
        f"branch '{branch}' has no commit at or before the time of option 'timestampAsOf'; the "
        f"oldest one, {oldest.commit_id}, is of {_to_datetime(oldest.created_at).isoformat()}"
    )


def _to_datetime(at_us: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=at_us)


def read_pinned(pin: Pin, settings: Settings) -> tuple[Snapshot, Catalog]:
    """The state a read is about, and its schema."""
    view = _open_pinned(pin, settings).view
    return view.snapshot, view.catalog


def _open_pinned(pin: Pin, settings: Settings) -> graphs.GraphView:
    return _open(pin, settings).at(snapshot=pin.snapshot, branch=pin.branch)


def read_query_schema(pin: Pin, query: QueryText, settings: Settings) -> pa.Schema:
    """The columns of a query's result; nothing is read but the schema."""
    plan = _open_pinned(pin, settings).plan(SourceText(query.text, "<query>"), query.name)
    return build_output_schema(plan.columns)


def run_query_batches(pin: Pin, query: QueryText, settings: Settings) -> Iterator[pa.RecordBatch]:
    """The rows of a query's result, a batch at a time."""
    return _open_pinned(pin, settings).query(query.text, query.name, query.params).batches()


def commit_staged(write: StagedWrite, settings: Settings) -> str | None:
    """Staged rows as one commit, checked as every load is.

    Gives None, and changes nothing, where the branch has a commit of the same origin already.
    """
    return commit_rows(BranchSnapshots(GraphRoot.at(write.uri, settings)), write)

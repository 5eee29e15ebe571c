"""The state of a server as its own routes show it, and the body of an error."""

from __future__ import annotations

from typing import Literal

from omnigraph.result import Result


class ErrorBody(Result, frozen=True, kw_only=True):
    """An error. `kind` is its code; details are further members."""

    error: str
    kind: str
    code: str
    request_id: str | None = None


class Health(Result, frozen=True, kw_only=True):
    """The versions of a process that is alive."""

    status: Literal["ok"]
    version: str
    internal_schema_version: int
    source_version: str | None = None


class Readiness(Result, frozen=True, kw_only=True):
    """The readiness of a worker; ids of graphs are not disclosed, since no token is needed."""

    ready: bool
    status: Literal["serving", "draining"]
    booted_serving_digest: str
    state_revision: int
    served_graph_count: int
    quarantined_graph_count: int
    shutdown_grace_seconds: float


class ListedGraph(Result, frozen=True):
    graph_id: str
    uri: str


class QuarantinedGraph(Result, frozen=True):
    graph_id: str
    reason: str


class GraphList(Result, frozen=True):
    """The graphs of a server."""

    graphs: tuple[ListedGraph, ...]
    quarantined: tuple[QuarantinedGraph, ...]

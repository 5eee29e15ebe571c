"""Vocabulary of the HTTP interface: headers, media types, graph ids, and route specifications."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

import msgspec

from omnigraph.errors import BadRequest

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW_STREAM = "application/vnd.apache.arrow.stream"
LINES = f"{NDJSON}; charset=utf-8"
"""Content type of a stream of lines."""
OCTETS = "application/octet-stream"

REQUEST_ID = "X-Request-Id"
"""Identifies a request in the response and the log; a client may choose it."""
IDEMPOTENCY_KEY = "Idempotency-Key"
"""Identifies a write, so that it is executed once however often it is sent."""
IF_GRAPH_COMMIT = "Omnigraph-If-Graph-Commit"
"""The commit a branch must be at for a write to be executed."""
COMMIT_ID = "Omnigraph-Commit-Id"
"""The commit that streamed rows were read at."""
QUERY_NAME = "Omnigraph-Query-Name"
SNAPSHOT_ID = "Omnigraph-Snapshot-Id"
ENTITY_KIND = "Omnigraph-Entity-Kind"
"""Whether a blob is one of a node or of an edge."""
REPLAYED = "Omnigraph-Replayed"
"""`true` in the response of a write that was executed earlier under the same key."""

MAX_KEY_LENGTH = 200
MAX_REQUEST_ID_LENGTH = 128


_GRAPH_ID = re.compile("[A-Za-z0-9-]{1,64}")
_RESERVED = frozenset({"policies", "healthz", "openapi", "graphs"})


def is_graph_id(text: str) -> bool:
    return bool(_GRAPH_ID.fullmatch(text)) and text not in _RESERVED


def check_graph_id(text: str) -> str:
    """Return a graph id; raise if it is invalid.

    Raises:
        BadRequest: the id is invalid.
    """
    if not is_graph_id(text):
        raise BadRequest(
            f"'{text[:80]}' cannot be the id of a graph: use 1 to 64 letters, digits and '-', and "
            f"none of {', '.join(sorted(_RESERVED))}"
        )
    return text


GRAPH = "/graphs/{graph_id}"
"""Before the path of every route of a graph."""

Body = type[msgspec.Struct]


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A query parameter; one that repeats may be given several times."""

    name: str
    meaning: str
    repeats: bool = False
    is_number: bool = False
    is_required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """One route."""

    operation: str
    method: str
    path: str
    summary: str
    request: Body | None = None
    response: Body | None = None
    parameters: tuple[QueryParameter, ...] = ()
    body_media: str = JSON
    answer_media: tuple[str, ...] = (JSON,)
    is_body_optional: bool = False
    is_write: bool = False
    """Whether it changes the graph."""
    takes_key: bool = False
    """Whether it takes an idempotency key."""
    is_conditional: bool = False
    """Whether it can require the branch to be at a commit."""
    is_open: bool = False
    """Whether it answers without a token."""
    statuses: tuple[int, ...] = ()
    """Statuses besides success and the errors of all routes."""

    @property
    def is_of_graph(self) -> bool:
        return self.path.startswith(GRAPH + "/")


class _More(TypedDict, total=False):
    """Optional members of a route."""

    parameters: tuple[QueryParameter, ...]
    body_media: str
    answer_media: tuple[str, ...]
    is_body_optional: bool
    is_write: bool
    takes_key: bool
    is_conditional: bool
    is_open: bool
    statuses: tuple[int, ...]


def make_get(
    operation: str, path: str, summary: str, response: Body | None, **more: Unpack[_More]
) -> RouteSpec:
    """Return a GET route of a graph."""
    return RouteSpec(operation, "GET", f"{GRAPH}/{path}", summary, response=response, **more)


def make_post(
    operation: str,
    path: str,
    summary: str,
    request: Body,
    response: Body | None,
    **more: Unpack[_More],
) -> RouteSpec:
    """Return a POST route of a graph without an idempotency key."""
    return RouteSpec(operation, "POST", f"{GRAPH}/{path}", summary, request, response, **more)


def make_keyed_post(
    operation: str,
    path: str,
    summary: str,
    request: Body,
    response: Body | None,
    **more: Unpack[_More],
) -> RouteSpec:
    """Return a POST route of a graph that accepts an idempotency key."""
    route = make_post(operation, path, summary, request, response, **more)
    return replace(route, is_write=True, takes_key=True)


def make_delete(
    operation: str, path: str, summary: str, response: Body, **more: Unpack[_More]
) -> RouteSpec:
    """Return a DELETE route of a graph."""
    route = RouteSpec(operation, "DELETE", f"{GRAPH}/{path}", summary, response=response, **more)
    return replace(route, is_write=True)


BRANCH = QueryParameter("branch", "The branch; `main` by default.")
SNAPSHOT = QueryParameter("snapshot", "A commit or snapshot id, instead of a branch.")
EXPECTED_HEAD = QueryParameter("expected_head", "Only if the branch is at this commit.")
PAGES = (
    QueryParameter("limit", "At most so many.", is_number=True),
    QueryParameter("page_token", "The `next_page_token` of the page before."),
)
KINDS = ("node", "edge")
CHANGES = (
    QueryParameter("kind", "Only nodes, or only edges.", repeats=True, choices=KINDS),
    QueryParameter("type", "Only entities of these types.", repeats=True),
    QueryParameter(
        "op",
        "Only changes of these kinds.",
        repeats=True,
        choices=("insert", "update", "delete"),
    ),
)
ENTITY = (
    QueryParameter("type", "The type of the entity.", is_required=True),
    QueryParameter("id", "The id of the entity.", is_required=True),
)
BLOB = (
    QueryParameter(
        "entity",
        "What it belongs to; needed only if a node type and an edge type share the name.",
        choices=KINDS,
    ),
    *ENTITY,
    QueryParameter("property", "The property that holds it.", is_required=True),
)
YES_NO = ("true", "false")
ROWS = (JSON, NDJSON, ARROW_STREAM)

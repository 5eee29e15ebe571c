"""Route specifications: method, path, parameters, bodies and rights of one operation.

They are values without behaviour; `operation_table` has one for each route.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Generic, TypedDict, TypeVar, Unpack

import msgspec

from omnigraph.policy import Action
from omnigraph.wire.http_protocol import ARROW_STREAM, JSON, NDJSON

GRAPH = "/graphs/{graph_id}"
"""Prefix of the path of every route of a graph."""

Body = type[msgspec.Struct]
ResponseT = TypeVar("ResponseT", bound=msgspec.Struct)


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
class Right:
    """A right that a route requires: an action, and the members that name its branches.

    A member is a field of the body, a parameter, or a part of the path. A branch that is not given
    is `main`.
    """

    action: Action
    branch: str | None = None
    target: str | None = None
    query: str | None = None
    """The member with the name of a stored query."""
    has_default: bool = True
    """Whether `main` is presented if no branch is given."""
    when: str | None = None
    """The member with which it is required, if it is not always."""
    unless: str | None = None
    """The member with which it is not required."""
    of: str | None = None
    """The member that names a commit or state, whose branch is presented."""
    only: str | None = None
    """The circumstance in which it is required, if the graph has to find that out."""


@dataclass(frozen=True, slots=True)
class RouteSpec(Generic[ResponseT]):
    """One route."""

    operation: str
    method: str
    path: str
    summary: str
    request: Body | None = None
    response: type[ResponseT] | None = None
    rights: tuple[Right, ...] = ()
    """The rights it requires, in the order in which they are checked."""
    alternative: Body | None = None
    """The other response of a route that has two."""
    verb: str | None = None
    """The verb of a graph that it calls."""
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

    @property
    def responses(self) -> tuple[Body, ...]:
        """The types of its responses with a document."""
        declared: tuple[Any, ...] = (self.response, self.alternative)
        return tuple(one for one in declared if one is not None)


class _More(TypedDict, total=False):
    """Optional members of a route."""

    alternative: Body | None
    verb: str
    parameters: tuple[QueryParameter, ...]
    body_media: str
    answer_media: tuple[str, ...]
    is_body_optional: bool
    is_write: bool
    takes_key: bool
    is_conditional: bool
    statuses: tuple[int, ...]


def make_get(
    operation: str,
    path: str,
    summary: str,
    response: type[ResponseT] | None,
    *rights: Right,
    **more: Unpack[_More],
) -> RouteSpec[ResponseT]:
    """Return a GET route of a graph."""
    return RouteSpec(operation, "GET", f"{GRAPH}/{path}", summary, None, response, rights, **more)


def make_post(
    operation: str,
    path: str,
    summary: str,
    request: Body,
    response: type[ResponseT] | None,
    *rights: Right,
    **more: Unpack[_More],
) -> RouteSpec[ResponseT]:
    """Return a POST route of a graph without an idempotency key."""
    where = f"{GRAPH}/{path}"
    return RouteSpec(operation, "POST", where, summary, request, response, rights, **more)


def make_keyed_post(
    operation: str,
    path: str,
    summary: str,
    request: Body,
    response: type[ResponseT],
    *rights: Right,
    **more: Unpack[_More],
) -> RouteSpec[ResponseT]:
    """Return a POST route of a graph that writes once for an idempotency key."""
    route = make_post(operation, path, summary, request, response, *rights, **more)
    return replace(route, is_write=True, takes_key=True)


def make_put(
    operation: str,
    path: str,
    summary: str,
    request: Body | None,
    response: type[ResponseT],
    *rights: Right,
    **more: Unpack[_More],
) -> RouteSpec[ResponseT]:
    """Return a PUT route of a graph."""
    where = f"{GRAPH}/{path}"
    route = RouteSpec(operation, "PUT", where, summary, request, response, rights, **more)
    return replace(route, is_write=True)


def make_delete(
    operation: str,
    path: str,
    summary: str,
    response: type[ResponseT],
    *rights: Right,
    **more: Unpack[_More],
) -> RouteSpec[ResponseT]:
    """Return a DELETE route of a graph."""
    where = f"{GRAPH}/{path}"
    route = RouteSpec(operation, "DELETE", where, summary, None, response, rights, **more)
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

READS = Right(Action.READ, "branch")
READS_GRAPH = Right(Action.READ)
CHANGES_BRANCH = Right(Action.CHANGE, "branch")
READS_STATE = (
    Right(Action.READ, "branch", unless="snapshot"),
    Right(Action.READ, of="snapshot"),
)

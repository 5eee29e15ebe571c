"""What a route is: its name, its address, what it takes and what it gives."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TypedDict, Unpack

import msgspec

from omnigraph.wire.http_names import JSON

GRAPH = "/graphs/{graph_id}"
"""Before the path of every route of a graph."""

Body = type[msgspec.Struct]


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A parameter in the address; one that repeats may be given several times."""

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
    """Whether it takes an idempotency key."""
    is_conditional: bool = False
    """Whether it needs the head the branch must have."""
    is_open: bool = False
    """Whether it answers without a token."""
    successor: str | None = None
    """The route to use instead of an old one."""
    statuses: tuple[int, ...] = ()
    """What else it may answer, besides the success and the errors of all routes."""

    @property
    def is_of_graph(self) -> bool:
        return self.path.startswith(GRAPH + "/")


class _More(TypedDict, total=False):
    """What only some routes have."""

    parameters: tuple[QueryParameter, ...]
    body_media: str
    answer_media: tuple[str, ...]
    is_body_optional: bool
    is_write: bool
    is_conditional: bool
    is_open: bool
    successor: str
    statuses: tuple[int, ...]


def make_get(
    operation: str, path: str, summary: str, response: Body | None, **more: Unpack[_More]
) -> RouteSpec:
    """A route of a graph that is asked without a body."""
    return RouteSpec(operation, "GET", f"{GRAPH}/{path}", summary, response=response, **more)


def make_post(
    operation: str,
    path: str,
    summary: str,
    request: Body,
    response: Body | None,
    **more: Unpack[_More],
) -> RouteSpec:
    """A route of a graph that is asked with a body, and changes nothing or needs no key."""
    return RouteSpec(operation, "POST", f"{GRAPH}/{path}", summary, request, response, **more)


def make_keyed_post(
    operation: str,
    path: str,
    summary: str,
    request: Body,
    response: Body | None,
    **more: Unpack[_More],
) -> RouteSpec:
    """The same, where the write may carry a key."""
    return replace(make_post(operation, path, summary, request, response, **more), is_write=True)


def make_delete(
    operation: str, path: str, summary: str, response: Body, **more: Unpack[_More]
) -> RouteSpec:
    return RouteSpec(operation, "DELETE", f"{GRAPH}/{path}", summary, response=response, **more)

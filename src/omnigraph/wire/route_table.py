"""Every route: what it is called, what it takes and what it gives.

The server makes its routes from this table, the OpenAPI document is written from it, and a client
finds the path of an operation in it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from omnigraph.wire import response_bodies as gives
from omnigraph.wire.changing_route_table import BRANCH_ROUTES, CHANGING_ROUTES
from omnigraph.wire.history_route_table import FEED_ROUTES, HISTORY_ROUTES
from omnigraph.wire.reading_route_table import READING_ROUTES
from omnigraph.wire.route_spec import RouteSpec

SERVER_ROUTES = (
    RouteSpec(
        "health",
        "GET",
        "/healthz",
        "Whether the process is alive; no graph is touched.",
        response=gives.HealthOutput,
        is_open=True,
    ),
    RouteSpec(
        "ready",
        "GET",
        "/readyz",
        "Whether requests should be sent here.",
        response=gives.ReadyOutput,
        is_open=True,
        statuses=(503,),
    ),
    RouteSpec("openapi", "GET", "/openapi.json", "This document.", is_open=True),
    RouteSpec(
        "listGraphs",
        "GET",
        "/graphs",
        "The graphs that are served.",
        response=gives.GraphListOutput,
    ),
)
ROUTES: tuple[RouteSpec, ...] = (
    *SERVER_ROUTES,
    *READING_ROUTES,
    *CHANGING_ROUTES,
    *BRANCH_ROUTES,
    *HISTORY_ROUTES,
    *FEED_ROUTES,
)

BY_OPERATION = {route.operation: route for route in ROUTES}


def find_route(operation: str) -> RouteSpec:
    """The route of an operation."""
    return BY_OPERATION[operation]


def list_schemas() -> Sequence[type[msgspec.Struct]]:
    """Every type that a body has."""
    found = {route.request for route in ROUTES} | {route.response for route in ROUTES}
    bodies = [one for one in found if one is not None]
    return sorted([*bodies, gives.ErrorBody], key=lambda one: one.__name__)

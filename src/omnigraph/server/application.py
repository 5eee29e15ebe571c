"""ASGI application: dispatch by the route table, request logging, error responses, CORS.

It also has the handlers of the server itself: health, readiness, graphs, the OpenAPI document.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from typing import Any

from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route, Router
from starlette.types import ASGIApp, Message, Receive, Scope, Send

from omnigraph.errors import (
    MethodNotAllowed,
    OmniError,
    PolicyDenied,
    RouteNotFound,
    TooManyRequests,
)
from omnigraph.operations.openapi import describe_api
from omnigraph.operations.operation_table import ROUTES
from omnigraph.operations.route_spec import RouteSpec
from omnigraph.result import Result
from omnigraph.server import blob_routes, history_routes, read_routes, write_routes
from omnigraph.server.http_request import Call
from omnigraph.server.http_responses import json_response
from omnigraph.server.request_limits import ClientDisconnected
from omnigraph.server.server_logs import RequestLog, choose_request_id
from omnigraph.server.service import Service
from omnigraph.version import INTERNAL_SCHEMA_VERSION, __version__
from omnigraph.wire import http_protocol
from omnigraph.wire.error_bodies import describe_error
from omnigraph.wire.http_protocol import REQUEST_ID
from omnigraph.wire.read_results import GraphList, Health, ListedGraph, QuarantinedGraph, Readiness


async def health(call: Call) -> Health:
    """Report liveness; no graph is accessed."""
    source = call.service.options.server.source_version
    return Health(
        status="ok",
        version=__version__,
        internal_schema_version=INTERNAL_SCHEMA_VERSION,
        source_version=source,
    )


async def ready(call: Call) -> Response:
    """Report readiness; ids of graphs are not disclosed, since no token is needed."""
    service = call.service
    body = Readiness(
        ready=not service.is_draining,
        status="draining" if service.is_draining else "serving",
        booted_serving_digest=service.configuration.digest,
        state_revision=service.graphs.revision,
        served_graph_count=len(service.graphs.served),
        quarantined_graph_count=len(service.graphs.quarantined),
        shutdown_grace_seconds=service.options.server.grace_s,
    )
    return call.respond(body, 503 if service.is_draining else 200)


async def openapi(call: Call) -> Response:
    return json_response(describe_api(has_auth=not call.service.is_open))


async def list_graphs(call: Call) -> GraphList:
    graphs = call.service.graphs
    served = (ListedGraph(id, f"{call.base_url}/graphs/{id}") for id in graphs.served)
    why = "it could not be opened; the log says why"
    quarantined = (QuarantinedGraph(id, why) for id in graphs.quarantined)
    return GraphList(tuple(served), tuple(quarantined))


Handler = Callable[[Call], Awaitable[Response | Result]]
"""Returns the result of an operation, or the response where that is no document."""

HANDLERS: Mapping[str, Handler] = {
    route.operation: write_routes.run_verb for route in ROUTES if route.is_write and route.verb
} | {
    "health": health,
    "ready": ready,
    "openapi": openapi,
    "listGraphs": list_graphs,
    "getSnapshot": read_routes.get_snapshot,
    "getBlob": blob_routes.get_blob,
    "headBlob": blob_routes.head_blob,
    "putBlob": blob_routes.put_blob,
    "query": read_routes.query,
    "explain": read_routes.explain,
    "lint": read_routes.lint,
    "listRows": read_routes.list_rows,
    "list_queries": read_routes.list_queries,
    "invoke_query": read_routes.invoke_query,
    "getSchema": read_routes.get_schema,
    "planSchema": write_routes.plan_schema,
    "applySchema": write_routes.apply_schema,
    "load": write_routes.load,
    "loadNdjson": write_routes.load_ndjson,
    "export": read_routes.export,
    "listBranches": write_routes.list_branches,
    "listCommits": history_routes.list_commits,
    "getCommit": history_routes.get_commit,
    "getCommitChanges": history_routes.get_commit_changes,
    "listTags": history_routes.list_tags,
    "diff": history_routes.diff,
    "getEntityHistory": history_routes.get_entity_history,
    "pollChanges": history_routes.poll_changes,
    "captureChangeBaseline": read_routes.capture_baseline,
    "listConsumers": history_routes.list_consumers,
    "setConsumer": history_routes.set_consumer,
    "getWrite": history_routes.get_write,
}
_WITH_SLASHES = {f"{{{name}}}": f"{{{name}:path}}" for name in ("branch", "tag", "consumer", "key")}
"""Path parameters that may contain a slash: a server sees paths after `%2F` is decoded."""
_HOT_PATHS = frozenset(one.path for one in ROUTES if one.operation in ("query", "mutate"))
_LOG = "omnigraph"
_NO_OPERATION = "unknown"


def make_application(service: Service) -> ASGIApp:
    """Build the ASGI application of a worker."""
    by_path: dict[str, dict[str, RouteSpec[Any]]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    routes = [_make_route(path, methods, service) for path, methods in by_path.items()]
    # Fixed paths match before those with a name: a branch may be called `merge` all the same. The
    # router tries the routes in order, so the most frequent ones come first.
    routes.sort(key=lambda route: (":path}" in route.path, route.path not in _HOT_PATHS))
    router = Router(routes, redirect_slashes=False, default=_refuse_path)
    # CORS is outermost: web pages read error responses as well.
    return allow_origins(_RequestMiddleware(router, service), service.options.server.cors_origins)


def _make_route(path: str, methods: Mapping[str, RouteSpec[Any]], service: Service) -> Route:
    for name, converted in _WITH_SLASHES.items():
        path = path.replace(name, converted)
    route = Route(path, _Endpoint(methods, service), methods=list(methods))
    assert route.methods is not None, "they were given"
    route.methods &= set(methods)  # HEAD does not come with GET
    return route


async def _refuse_path(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
    raise RouteNotFound(scope["path"][:200])


class _Endpoint:
    """Steps before the handler: admission, authentication, the graph and the parameters."""

    def __init__(self, methods: Mapping[str, RouteSpec[Any]], service: Service) -> None:
        self._methods, self._service = methods, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, service = Request(scope, receive), self._service
        route = self._methods[request.method]
        log: RequestLog = scope[_LOG]
        log.add(operation=route.operation)
        if route.is_open:  # health checks are never refused
            await self._answer(Call(request, route, service, log.request_id, None, log), send)
            return
        with service.requests.admit():
            actor = service.authenticate(request.headers.get("authorization"))
            log.add(actor=actor)
            await self._answer(Call(request, route, service, log.request_id, actor, log), send)

    async def _answer(self, call: Call, send: Send) -> None:
        request, route, service, log = call.request, call.route, call.service, call.log
        if route.is_of_graph:
            call.hosted = service.graphs.find(request.path_params["graph_id"])
            log.add(graph=call.hosted.id)
        call.read_parameters()
        call.read_headers()
        if route.request is None:
            call.require_rights()  # before a body that is no document is read
        try:
            done = await HANDLERS[route.operation](call)
        except PolicyDenied as denied:
            call.log_denial(denied)  # the graph itself denies types and properties
            raise
        answer = done if isinstance(done, Response) else call.respond(done)
        await answer(request.scope, request.receive, send)


class _RequestMiddleware:
    """Middleware of every request: request id, log line, metrics, trace, and error response."""

    def __init__(self, inner: ASGIApp, service: Service) -> None:
        self._inner, self._service = inner, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        log = RequestLog(choose_request_id(headers), {"method": scope["method"]})
        scope[_LOG], scope["app"] = log, self
        sent = _ResponseRecorder(send, log.request_id)
        metrics, started = self._service.metrics, time.perf_counter()
        metrics.begin_request()
        with self._service.tracing.follow(headers) as finish:
            try:
                await self._inner(scope, receive, sent)
            except Exception as error:  # noqa: BLE001 - every error becomes a response
                await self._answer_failure(_translate(error, scope), scope, receive, sent, log)
            finally:
                seconds = time.perf_counter() - started
                operation = str(log.facts.get("operation", _NO_OPERATION))
                metrics.end_request(operation, sent.status, seconds)
                log.finish(sent.status, seconds)
                finish(operation, sent.status, lambda: _describe_for_trace(log))

    async def _answer_failure(
        self,
        error: BaseException,
        scope: Scope,
        receive: Receive,
        sent: _ResponseRecorder,
        log: RequestLog,
    ) -> None:
        if isinstance(error, ClientDisconnected):
            sent.status = error.http_status
            return
        if isinstance(error, OmniError):
            log.add(kind=error.code)
        is_refused = isinstance(error, TooManyRequests)
        if is_refused:
            self._service.metrics.count_refusal()
        described = describe_error(error, log.request_id)
        if (described.status >= 500 and not is_refused) or sent.has_begun:
            log.fail("request failed", error)
        if sent.has_begun:
            # The body stays incomplete: the connection is closed without the final chunk.
            return
        answer = json_response(described.body, described.status, described.headers)
        if scope["method"] == "HEAD":
            answer.body = b""
        if described.status == 408:
            # The rest of the body may never arrive.
            answer.headers["Connection"] = "close"
        await answer(scope, receive, sent)


def _describe_for_trace(log: RequestLog) -> dict[str, str | int]:
    """Return the attributes of a request's span; none comes from a body."""
    known = {"http.request.method": log.facts.get("method"), "omnigraph.request_id": log.request_id}
    named = ("graph", "actor", "branch", "graph_commit_id", "rows", "kind")
    found = {f"omnigraph.{name}": log.facts.get(name) for name in named}
    return {
        name: value if isinstance(value, int) else str(value)
        for name, value in {**known, **found}.items()
        if value is not None
    }


class _ResponseRecorder:
    """Adds the request id to a response, and records its status and whether it has begun."""

    def __init__(self, send: Send, request_id: str) -> None:
        self._send = send
        self._header = (REQUEST_ID.lower().encode(), request_id.encode())
        self.status, self.has_begun = 499, False

    async def __call__(self, message: Message) -> None:
        if message["type"] == "http.response.start":
            self.status, self.has_begun = message["status"], True
            message["headers"] = [*message.get("headers", ()), self._header]
        await self._send(message)


def _translate(error: Exception, scope: Scope) -> Exception:
    """Translate an exception of the router into an OmniError."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return MethodNotAllowed(scope["method"][:20], sorted(allowed.split(", ")))
    return error


_CORS_METHODS = ("GET", "HEAD", "POST", "PUT", "DELETE")
_CORS_REQUEST_HEADERS = (
    *("Authorization", "Content-Type", "Accept", "traceparent"),
    *("If-Match", "If-None-Match", "If-Range", "Range"),
    *(http_protocol.REQUEST_ID, http_protocol.IDEMPOTENCY_KEY, http_protocol.IF_GRAPH_COMMIT),
)
_CORS_RESPONSE_HEADERS = (
    *("ETag", "Content-Range", "Accept-Ranges", "Location", "Retry-After", "WWW-Authenticate"),
    *(http_protocol.REQUEST_ID, http_protocol.COMMIT_ID, http_protocol.QUERY_NAME),
    *(http_protocol.SNAPSHOT_ID, http_protocol.ENTITY_KIND, http_protocol.REPLAYED),
)


def allow_origins(application: ASGIApp, origins: Sequence[str]) -> ASGIApp:
    """Add CORS headers for web pages of these origins; without any, do nothing."""
    if not origins:
        return application
    return CORSMiddleware(
        application,
        allow_origins=origins,
        allow_methods=_CORS_METHODS,
        allow_headers=_CORS_REQUEST_HEADERS,
        expose_headers=_CORS_RESPONSE_HEADERS,
    )

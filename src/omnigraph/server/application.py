"""The ASGI application: routes from the table, one frame around every request."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping

from starlette.exceptions import HTTPException
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
from omnigraph.server import (
    blob_routes,
    branch_routes,
    history_routes,
    query_routes,
    read_routes,
    service_routes,
    stream_routes,
    tag_routes,
    undo_routes,
    write_routes,
)
from omnigraph.server.cross_origin import allow_origins
from omnigraph.server.http_answers import answer_json
from omnigraph.server.http_call import Call
from omnigraph.server.read_limits import ClientLeft
from omnigraph.server.request_log import RequestLog, choose_request_id
from omnigraph.server.service import Service
from omnigraph.wire.error_body import describe_error
from omnigraph.wire.http_names import REQUEST_ID
from omnigraph.wire.route_spec import RouteSpec
from omnigraph.wire.route_table import ROUTES

Handler = Callable[[Call], Awaitable[Response]]

HANDLERS: Mapping[str, Handler] = {
    "health": service_routes.health,
    "ready": service_routes.ready,
    "openapi": service_routes.openapi,
    "listGraphs": service_routes.list_graphs,
    "getSnapshot": read_routes.get_snapshot,
    "getBlob": blob_routes.get_blob,
    "headBlob": blob_routes.head_blob,
    "putBlob": blob_routes.put_blob,
    "query": read_routes.query,
    "explain": read_routes.explain,
    "lint": read_routes.lint,
    "listRows": read_routes.list_rows,
    "read": read_routes.read,
    "mutate": write_routes.mutate,
    "mutate_if_graph_commit": write_routes.mutate,
    "change": write_routes.change,
    "list_queries": query_routes.list_queries,
    "invoke_query": query_routes.invoke_query,
    "invoke_query_if_graph_commit": query_routes.invoke_query,
    "getSchema": read_routes.get_schema,
    "planSchema": write_routes.plan_schema,
    "applySchema": write_routes.apply_schema,
    "load": write_routes.load,
    "loadNdjson": write_routes.load_ndjson,
    "ingest": write_routes.load,
    "export": stream_routes.export,
    "listBranches": branch_routes.list_branches,
    "createBranch": branch_routes.create_branch,
    "mergeBranches": branch_routes.merge_branches,
    "renameBranch": branch_routes.rename_branch,
    "deleteBranch": branch_routes.delete_branch,
    "listCommits": history_routes.list_commits,
    "getCommit": history_routes.get_commit,
    "getCommitChanges": history_routes.get_commit_changes,
    "revert": undo_routes.revert,
    "cherryPick": undo_routes.cherry_pick,
    "restore": undo_routes.restore,
    "listTags": tag_routes.list_tags,
    "createTag": tag_routes.create_tag,
    "deleteTag": tag_routes.delete_tag,
    "diff": history_routes.diff,
    "getEntityHistory": history_routes.get_entity_history,
    "pollChanges": history_routes.poll_changes,
    "captureChangeBaseline": stream_routes.capture_baseline,
    "listConsumers": tag_routes.list_consumers,
    "setConsumer": tag_routes.set_consumer,
    "deleteConsumer": tag_routes.delete_consumer,
    "getWrite": history_routes.get_write,
}
_WITH_SLASHES = {f"{{{name}}}": f"{{{name}:path}}" for name in ("branch", "tag", "consumer", "key")}
"""What may contain a slash: a server sees addresses only after `%2F` was undone."""
_ASKED_MOST = frozenset(one.path for one in ROUTES if one.operation in ("query", "mutate"))
_STATE = "omnigraph"
_UNKNOWN_OPERATION = "unknown"


def make_application(service: Service) -> ASGIApp:
    """What answers the requests of a worker."""
    by_path: dict[str, dict[str, RouteSpec]] = {}
    for route in ROUTES:
        by_path.setdefault(route.path, {})[route.method] = route
    routes = [_make_route(path, methods, service) for path, methods in by_path.items()]
    # A fixed word goes before a name: a branch may be called `merge` all the same. The router
    # tries one after the other, so what is asked for most goes before the rest.
    routes.sort(key=lambda route: (":path}" in route.path, route.path not in _ASKED_MOST))
    router = Router(routes, redirect_slashes=False, default=_refuse_path)
    # Outside the frame: a page reads failures as well.
    return allow_origins(_Frame(router, service), service.options.server.cors_origins)


def _make_route(path: str, methods: Mapping[str, RouteSpec], service: Service) -> Route:
    for name, converted in _WITH_SLASHES.items():
        path = path.replace(name, converted)
    route = Route(path, _Endpoint(methods, service), methods=list(methods))
    assert route.methods is not None, "they were given"
    route.methods &= set(methods)  # HEAD does not come with GET
    return route


async def _refuse_path(scope: Scope, receive: Receive, send: Send) -> None:  # noqa: ARG001
    raise RouteNotFound(scope["path"][:200])


class _Endpoint:
    """Everything that comes before the handler: who asks, for which graph, with what."""

    def __init__(self, methods: Mapping[str, RouteSpec], service: Service) -> None:
        self._methods, self._service = methods, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        request, service = Request(scope, receive), self._service
        route = self._methods[request.method]
        log: RequestLog = scope[_STATE]
        log.add(operation=route.operation)
        if route.is_open:  # who looks whether the server lives is never turned away
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
        try:
            answer = await HANDLERS[route.operation](call)
        except PolicyDenied as denied:
            call.note_denial(denied)  # the graph has its own to say: about types and properties
            raise
        if route.successor is not None:
            answer.headers["Deprecation"] = "true"
            answer.headers["Link"] = f'<{route.successor}>; rel="successor-version"'
        await answer(request.scope, request.receive, send)


class _Frame:
    """Around every request: its id, its line in the log, its measures, and its failure."""

    def __init__(self, inner: ASGIApp, service: Service) -> None:
        self._inner, self._service = inner, service

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            return
        headers = {
            name.decode("latin-1"): value.decode("latin-1") for name, value in scope["headers"]
        }
        log = RequestLog(choose_request_id(headers), {"method": scope["method"]})
        scope[_STATE], scope["app"] = log, self
        sent = _Sent(send, log.request_id)
        metrics, started = self._service.metrics, time.perf_counter()
        metrics.begin_request()
        with self._service.tracing.follow(headers) as finish:
            try:
                await self._inner(scope, receive, sent)
            except Exception as error:  # noqa: BLE001 - the one place where nothing may pass
                await self._answer_failure(_translate(error, scope), scope, receive, sent, log)
            finally:
                seconds = time.perf_counter() - started
                operation = str(log.facts.get("operation", _UNKNOWN_OPERATION))
                metrics.end_request(operation, sent.status, seconds)
                log.finish(sent.status, seconds)
                finish(operation, sent.status, lambda: _describe_for_trace(log))

    async def _answer_failure(
        self, error: BaseException, scope: Scope, receive: Receive, sent: _Sent, log: RequestLog
    ) -> None:
        if isinstance(error, ClientLeft):
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
            # The rest does not come, and neither does the end: the connection is closed.
            return
        answer = answer_json(described.body, described.status, described.headers)
        if scope["method"] == "HEAD":
            answer.body = b""
        if described.status == 408:
            # The rest may never come. Of a body that is refused, what still comes is dropped.
            answer.headers["Connection"] = "close"
        await answer(scope, receive, sent)


def _describe_for_trace(log: RequestLog) -> dict[str, str | int]:
    """What a span says of a request: nothing that came in a body."""
    known = {"http.request.method": log.facts.get("method"), "omnigraph.request_id": log.request_id}
    named = ("graph", "actor", "branch", "graph_commit_id", "rows", "kind")
    found = {f"omnigraph.{name}": log.facts.get(name) for name in named}
    return {
        name: value if isinstance(value, int) else str(value)
        for name, value in {**known, **found}.items()
        if value is not None
    }


class _Sent:
    """What is sent, with the id of the request; remembers whether anything was."""

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
    """What the router raises, as an error of ours."""
    if isinstance(error, HTTPException) and error.status_code == 405:
        allowed = (error.headers or {}).get("Allow", "")
        return MethodNotAllowed(scope["method"][:20], sorted(allowed.split(", ")))
    return error

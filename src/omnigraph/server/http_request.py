"""Requests as handlers see them: parameters, headers and body validated against the route.

A `Call` adds the graph, the actor and the policy of the request, and runs the engine for it.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, TypeVar

import msgspec
from starlette.requests import Request
from starlette.responses import Response

from omnigraph.errors import (
    BadRequest,
    DeadlineExceeded,
    PolicyDenied,
    RequestTooSlow,
    ResourceLimitExceeded,
    UnsupportedMediaType,
)
from omnigraph.graph.results import normalize_branch
from omnigraph.identity import MAIN
from omnigraph.operations.route_spec import Right, RouteSpec
from omnigraph.policy import Authority, Decision, decide
from omnigraph.result import Result, WriteResult
from omnigraph.server.hosted_graphs import HostedGraph
from omnigraph.server.http_responses import json_response
from omnigraph.server.request_limits import ANONYMOUS, ClientDisconnected, QueryLimits
from omnigraph.server.server_logs import RequestLog
from omnigraph.server.service import Service
from omnigraph.struct_decoding import convert_into
from omnigraph.types.json_value import parse_json
from omnigraph.types.row_problems import ValueRefused
from omnigraph.wire.http_protocol import (
    IDEMPOTENCY_KEY,
    IF_GRAPH_COMMIT,
    JSON,
    MAX_KEY_LENGTH,
    REPLAYED,
)

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph

T = TypeVar("T")
BodyT = TypeVar("BodyT", bound=msgspec.Struct)

BODY_BYTES = 1 << 20
"""Maximum size of a body, except that of a load."""
_INLINE_PARSE_BYTES = 64 << 10
"""Maximum size of a body that is parsed on the event loop."""
_FAST_QUERY_S = 0.02
"""Time before a running query starts to be watched for a disconnect of its client."""


@dataclass(slots=True)
class ParsedRequest:
    """A request of a route, with the readers of its parameters, headers and body."""

    request: Request
    route: RouteSpec[Any]
    service: Service
    parameters: dict[str, list[str]] = field(init=False, default_factory=dict)
    key: str | None = field(init=False, default=None)
    """The idempotency key."""
    expected_head: str | None = field(init=False, default=None)
    """The commit that the branch must be at."""

    def read_parameters(self) -> None:
        """Validate the query parameters against the route."""
        if not self.route.parameters and not self.request.scope["query_string"]:
            return
        declared = {one.name: one for one in self.route.parameters}
        for name, value in self.request.query_params.multi_items():
            known = declared.get(name)
            if known is None:
                raise BadRequest(f"no such parameter '{name[:80]}'")
            given = self.parameters.setdefault(name, [])
            if given and not known.repeats:
                raise BadRequest(f"parameter '{name}' is given twice")
            if known.choices and value not in known.choices:
                words = ", ".join(known.choices)
                raise BadRequest(f"parameter '{name}' is one of {words}, not '{value[:80]}'")
            given.append(value)
        for one in declared.values():
            if one.is_required and not self.parameters.get(one.name):
                raise BadRequest(f"parameter '{one.name}' is missing")

    def find(self, name: str) -> str | None:
        """Return a query parameter."""
        given = self.parameters.get(name)
        return given[0] if given else None

    def list(self, name: str) -> list[str]:
        """Return the values of a parameter that repeats."""
        return self.parameters.get(name, [])

    def read_number(self, name: str, default: int) -> int:
        text = self.find(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 15:
            raise BadRequest(f"parameter '{name}' is not a whole number")
        return int(text)

    def read_limit(self, maximum: int) -> int:
        """Return the page size: the requested limit, or the maximum."""
        limit = self.read_number("limit", maximum)
        if limit < 1:
            raise BadRequest("parameter 'limit' is at least 1")
        if limit > maximum:
            raise ResourceLimitExceeded("page_entries", maximum, limit)
        return limit

    def read_branch(self, given: str | None) -> str:
        """Return the normalized name of a branch; `main` if none is given."""
        return MAIN if given is None else normalize_branch(given)

    def read_branch_unless(self, given: str | None, snapshot: str | None) -> str | None:
        """Return the normalized name of a branch, or None if a snapshot is read instead.

        Raises:
            BadRequest: both are given.
        """
        if snapshot is None:
            return self.read_branch(given)
        if given is not None:
            raise BadRequest("give a branch or a snapshot, not both")
        return None

    def read_headers(self) -> None:
        """Read the idempotency key and the condition of a request of a graph.

        Raises:
            BadRequest: one is malformed, or the route takes none.
        """
        if self.route.is_of_graph:
            self.expected_head, self.key = self._read_condition(), self._read_key()

    def _read_condition(self) -> str | None:
        given = self.request.headers.getlist(IF_GRAPH_COMMIT)
        if not given:
            return None
        if not self.route.is_conditional:
            fields = () if self.route.request is None else self.route.request.__struct_fields__
            members = {*fields, *(one.name for one in self.route.parameters)}
            remedy = (
                "give `expected_head` instead" if "expected_head" in members else "leave it out"
            )
            raise BadRequest(f"{IF_GRAPH_COMMIT} is not for this route; {remedy}")
        if len(given) != 1 or not given[0].isalnum() or not given[0].isascii():
            raise BadRequest(f"give {IF_GRAPH_COMMIT} once, with the id of a commit")
        return given[0]

    def _read_key(self) -> str | None:
        given = self.request.headers.getlist(IDEMPOTENCY_KEY)
        if not given or not self.route.is_write:
            return None  # a read may be sent again without one
        if not self.route.takes_key:
            raise BadRequest(f"{IDEMPOTENCY_KEY} is not for this route; leave it out")
        if len(given) > 1:
            raise BadRequest(f"{IDEMPOTENCY_KEY} is given twice")
        key = given[0].strip()
        if not 1 <= len(key) <= MAX_KEY_LENGTH or not key.isprintable() or not key.isascii():
            raise BadRequest(f"{IDEMPOTENCY_KEY} has 1 to {MAX_KEY_LENGTH} printable characters")
        return key

    async def read_bytes(self, limit: int, resource: str) -> bytes:
        """Read the body; raise if it is too large or arrives too slowly."""
        declared = self.request.headers.get("content-length")
        if declared is not None and declared.isdigit() and int(declared) > limit:
            raise ResourceLimitExceeded(resource, limit, int(declared))
        idle_s = self.service.options.server.idle_s
        pieces: list[bytes] = []
        size = 0
        receive, clock = self.request.receive, asyncio.get_running_loop().time
        try:
            async with asyncio.timeout(idle_s) as idle:
                while True:
                    message = await receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnected
                    pieces.append(message.get("body", b""))
                    size += len(pieces[-1])
                    if size > limit:
                        raise ResourceLimitExceeded(resource, limit, size)
                    if not message.get("more_body", False):
                        return b"".join(pieces)
                    idle.reschedule(clock() + idle_s)
        except TimeoutError:
            raise RequestTooSlow(idle_s) from None

    def require_media(self, expected: str) -> None:
        given = self.request.headers.get("content-type")
        media = (given or "").partition(";")[0].strip().lower()
        if media != expected:
            raise UnsupportedMediaType(media[:80] or None, expected)

    async def read_document(self, kind: type[BodyT], limit: int) -> tuple[BodyT, int]:
        """Decode the body into the declared type; return it and its size."""
        data = await self.read_bytes(limit, "request_bytes")
        if self.route.is_body_optional and data.strip() in (b"", b"null"):
            return kind(), len(data)
        self.require_media(JSON)
        if len(data) > _INLINE_PARSE_BYTES:
            return await self.service.threads.read(lambda: decode_body(data, kind)), len(data)
        return decode_body(data, kind), len(data)


def decode_body(data: bytes, kind: type[BodyT]) -> BodyT:
    """Decode a body strictly: unknown and duplicate members are refused."""
    try:
        return convert_into(parse_json(data), kind)
    except ValueRefused as refused:
        raise BadRequest(f"the body: {refused.reason}") from None
    except msgspec.ValidationError as error:
        raise BadRequest(f"the body: {error}") from None


class _Identified(Protocol):
    """A commit, of which only the id is logged."""

    @property
    def commit_id(self) -> str: ...


@dataclass(slots=True)
class Call(ParsedRequest):
    """A request of one actor for one graph; the argument of every handler."""

    request_id: str
    actor: str | None
    log: RequestLog
    hosted: HostedGraph | None = None
    _decided: list[tuple[bool, dict[str, object]]] = field(init=False, default_factory=list)
    """The decisions that were logged."""

    # --- the graph -------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph, on behalf of the actor and under its policy."""
        assert self.hosted is not None, "only routes of a graph ask for it"
        return self.hosted.guarded.as_actor(self.actor, observe=self.log_decision)

    @property
    def graph_url(self) -> str:
        """The public URL of the graph; its storage URI is never disclosed."""
        assert self.hosted is not None, "only routes of a graph ask for it"
        return f"{self.base_url}/graphs/{self.hosted.id}"

    @property
    def base_url(self) -> str:
        return str(self.request.base_url).rstrip("/")

    async def read_body(self, kind: type[BodyT], limit: int = BODY_BYTES) -> tuple[BodyT, int]:
        """Decode the body, and check the rights that it requires; return it and its size."""
        body, size = await self.read_document(kind, limit)
        self.require_rights(body)
        return body, size

    # --- rights ----------------------------------------------------------------------------------

    def require_rights(self, body: msgspec.Struct | None = None) -> None:
        """Check the rights of the route that need no engine, so that a denial costs nothing.

        The graph checks every right where it is used. A branch that only the graph knows ends the
        checks here, so that denials have one order; a right that the graph may not require denies
        only together with a later one that it does.

        Raises:
            PolicyDenied: the actor lacks a right.
        """
        denied: list[Decision] = []
        for right in self.route.rights:
            if not self._is_required(right, body):
                continue
            if right.of is not None:
                return
            decision = self._decide(right, body)
            if not decision.allowed:
                denied.append(decision)
            if right.only is None:
                checked = decision if decision.allowed else denied[0]
                self.log_decision(checked)
                checked.require()

    def _decide(self, right: Right, body: msgspec.Struct | None) -> Decision:
        query = None if right.query is None else str(self._find_member(right.query, body))[:200]
        return decide(
            self._authority,
            self.actor,
            right.action,
            branch=self._find_branch(right.branch, right, body),
            target_branch=self._find_branch(right.target, right, body),
            query=query,
        )

    @property
    def _authority(self) -> Authority:
        if self.hosted is None:
            return self.service.configuration.server_authority
        return self.hosted.authority

    def _is_required(self, right: Right, body: msgspec.Struct | None) -> bool:
        if right.unless is not None and self._find_member(right.unless, body) is not None:
            return False
        condition = right.when or right.of
        return condition is None or self._find_member(condition, body) not in (None, False, [])

    def _find_branch(
        self, member: str | None, right: Right, body: msgspec.Struct | None
    ) -> str | None:
        given = None if member is None else self._find_member(member, body)
        if member is None or (given is None and not right.has_default):
            return None
        return self.read_branch(None if given is None else str(given))

    def _find_member(self, name: str, body: msgspec.Struct | None) -> object:
        """Return a field of the body, a part of the path, or a parameter; None if not given."""
        if body is not None and name in body.__struct_fields__:
            return getattr(body, name)
        return self.request.path_params.get(name, self.find(name))

    def log_decision(self, decision: Decision) -> None:
        """Log a decision, and count and audit a denial, once."""
        self._log_decision(
            allowed=decision.allowed,
            rule=decision.matched_rule,
            action=str(decision.action),
            branch=decision.branch,
            target_branch=decision.target_branch,
            query=decision.query,
        )

    def log_denial(self, denied: PolicyDenied) -> None:
        """Log, count and audit a denial, once."""
        self._log_decision(
            allowed=False,
            action=str(denied.action),
            branch=denied.branch,
            target_branch=denied.target_branch,
            query=denied.query,
            hidden=list(denied.hidden) or None,
        )

    def _log_decision(self, *, allowed: bool, rule: str | None = None, **facts: object) -> None:
        known = {name: value for name, value in facts.items() if value is not None}
        if (allowed, known) in self._decided:
            return
        self._decided.append((allowed, known))
        self.log.add_decision(allowed=allowed, **known, rule=rule)
        if allowed:
            return
        self.service.metrics.count_denial()
        self.service.audit.record(
            "denied",
            request_id=self.request_id,
            operation=self.route.operation,
            graph=self.hosted.id if self.hosted else None,
            actor=self.actor,
            **known,
        )

    # --- responses ---------------------------------------------------------------------------

    def respond(self, done: Result, status: int = 200) -> Response:
        """Return the response with a result, which must be of a type that the route declares.

        The header of a repeated write and the address of the graph are of HTTP, not of the graph.
        """
        if not isinstance(done, self.route.responses):
            raise TypeError(f"{self.route.operation} declares no {type(done).__name__}")
        headers = {}
        if isinstance(done, WriteResult) and done.is_replayed:
            headers[REPLAYED] = "true"
        if "uri" in done.__struct_fields__:
            done = msgspec.structs.replace(done, uri=self.graph_url)
        return json_response(done.as_document(), status, headers)

    # --- running the engine ----------------------------------------------------------------------

    async def read(self, work: Callable[[], T]) -> T:
        """Run a read in an engine thread."""
        return await self.service.threads.read(work)

    async def read_limited(self, limits: QueryLimits, work: Callable[[], T]) -> T:
        """Run a query; raise if it exceeds its deadline or its client disconnects.

        The response does not wait for the engine to notice; the thread is busy until it does.
        """
        running = self.service.threads.start_read(work)
        limit_s = self.service.options.server.query_timeout_s or None
        fast_s = _FAST_QUERY_S if limit_s is None else min(_FAST_QUERY_S, limit_s)
        await asyncio.wait([running], timeout=fast_s)
        if not running.done():
            await self._wait_unless_disconnected(
                running, limits, None if limit_s is None else limit_s - fast_s
            )
        return running.result()

    async def _wait_unless_disconnected(
        self, running: asyncio.Future[T], limits: QueryLimits, limit_s: float | None
    ) -> None:
        disconnect = asyncio.ensure_future(self._wait_for_disconnect())
        try:
            either: set[asyncio.Future[Any]] = {running, disconnect}
            await asyncio.wait(either, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return
            limits.abandon()
            running.add_done_callback(_discard_outcome)
            if disconnect.done():
                raise ClientDisconnected
            # The clock of the loop may be a little ahead of that of the limits.
            raise DeadlineExceeded(self.service.options.server.query_timeout_s)
        finally:
            disconnect.cancel()

    async def _wait_for_disconnect(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass

    @contextmanager
    def admit(self, size: int) -> Iterator[None]:
        """Count a write against the limits of the actor.

        Raises:
            TooManyRequests: the actor has too many writes in progress.
        """
        metrics, name = self.service.metrics, self.actor or ANONYMOUS
        with self.service.admission.admit(self.actor, size):
            metrics.begin_write(name)
            try:
                yield
            finally:
                metrics.end_write(name)

    async def write(self, work: Callable[[], T]) -> T:
        """Run a write in an engine thread; it completes even if the client disconnects."""
        return await self.service.threads.write(work)

    async def stream(self, first: bytes, rest: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
        """Yield the first chunk, then the others as engine threads compute them."""
        yield first
        async for piece in self.service.threads.iterate(rest):
            yield piece

    def log_write(self, branch: str) -> None:
        """Log and audit a write that creates no commit."""
        self._audit("write", branch, None)

    def log_commit(
        self, commit: _Identified | None, branch: str, *, replayed: bool = False
    ) -> None:
        """Log, count and audit a commit; a replayed one is only logged."""
        if commit is not None and not replayed:
            self.service.metrics.count_commit(self.route.operation)
            self._audit("write", branch, commit.commit_id)
        else:
            self.log.add(graph_commit_id=commit.commit_id if commit else None, branch=branch)

    def _audit(self, event: str, branch: str, commit_id: str | None) -> None:
        assert self.hosted is not None, "only graphs are written"
        facts = {"branch": branch, "graph_commit_id": commit_id}
        self.log.add(**facts)
        self.service.audit.record(
            event,
            request_id=self.request_id,
            operation=self.route.operation,
            graph=self.hosted.id,
            actor=self.actor,
            **facts,
        )


def _discard_outcome(running: asyncio.Future[T]) -> None:
    """Retrieve the exception of an abandoned query, so that asyncio does not report it."""
    if not running.cancelled():
        running.exception()

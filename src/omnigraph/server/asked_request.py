"""What a request asks for: its parameters, headers and body, checked against its route."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field
from typing import TypeVar

import msgspec
from starlette.requests import Request

from omnigraph.errors import (
    BadRequest,
    RequestTooSlow,
    ResourceLimitExceeded,
    UnsupportedMediaType,
)
from omnigraph.graph.branch_names import normalize_branch
from omnigraph.identity import MAIN
from omnigraph.server.read_limits import ClientLeft
from omnigraph.server.service import Service
from omnigraph.typed_reading import convert_into
from omnigraph.types.problems import ValueRefused
from omnigraph.types.strict_json import parse_json
from omnigraph.wire.http_names import IDEMPOTENCY_KEY, IF_GRAPH_COMMIT, JSON, LONGEST_KEY
from omnigraph.wire.route_spec import RouteSpec

BodyT = TypeVar("BodyT", bound=msgspec.Struct)

BODY_BYTES = 1 << 20
"""How large a body may be that is no load."""
_MANY_BYTES = 64 << 10
"""A body larger than this is not parsed on the event loop."""


@dataclass(slots=True)
class AskedRequest:
    """A request of a route."""

    request: Request
    route: RouteSpec
    service: Service
    parameters: dict[str, list[str]] = field(init=False, default_factory=dict)

    def read_parameters(self) -> None:
        """Check the parameters of the address against what the route declares."""
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
        """A parameter of the address."""
        given = self.parameters.get(name)
        return given[0] if given else None

    def list(self, name: str) -> list[str]:
        """A parameter that repeats."""
        return self.parameters.get(name, [])

    def read_number(self, name: str, default: int) -> int:
        text = self.find(name)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or len(text) > 15:
            raise BadRequest(f"parameter '{name}' is not a whole number")
        return int(text)

    def read_limit(self, most: int) -> int:
        """How many entries a page may have: what was asked for, or as many as there may be."""
        limit = self.read_number("limit", most)
        if limit < 1:
            raise BadRequest("parameter 'limit' is at least 1")
        if limit > most:
            raise ResourceLimitExceeded("page_entries", most, limit)
        return limit

    def read_branch(self, given: str | None) -> str:
        """The name of a branch as it is used from here on; `main` if none is given."""
        return MAIN if given is None else normalize_branch(given)

    def read_branch_unless(self, given: str | None, snapshot: str | None) -> str | None:
        """The same, or None where a snapshot is read instead.

        Raises:
            BadRequest: both are given.
        """
        if snapshot is None:
            return self.read_branch(given)
        if given is not None:
            raise BadRequest("give a branch or a snapshot, not both")
        return None

    def read_condition(self) -> str | None:
        """The head the branch must have, on routes that are about that."""
        given = self.request.headers.getlist(IF_GRAPH_COMMIT)
        if not self.route.is_conditional:
            if given:
                raise BadRequest(
                    f"{IF_GRAPH_COMMIT} is not for this route; use the one that ends with "
                    "/if-graph-commit"
                )
            return None
        if len(given) != 1 or not given[0].isalnum() or not given[0].isascii():
            raise BadRequest(f"give {IF_GRAPH_COMMIT} once, with the id of a commit")
        return given[0]

    def read_key(self) -> str | None:
        """The idempotency key of a write."""
        given = self.request.headers.getlist(IDEMPOTENCY_KEY)
        if not given:
            return None
        if len(given) > 1:
            raise BadRequest(f"{IDEMPOTENCY_KEY} is given twice")
        key = given[0].strip()
        if not 1 <= len(key) <= LONGEST_KEY or not key.isprintable() or not key.isascii():
            raise BadRequest(f"{IDEMPOTENCY_KEY} has 1 to {LONGEST_KEY} printable characters")
        return key

    async def read_bytes(self, limit: int, resource: str) -> bytes:
        """The body, if it is not too large and comes in time."""
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
                        raise ClientLeft
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

    async def read_body(self, kind: type[BodyT], limit: int = BODY_BYTES) -> tuple[BodyT, int]:
        """The body as the route declares it, and its size."""
        data = await self.read_bytes(limit, "request_bytes")
        if self.route.is_body_optional and data.strip() in (b"", b"null"):
            return kind(), len(data)
        self.require_media(JSON)
        if len(data) > _MANY_BYTES:
            return await self.service.threads.read(lambda: decode_body(data, kind)), len(data)
        return decode_body(data, kind), len(data)


def decode_body(data: bytes, kind: type[BodyT]) -> BodyT:
    """A body, read strictly: a member that is unknown or there twice is refused."""
    try:
        return convert_into(parse_json(data), kind)
    except ValueRefused as refused:
        raise BadRequest(f"the body: {refused.reason}") from None
    except msgspec.ValidationError as error:
        raise BadRequest(f"the body: {error}") from None

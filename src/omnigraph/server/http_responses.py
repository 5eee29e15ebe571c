"""Responses: JSON documents, streams encoded while they are sent, and page tokens."""

from __future__ import annotations

import asyncio
import binascii
from base64 import urlsafe_b64decode, urlsafe_b64encode
from bisect import bisect_right
from collections.abc import AsyncGenerator, Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, TypeVar

import msgspec
import structlog
from starlette.responses import Response
from starlette.types import Receive, Scope, Send

from omnigraph.errors import BadRequest, NotAcceptable
from omnigraph.types.to_json import encode_lines
from omnigraph.wire.http_protocol import ARROW_STREAM, JSON

if TYPE_CHECKING:
    import pyarrow as pa

    from omnigraph.graph.queries import QueryResult

T = TypeVar("T")

_MAX_TOKEN_LENGTH = 4_096

_log = structlog.get_logger("omnigraph.server")


def json_response(
    body: object, status: int = 200, headers: Mapping[str, str] | None = None
) -> Response:
    """Return a response with one JSON document."""
    return Response(msgspec.json.encode(body), status, headers, JSON)


def choose_media(accept: str | None, offered: tuple[str, ...]) -> str:
    """Negotiate the media type: the best match of `Accept`, or the first one offered.

    Raises:
        NotAcceptable: the client accepts none of them.
    """
    if accept is None or not accept.strip():
        return offered[0]
    best, best_quality = None, 0.0
    for wanted, quality in _read_accept(accept):
        found = next((one for one in offered if _is_accepted(one, wanted)), None)
        if found is not None and quality > best_quality:
            best, best_quality = found, quality
    if best is None:
        raise NotAcceptable(accept[:200], offered)
    return best


def _read_accept(accept: str) -> Iterator[tuple[str, float]]:
    for part in accept.split(","):
        media, *parameters = (piece.strip().lower() for piece in part.split(";"))
        quality = next((text[2:] for text in parameters if text.startswith("q=")), "1")
        try:
            yield media, float(quality)
        except ValueError:
            continue


def _is_accepted(offered: str, wanted: str) -> bool:
    return wanted in (offered, "*/*", offered.partition("/")[0] + "/*")


def encode_rows(result: QueryResult, media: str, count: Callable[[int], None]) -> Iterator[bytes]:
    """Encode the rows of a query result batch by batch, as Arrow or JSON lines."""
    if media == ARROW_STREAM:
        return encode_arrow(result.arrow_schema, result.batches(), count)
    return _encode_lines(result, count)


def _encode_lines(result: QueryResult, count: Callable[[int], None]) -> Iterator[bytes]:
    import pyarrow as pa  # noqa: PLC0415 - loaded with the engine

    for batch in result.batches():
        count(batch.num_rows)
        yield from encode_lines(pa.Table.from_batches([batch]))


def encode_arrow(
    schema: pa.Schema, batches: Iterator[pa.RecordBatch], count: Callable[[int], None]
) -> Iterator[bytes]:
    """Encode batches as an Arrow stream, one chunk for each."""
    import pyarrow as pa  # noqa: PLC0415 - loaded with the engine

    sink = _ChunkSink(pa)
    with pa.ipc.new_stream(sink.file, schema) as writer:
        yield sink.take()
        for batch in batches:
            count(batch.num_rows)
            writer.write_batch(batch)
            yield sink.take()
    yield sink.take()


class _ChunkSink:
    """An in-memory file whose content is taken out between writes."""

    def __init__(self, arrow: object) -> None:
        self._pieces: list[bytes] = []
        self.file = arrow.PythonFile(self, "w")  # type: ignore[attr-defined]
        self.closed = False

    def write(self, data: bytes) -> int:
        self._pieces.append(bytes(data))
        return len(data)

    def flush(self) -> None:
        """Do nothing: writes are not buffered."""

    def close(self) -> None:
        self.closed = True

    def writable(self) -> bool:
        return True

    def take(self) -> bytes:
        taken = b"".join(self._pieces)
        self._pieces.clear()
        return taken


class StreamResponse(Response):
    """A body of any length, encoded while it is sent.

    A failure after the first byte closes the connection without the final chunk, so that no client
    mistakes a part for the whole. A client that disconnects or stops reading cancels the work.
    """

    def __init__(
        self,
        pieces: AsyncGenerator[bytes, None],
        media: str,
        *,
        headers: Mapping[str, str] | None = None,
        status: int = 200,
        idle_s: float,
        on_end: Callable[[], None] | None = None,
    ) -> None:
        super().__init__(None, status, headers, media)
        if "content-length" not in {name.lower() for name in headers or ()}:
            del self.headers["content-length"]
        self._pieces, self._idle_s, self._on_end = pieces, idle_s, on_end

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        disconnect = asyncio.ensure_future(_wait_for_disconnect(receive))
        try:
            start = {"type": "http.response.start", "status": self.status_code}
            await send({**start, "headers": self.raw_headers})
            async for piece in self._pieces:
                if disconnect.done():
                    return
                if piece:
                    async with asyncio.timeout(self._idle_s):
                        await send({"type": "http.response.body", "body": piece, "more_body": True})
            await send({"type": "http.response.body", "body": b"", "more_body": False})
        except TimeoutError:
            _log.warning("a client stopped reading its stream", path=scope.get("path"))
        finally:
            disconnect.cancel()
            await self._pieces.aclose()
            if self._on_end is not None:
                self._on_end()


async def _wait_for_disconnect(receive: Receive) -> None:
    while (await receive())["type"] != "http.disconnect":
        pass


def encode_page_token(*facts: str) -> str:
    """Encode the token of the page that starts after these values."""
    return urlsafe_b64encode("\0".join(facts).encode()).decode().rstrip("=")


def decode_page_token(token: str | None, count: int) -> tuple[str, ...] | None:
    """Decode a page token of `count` values; None without a token.

    Raises:
        BadRequest: the token is malformed.
    """
    if token is None:
        return None
    try:
        if len(token) > _MAX_TOKEN_LENGTH:
            raise ValueError
        padded = token + "=" * (-len(token) % 4)
        facts = tuple(urlsafe_b64decode(padded.encode("ascii")).decode().split("\0"))
    except (ValueError, binascii.Error):
        facts = ()
    if len(facts) != count:
        raise BadRequest("the page token is not one that this list gave")
    return facts


def paginate(
    entries: Iterable[T], name_of: Callable[[T], str], token: str | None, limit: int
) -> tuple[list[T], str | None]:
    """Return one page of the entries in name order, and the token of the next one."""
    ordered, after = sorted(entries, key=name_of), decode_page_token(token, 1)
    start = bisect_right(ordered, after[0], key=name_of) if after else 0
    page = ordered[start : start + limit]
    has_more = start + limit < len(ordered)
    return page, encode_page_token(name_of(page[-1])) if has_more else None

"""Requests to a server.

One method for each kind of answer, errors raised as the server raised them, and writes retried
under an idempotency key when the connection is lost.
"""

from __future__ import annotations

import json
import socket
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Generic, TypeVar
from urllib.parse import urlencode
from uuid import uuid4

import msgspec
import urllib3
from urllib3.connection import HTTPConnection, HTTPSConnection

from omnigraph.client.operator_config import ServerAddress
from omnigraph.engine_threads import current_switch
from omnigraph.errors import (
    BadRequest,
    OmniError,
    OutcomeUnknown,
    ServerError,
    ServerUnreachable,
    UnexpectedAnswer,
)
from omnigraph.identity import MAIN
from omnigraph.operations.operation_table import GET_WRITE
from omnigraph.operations.route_spec import ResponseT, RouteSpec
from omnigraph.struct_decoding import decode_into
from omnigraph.version import __version__
from omnigraph.wire.error_bodies import is_error_body, rebuild_error
from omnigraph.wire.http_protocol import IDEMPOTENCY_KEY, JSON, REPLAYED, REQUEST_ID

T = TypeVar("T")

CONNECT_S = 10.0
"""Connect timeout."""
PIECE_BYTES = 1 << 20
_LOOKUP_DELAYS_S = (0.0, 0.2, 1.0)
"""Delays before a lost write is looked up: a server completes a write whose client disconnected."""
_SHOWN_BYTES = 200
_CONNECTIONS = 32
_NOT_SENT = (
    urllib3.exceptions.NewConnectionError,
    urllib3.exceptions.NameResolutionError,
    urllib3.exceptions.ConnectTimeoutError,
    urllib3.exceptions.SSLError,
    urllib3.exceptions.LocationValueError,
)


class ConnectionLost(ServerUnreachable):
    """The connection was lost after data was sent: the request may have been executed."""


class _WatchedConnection(HTTPConnection):
    """A connection whose requests can be aborted from another thread."""

    def request(self, *args: Any, **given: Any) -> None:  # noqa: ANN401 - passed on as they are
        super().request(*args, **given)
        _watch(self)


class _WatchedTlsConnection(HTTPSConnection):
    def request(self, *args: Any, **given: Any) -> None:  # noqa: ANN401
        super().request(*args, **given)
        _watch(self)


def _watch(connection: HTTPConnection) -> None:
    switch = current_switch.get()
    if switch is not None:
        switch.watch(connection.sock)


class _WatchedPool(urllib3.HTTPConnectionPool):
    ConnectionCls = _WatchedConnection


class _WatchedTlsPool(urllib3.HTTPSConnectionPool):
    ConnectionCls = _WatchedTlsConnection


@dataclass(frozen=True, slots=True)
class ClientRequest(Generic[ResponseT]):
    """A request of one route: path, parameters, headers and body."""

    route: RouteSpec[ResponseT]
    path: Mapping[str, str] = field(default_factory=dict)
    parameters: tuple[tuple[str, str], ...] = ()
    body: msgspec.Struct | None = None
    data: bytes | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    accept: str = JSON

    def with_headers(self, headers: Mapping[str, str]) -> ClientRequest[ResponseT]:
        return replace(self, headers={**self.headers, **headers})

    def encode(self) -> bytes | None:
        """Encode the body.

        Raises:
            BadRequest: the body has a value without a JSON form.
        """
        if self.body is None:
            return self.data
        try:
            members = msgspec.to_builtins(self.body)
            return json.dumps(members, ensure_ascii=False, allow_nan=False).encode()
        except (TypeError, ValueError, RecursionError) as error:
            raise BadRequest(f"the request cannot be written as JSON: {error}") from error


@dataclass(frozen=True, slots=True)
class ServerAnswer:
    """A complete response."""

    status: int
    headers: Mapping[str, str]
    data: bytes


class ServerConnection:
    """The connections of one handle to one server; safe to share between threads."""

    def __init__(
        self,
        address: ServerAddress,
        token: str | None = None,
        *,
        timeout: float | None = None,
        ca_file: str | None = None,
    ) -> None:
        self.address = address
        self._token = _check_token(token)
        self._pool = urllib3.PoolManager(
            maxsize=_CONNECTIONS,
            retries=False,
            timeout=urllib3.Timeout(connect=min(CONNECT_S, timeout or CONNECT_S), read=timeout),
            ca_certs=ca_file,
            socket_options=[
                *HTTPConnection.default_socket_options,
                (socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),
            ],
        )

        self._pool.pool_classes_by_scheme = {"http": _WatchedPool, "https": _WatchedTlsPool}

    def __repr__(self) -> str:
        return f"ServerConnection({self.address.url!r})"

    def close(self) -> None:
        """Close idle connections."""
        self._pool.clear()

    def ask(
        self, request: ClientRequest[ResponseT], *, key: str | None = None, branch: str = MAIN
    ) -> ResponseT:
        """Send a request as its route allows, and return the result that the route declares.

        A write that takes an idempotency key is executed at most once; see `send_once`.

        Args:
            request: The request.
            key: The idempotency key; a new one by default.
            branch: The branch on which the key is looked up.

        Raises:
            OmniError: the error the server reports.
            ServerUnreachable: there was no connection, or it was lost.
            OutcomeUnknown: a write may have been executed.
        """
        route = request.route
        assert route.response is not None, "the other routes are streamed"
        if route.takes_key:
            answer = send_once(self, self.send, request, key, branch)
        elif route.is_write:
            answer = self._send_keyless(request)
        else:
            answer = self.send(request)
        return self.decode(answer, route.response)

    def send(self, request: ClientRequest[Any]) -> ServerAnswer:
        """Send a request and read the complete response.

        Raises:
            OmniError: the error the server reports.
            ServerUnreachable: there was no connection, or it was lost.
        """
        return self.finish(self.start(request))

    def _send_keyless(self, request: ClientRequest[Any]) -> ServerAnswer:
        try:
            return self.send(request)
        except ConnectionLost as lost:
            what = f"'{request.route.operation}' at {self.address.url}"
            raise OutcomeUnknown(what, lost.reason) from lost

    def finish(self, response: urllib3.BaseHTTPResponse) -> ServerAnswer:
        """Read the rest of a response that has begun."""
        try:
            data = response.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._describe_loss(error) from error
        finally:
            response.release_conn()
        return ServerAnswer(response.status, response.headers, data)

    def decode(self, answer: ServerAnswer, kind: type[ResponseT]) -> ResponseT:
        """Decode a result; a header says whether a write was made before.

        The address that some bodies repeat is dropped: the handle has it, and an embedded graph's
        results have none.
        """
        try:
            result = decode_into(answer.data, kind)
        except msgspec.DecodeError as error:
            raise UnexpectedAnswer(self.address.url, answer.status, str(error)) from error
        found: dict[str, object] = {"uri": None} if "uri" in kind.__struct_fields__ else {}
        if answer.headers.get(REPLAYED) == "true":
            found["is_replayed"] = True
        return msgspec.structs.replace(result, **found) if found else result

    def start(self, request: ClientRequest[Any]) -> urllib3.BaseHTTPResponse:
        """Send a request and return the response before its body is read."""
        route = request.route
        data = request.encode()
        headers = {
            "Accept": request.accept,
            "User-Agent": f"omnigraph/{__version__}",
            REQUEST_ID: uuid4().hex,
            **request.headers,
        }
        if self._token is not None:
            headers["Authorization"] = f"Bearer {self._token}"
        if data is not None:
            headers["Content-Type"] = route.body_media
        url = self.address.join(route.path, dict(request.path))
        try:
            response = self._pool.urlopen(
                route.method,
                _add_parameters(url, request.parameters),
                body=data,
                headers=headers,
                redirect=False,
                preload_content=False,
            )
        except (urllib3.exceptions.HTTPError, OSError) as error:
            if isinstance(error, _NOT_SENT):
                raise ServerUnreachable(self.address.base, _describe(error)) from error
            raise self._describe_loss(error) from error
        if response.status >= 400:
            raise self._read_error(response)
        return response

    def pieces(self, response: urllib3.BaseHTTPResponse) -> Iterator[bytes]:
        """Iterate over the body of a response; a truncated one raises an error."""
        try:
            yield from response.stream(PIECE_BYTES)
        except (urllib3.exceptions.HTTPError, OSError) as error:
            raise self._describe_loss(error) from error
        finally:
            response.close()

    def _read_error(self, response: urllib3.BaseHTTPResponse) -> OmniError:
        try:
            data = response.read()
        except (urllib3.exceptions.HTTPError, OSError) as error:
            return self._describe_loss(error)
        finally:
            response.release_conn()
        try:
            body = msgspec.json.decode(data)
        except msgspec.DecodeError:
            body = None
        if is_error_body(body):
            return rebuild_error(body, response.status)
        shown = data[:_SHOWN_BYTES].decode(errors="replace").strip() or "no body"
        return UnexpectedAnswer(self.address.url, response.status, shown)

    def _describe_loss(self, error: Exception) -> ConnectionLost:
        return ConnectionLost(self.address.base, _describe(error))


def _check_token(token: str | None) -> str | None:
    """Strip and check a token; no message contains it."""
    text = (token or "").strip()
    if not text:
        return None
    if not text.isascii() or not text.isprintable():
        raise BadRequest("a token is one line of printable ASCII characters")
    return text


def _add_parameters(url: str, parameters: Iterable[tuple[str, str]]) -> str:
    encoded = urlencode(list(parameters))
    return f"{url}?{encoded}" if encoded else url


def _describe(error: Exception) -> str:
    """Return the reason of a failure, without the object addresses urllib3 includes."""
    match error:
        case urllib3.exceptions.NameResolutionError():
            return "its name cannot be resolved"
        case urllib3.exceptions.ConnectTimeoutError():
            return "no connection in time"
        case urllib3.exceptions.ReadTimeoutError():
            return "no answer in time"
        case urllib3.exceptions.SSLError():
            return f"TLS failed: {error}"
        case urllib3.exceptions.NewConnectionError():
            return str(error).rpartition(": ")[2]
        case _:
            return f"the connection was lost ({error})"


def send_once(
    connection: ServerConnection,
    send: Callable[[ClientRequest[Any]], T],
    request: ClientRequest[Any],
    key: str | None,
    branch: str,
) -> T:
    """Send a write under an idempotency key, so that a retry does not execute it twice.

    Raises:
        OutcomeUnknown: there was no response, and the write could not be looked up.
    """
    key = uuid4().hex if key is None else key
    keyed = request.with_headers({IDEMPOTENCY_KEY: key})
    try:
        return send(keyed)
    except (ConnectionLost, UnexpectedAnswer) as lost:
        if isinstance(lost, UnexpectedAnswer) and lost.status < 500:
            raise
        if not _has_answered(connection, key, branch):
            raise _describe_unknown(request, key, lost) from lost
    try:
        return send(keyed)
    except ServerError as lost:
        raise _describe_unknown(request, key, lost) from lost


def _has_answered(connection: ServerConnection, key: str, branch: str) -> bool:
    """Look up a keyed write; return False if the server does not respond."""
    request = ClientRequest(GET_WRITE, path={"key": key}, parameters=(("branch", branch),))
    answered = False
    for delay in _LOOKUP_DELAYS_S:
        time.sleep(delay)
        try:
            connection.send(request)
        except ServerError:
            continue
        except OmniError:
            answered = True  # not executed yet, or not visible: a retry executes it once
        else:
            return True
    return answered


def _describe_unknown(request: ClientRequest[Any], key: str, lost: ServerError) -> OutcomeUnknown:
    what = (
        f"'{request.route.operation}' with the idempotency key '{key}', which can be looked up "
        "with `find_write` or sent again"
    )
    return OutcomeUnknown(what, str(lost))

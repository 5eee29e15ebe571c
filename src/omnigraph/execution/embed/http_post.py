"""One JSON request over HTTP that is over when its time is, whatever the other side does."""

from __future__ import annotations

import json
import socket
import threading
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING
from urllib.parse import SplitResult, urlsplit

from omnigraph.errors import BadRequest

if TYPE_CHECKING:
    import http.client

MOST_RESPONSE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes
    retry_after_s: float | None
    """How long the server asks to be left alone."""


def normalize_base_address(text: str) -> str:
    """The address without its trailing slashes.

    Raises:
        BadRequest: it is not an http(s) address, or it holds credentials, which would show up in
            messages.
    """
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise BadRequest("the embedding base URL cannot be parsed") from None
    if parts.username is not None or parts.password is not None:
        raise BadRequest("the embedding base URL must not hold a user name or password")
    if parts.scheme not in ("http", "https") or not parts.hostname or port == 0:
        raise BadRequest("the embedding base URL must be an http:// or https:// address")
    if parts.query or parts.fragment:
        raise BadRequest("the embedding base URL must not hold a query or a fragment")
    return text.rstrip("/")


def post_json(url: str, headers: Mapping[str, str], body: object, timeout_s: float) -> Response:
    """What the server answers; redirects are not followed.

    Raises:
        TimeoutError: there is no whole answer after `timeout_s` seconds.
        OSError: the server cannot be reached or hangs up.
    """
    exchange = _Exchange(urlsplit(url), headers, json.dumps(body).encode(), timeout_s)
    # A thread of its own, because looking up a name cannot be interrupted, and because a server
    # that sends a byte now and then never runs into the timeout of the socket.
    thread = threading.Thread(target=exchange.run, name="embedding-request", daemon=True)
    thread.start()
    thread.join(timeout_s)
    if exchange.response is not None:
        return exchange.response
    if thread.is_alive():
        exchange.abort()
        raise TimeoutError(f"no answer within {timeout_s:g} s")
    assert exchange.error is not None, "an exchange ends with an answer or an error"
    raise exchange.error


class _Exchange:
    """One request and its answer."""

    def __init__(
        self, url: SplitResult, headers: Mapping[str, str], body: bytes, timeout_s: float
    ) -> None:
        self._url, self._headers, self._body = url, headers, body
        self._timeout_s = timeout_s
        self._connection: http.client.HTTPConnection | None = None
        self.response: Response | None = None
        self.error: OSError | None = None

    def run(self) -> None:
        import http.client  # noqa: PLC0415 - most graphs never embed, and it loads slowly

        try:
            self.response = self._exchange()
        except OSError as error:
            self.error = error
        except (http.client.HTTPException, ValueError) as error:
            # Without what it says, which may repeat a header with a key in it.
            self.error = ConnectionError(f"not an HTTP exchange: {type(error).__name__}")
        finally:
            if self._connection is not None:
                self._connection.close()

    def abort(self) -> None:
        """Hang up, so that the thread ends too."""
        opened = None if self._connection is None else self._connection.sock
        if opened is not None:
            with suppress(OSError):
                opened.shutdown(socket.SHUT_RDWR)

    def _exchange(self) -> Response:
        import http.client  # noqa: PLC0415 - most graphs never embed, and they load slowly
        import ssl  # noqa: PLC0415

        host, port = self._url.hostname or "", self._url.port
        if self._url.scheme == "https":
            context = ssl.create_default_context()
            self._connection = http.client.HTTPSConnection(
                host, port, timeout=self._timeout_s, context=context
            )
        else:
            self._connection = http.client.HTTPConnection(host, port, timeout=self._timeout_s)
        headers = {"Content-Type": "application/json", "Accept": "application/json"}
        self._connection.request("POST", self._url.path, self._body, {**headers, **self._headers})
        answer = self._connection.getresponse()
        body = answer.read(MOST_RESPONSE_BYTES + 1)
        if len(body) > MOST_RESPONSE_BYTES:
            raise ConnectionError(f"the answer is longer than {MOST_RESPONSE_BYTES} bytes")
        return Response(answer.status, body, _parse_seconds(answer.getheader("Retry-After")))


def _parse_seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None

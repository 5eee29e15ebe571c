"""Embedders that call a provider over HTTP, each request with one deadline."""

from __future__ import annotations

import json
import math
import socket
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol
from urllib.parse import SplitResult, quote, urlsplit

from omnigraph.embedding.embedder import TextRole, normalize_vector
from omnigraph.errors import BadRequest, EmbeddingFailed
from omnigraph.types.json_value import parse_json
from omnigraph.types.row_problems import ValueRefused

if TYPE_CHECKING:
    import http.client


MAX_RESPONSE_BYTES = 16 << 20


@dataclass(frozen=True, slots=True)
class Response:
    status: int
    body: bytes
    retry_after_s: float | None
    """Pause that the server requests."""


def normalize_base_address(text: str) -> str:
    """Normalize an address: no trailing slashes.

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
    """Return the response of the server; redirects are not followed.

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
        """Close the connection, so that the thread ends."""
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
        body = answer.read(MAX_RESPONSE_BYTES + 1)
        if len(body) > MAX_RESPONSE_BYTES:
            raise ConnectionError(f"the answer is longer than {MAX_RESPONSE_BYTES} bytes")
        return Response(answer.status, body, _parse_seconds(answer.getheader("Retry-After")))


def _parse_seconds(text: str | None) -> float | None:
    return float(text) if text is not None and text.isascii() and text.isdigit() else None


_MAX_REASON = 300
_MAX_PAUSE_S = 30.0
"""Upper bound of the pause that a provider requests."""


class Dialect(Protocol):
    """Request and response format of one provider."""

    def path(self, model: str) -> str: ...
    def headers(self, key: str) -> Mapping[str, str]: ...
    def body(self, model: str, text: str, dimension: int, role: TextRole) -> object: ...
    def values(self, answer: object) -> object: ...
    def batch_path(self, model: str) -> str: ...
    def batch_body(
        self, model: str, texts: Sequence[str], dimension: int, role: TextRole
    ) -> object: ...
    def batch_values(self, answer: object, count: int) -> list[object]:
        """Return the values of each text; None where the response has none."""
        ...


class OpenAiDialect:
    """The embeddings call of OpenAI, which many providers offer."""

    def path(self, model: str) -> str:  # noqa: ARG002  # the model is in the body
        return "/embeddings"

    def headers(self, key: str) -> Mapping[str, str]:
        return {"Authorization": f"Bearer {key}"}

    def body(self, model: str, text: str, dimension: int, role: TextRole) -> object:  # noqa: ARG002  # queries and documents are embedded alike
        return {"model": model, "input": [text], "dimensions": dimension}

    def values(self, answer: object) -> object:
        items = _get_member(answer, "data")
        for item in items if isinstance(items, list) else []:
            if isinstance(item, dict) and item.get("index", 0) == 0:
                return item.get("embedding")
        return None

    def batch_path(self, model: str) -> str:
        return self.path(model)

    def batch_body(
        self,
        model: str,
        texts: Sequence[str],
        dimension: int,
        role: TextRole,  # noqa: ARG002  # queries and documents are embedded alike
    ) -> object:
        return {"model": model, "input": list(texts), "dimensions": dimension}

    def batch_values(self, answer: object, count: int) -> list[object]:
        items = _get_member(answer, "data")
        found: list[object] = [None] * count
        for offset, item in enumerate(items if isinstance(items, list) else []):
            index = item.get("index", offset) if isinstance(item, dict) else None
            if isinstance(index, int) and 0 <= index < count:
                found[index] = item.get("embedding")
        return found


class GeminiDialect:
    """The content-embedding call of Gemini."""

    def path(self, model: str) -> str:
        return f"/models/{quote(model, safe='')}:embedContent"

    def headers(self, key: str) -> Mapping[str, str]:
        return {"x-goog-api-key": key}

    def body(self, model: str, text: str, dimension: int, role: TextRole) -> object:
        return {
            "model": f"models/{model}",
            "content": {"parts": [{"text": text}]},
            "taskType": f"RETRIEVAL_{role.upper()}",
            "outputDimensionality": dimension,
        }

    def values(self, answer: object) -> object:
        return _get_member(_get_member(answer, "embedding"), "values")

    def batch_path(self, model: str) -> str:
        return f"/models/{quote(model, safe='')}:batchEmbedContents"

    def batch_body(
        self, model: str, texts: Sequence[str], dimension: int, role: TextRole
    ) -> object:
        return {"requests": [self.body(model, text, dimension, role) for text in texts]}

    def batch_values(self, answer: object, count: int) -> list[object]:
        items = _get_member(answer, "embeddings")
        found = [_get_member(item, "values") for item in items] if isinstance(items, list) else []
        return [*found, *[None] * count][:count]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """Timeouts and number of attempts; a deadline of 0 is none."""

    timeout_s: float
    deadline_s: float
    attempts: int
    backoff_s: float


@dataclass(frozen=True, slots=True)
class RemoteEmbedder:
    """An embedder that calls a provider over HTTP."""

    dialect: Dialect
    base_url: str
    model: str
    key: str = field(repr=False)
    patience: RetryPolicy

    def embed(self, text: str, dimension: int, role: TextRole) -> list[float]:
        request = self.dialect.body(self.model, text, dimension, role)
        answer = self._request_answer(self.dialect.path(self.model), request)
        return self._parse_vector(self.dialect.values(answer), dimension)

    def embed_many(self, texts: Sequence[str], dimension: int, role: TextRole) -> list[list[float]]:
        """Return the vectors of several texts, by one request."""
        request = self.dialect.batch_body(self.model, texts, dimension, role)
        answer = self._request_answer(self.dialect.batch_path(self.model), request)
        found = self.dialect.batch_values(answer, len(texts))
        return [self._parse_vector(values, dimension) for values in found]

    def _request_answer(self, path: str, request: object) -> object:
        response = self._request(path, request)
        if response.status != 200:
            raise self._make_failure(self._make_refusal(response))
        try:
            return parse_json(response.body)
        except ValueRefused:
            raise self._make_failure("the answer is not JSON") from None

    def _parse_vector(self, values: object, dimension: int) -> list[float]:
        if not isinstance(values, list) or not all(_is_number(value) for value in values):
            raise self._make_failure("the answer holds no embedding")
        try:
            return normalize_vector([_as_float(value) for value in values], dimension)
        except EmbeddingFailed as failure:
            raise self._make_failure(failure.message) from None

    def _request(self, path: str, request: object) -> Response:
        """Return the first final response, retrying transient failures.

        Timeouts, refused connections, status 429 and server errors are retried.
        """
        started, patience = time.monotonic(), self.patience
        for attempt in range(patience.attempts):
            response, problem = self._try_request(path, request, self._measure_time_left(started))
            if response is not None and problem is None:
                return response
            pause = patience.backoff_s * 2**attempt
            if response is not None and response.retry_after_s is not None:
                pause = max(pause, min(response.retry_after_s, _MAX_PAUSE_S))
            left = self._measure_time_left(started)
            if attempt + 1 == patience.attempts or (left is not None and pause >= left):
                break
            time.sleep(pause)
        tried = f"{attempt + 1} attempt{'s' if attempt else ''}"
        raise self._make_failure(f"{problem} ({tried}, {time.monotonic() - started:.1f} s)")

    def _try_request(
        self, path: str, request: object, left_s: float | None
    ) -> tuple[Response | None, str | None]:
        """Send a request; return the response, and the problem if a retry may succeed."""
        timeout = (
            self.patience.timeout_s if left_s is None else min(self.patience.timeout_s, left_s)
        )
        url = self.base_url + path
        try:
            response = post_json(url, self.dialect.headers(self.key), request, timeout)
        except TimeoutError:
            return None, f"no answer within {timeout:.3g} s"
        except OSError as error:
            return None, f"the provider cannot be reached ({error.strerror or error})"
        is_passing = response.status == 429 or response.status >= 500
        return response, self._make_refusal(response) if is_passing else None

    def _measure_time_left(self, started: float) -> float | None:
        if not self.patience.deadline_s:
            return None
        return max(0.001, self.patience.deadline_s - (time.monotonic() - started))

    def _make_refusal(self, response: Response) -> str:
        words = " ".join(response.body.decode("utf-8", "replace").split())
        said = words.replace(self.key, "***")[:_MAX_REASON]
        return f"HTTP {response.status}{': ' if said else ''}{said}"

    def _make_failure(self, reason: str) -> EmbeddingFailed:
        return EmbeddingFailed(f"embedding with {self.model} at {self.base_url} failed: {reason}")


def _get_member(value: object, name: str) -> object:
    return value.get(name) if isinstance(value, dict) else None


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:
        return math.inf


def _is_number(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)

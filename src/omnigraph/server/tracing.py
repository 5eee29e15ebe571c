"""Traces: one span for each request, sent where OpenTelemetry's own variables say.

Nothing is loaded and nothing is sent unless one of these variables names a collector.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol

from omnigraph.errors import MissingPackage
from omnigraph.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider

_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_SERVICE = "omnigraph"

Facts = Mapping[str, str | int]
Finish = Callable[[str, int, Callable[[], Facts]], None]
"""Told how a request ended: its operation, its status, and what gives the rest that is known."""


class Tracing(Protocol):
    """What is told of every request."""

    def follow(self, headers: Mapping[str, str]) -> AbstractContextManager[Finish]: ...

    def close(self) -> None: ...


class NoTracing:
    """Tells nobody."""

    @contextmanager
    def follow(self, headers: Mapping[str, str]) -> Iterator[Finish]:  # noqa: ARG002
        yield _ignore

    def close(self) -> None:
        """Nothing is open."""


def _ignore(operation: str, status: int, describe: Callable[[], Facts]) -> None:
    """For requests nobody follows."""


class SpanTracing:
    """Makes a span of every request, within the trace its client began."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(_SERVICE, __version__)

    @contextmanager
    def follow(self, headers: Mapping[str, str]) -> Iterator[Finish]:
        """Begin a span; it ends with the block."""
        from opentelemetry.propagate import extract  # noqa: PLC0415 - an extra
        from opentelemetry.trace import SpanKind, StatusCode  # noqa: PLC0415

        span = self._tracer.start_span("request", extract(headers), SpanKind.SERVER)

        def finish(operation: str, status: int, describe: Callable[[], Facts]) -> None:
            span.update_name(operation)
            span.set_attributes({"http.response.status_code": status, **describe()})
            if status >= 500:
                span.set_status(StatusCode.ERROR)

        try:
            yield finish
        finally:
            span.end()

    def close(self) -> None:
        """Send what was not sent yet."""
        self._provider.shutdown()


def open_tracing(environment: Mapping[str, str]) -> Tracing:
    """Traces, if the environment names a collector.

    Raises:
        MissingPackage: it does, and the packages that speak to it are not installed.
    """
    if not any(environment.get(name, "").strip() for name in _ENDPOINTS):
        return NoTracing()
    try:
        from opentelemetry.exporter.otlp.proto.http.trace_exporter import (  # noqa: PLC0415
            OTLPSpanExporter,
        )
        from opentelemetry.sdk.resources import Resource  # noqa: PLC0415
        from opentelemetry.sdk.trace import TracerProvider  # noqa: PLC0415
        from opentelemetry.sdk.trace.export import BatchSpanProcessor  # noqa: PLC0415
    except ImportError as error:
        name = error.name or "opentelemetry"
        raise MissingPackage(name, "traces", "pip install 'omnigraph[otel]'") from error
    named = {} if environment.get("OTEL_SERVICE_NAME") else {"service.name": _SERVICE}
    provider = TracerProvider(resource=Resource.create(named))
    provider.add_span_processor(BatchSpanProcessor(OTLPSpanExporter()))
    return SpanTracing(provider)

"""Prometheus metrics and OpenTelemetry traces of a server."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from typing import TYPE_CHECKING, Protocol
from wsgiref.simple_server import WSGIServer

from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, start_http_server
from prometheus_client.multiprocess import MultiProcessCollector

from omnigraph.errors import MissingPackage
from omnigraph.graph.results import IoCounters, read_io_counters
from omnigraph.server.hosted_graphs import HostedGraphs
from omnigraph.server.serving_config import Address
from omnigraph.version import __version__

if TYPE_CHECKING:
    from opentelemetry.sdk.trace import TracerProvider


_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 30.0)


class Metrics:
    """Prometheus metrics of one worker."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._requests = Counter(
            "omnigraph_requests",
            "Requests answered.",
            ["operation", "status"],
            registry=self.registry,
        )
        self._seconds = Histogram(
            "omnigraph_request_seconds",
            "How long requests took.",
            ["operation"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._in_flight = _make_gauge("omnigraph_requests_in_flight", "Requests in progress.", self)
        self._refused = Counter(
            "omnigraph_admission_refusals",
            "Requests refused because the actor or the server had too many in progress.",
            registry=self.registry,
        )
        self._streams = _make_gauge("omnigraph_streams", "Exports and baselines in progress.", self)
        self._rows = Counter(
            "omnigraph_rows_returned", "Rows sent to clients.", registry=self.registry
        )
        self._commits = Counter(
            "omnigraph_commits", "Commits made.", ["operation"], registry=self.registry
        )
        self._conflicts = Counter(
            "omnigraph_merge_conflicts", "Merges refused by conflicts.", registry=self.registry
        )
        self._denials = Counter("omnigraph_denials", "Requests denied.", registry=self.registry)
        self._graphs = _make_gauge("omnigraph_open_graphs", "Graphs served.", self, "max")
        self._quarantined = _make_gauge(
            "omnigraph_quarantined_graphs", "Graphs that could not be opened.", self, "max"
        )
        self._writes = _make_gauge(
            "omnigraph_writes_in_flight",
            "Writes in progress, by a digest of the actor's name.",
            self,
            labels=("actor",),
        )
        self._pending = _make_gauge(
            "omnigraph_recovery_pending",
            "Interrupted writes that the next writer recovers.",
            self,
            "max",
        )
        self._reads = Counter(
            "omnigraph_storage_reads", "Reads of tables in storage.", registry=self.registry
        )
        self._read_bytes = Counter(
            "omnigraph_storage_read_bytes", "Bytes they read.", registry=self.registry
        )
        self._counted = IoCounters(0, 0)
        self._children: dict[tuple[str, int], Counter] = {}
        self._timers: dict[str, Histogram] = {}

    def begin_request(self) -> None:
        self._in_flight.inc()

    def end_request(self, operation: str, status: int, seconds: float) -> None:
        self._in_flight.dec()
        counter = self._children.get((operation, status))
        if counter is None:
            counter = self._requests.labels(operation, str(status))
            self._children[operation, status] = counter
        counter.inc()
        timer = self._timers.get(operation)
        if timer is None:
            timer = self._timers[operation] = self._seconds.labels(operation)
        timer.observe(seconds)

    def count_rows(self, rows: int) -> None:
        self._rows.inc(rows)

    def count_commit(self, operation: str) -> None:
        self._commits.labels(operation).inc()

    def begin_write(self, actor: str) -> None:
        self._writes.labels(_digest_name(actor)).inc()

    def end_write(self, actor: str) -> None:
        self._writes.labels(_digest_name(actor)).dec()

    def collect(self, graphs: HostedGraphs) -> None:
        """Update the metrics that no request updates: storage reads and pending recoveries."""
        now = read_io_counters()
        more, self._counted = now - self._counted, now
        self._reads.inc(more.reads)
        self._read_bytes.inc(more.bytes_read)
        served = graphs.served.values()
        self._pending.set(sum(len(one.unguarded.recovery_pending()) for one in served))

    def count_refusal(self) -> None:
        self._refused.inc()

    def count_conflict(self) -> None:
        self._conflicts.inc()

    def count_denial(self) -> None:
        self._denials.inc()

    def begin_stream(self) -> None:
        self._streams.inc()

    def end_stream(self) -> None:
        self._streams.dec()

    def count_graphs(self, graphs: HostedGraphs) -> None:
        self._graphs.set(len(graphs.served))
        self._quarantined.set(len(graphs.quarantined))


def _make_gauge(
    name: str, meaning: str, metrics: Metrics, aggregate: str = "sum", labels: Sequence[str] = ()
) -> Gauge:
    """Create a gauge; across workers it is aggregated as the sum or the maximum."""
    mode = "livesum" if aggregate == "sum" else "livemax"
    return Gauge(name, meaning, labels, registry=metrics.registry, multiprocess_mode=mode)  # type: ignore[arg-type]


def _digest_name(actor: str) -> str:
    """Return a pseudonym of an actor for use as a label."""
    return hashlib.sha256(actor.encode()).hexdigest()[:12]


def serve_metrics(address: Address, registry: CollectorRegistry) -> Callable[[], None]:
    """Serve metrics at an address of their own, in a thread; return the function that stops it."""
    server: WSGIServer
    server, thread = start_http_server(address.port, address.host, registry)

    def stop() -> None:
        server.shutdown()
        server.server_close()
        thread.join()

    return stop


def aggregate_workers(folder: str) -> CollectorRegistry:
    """Return a registry that aggregates the metrics all workers write to a folder."""
    registry = CollectorRegistry()
    MultiProcessCollector(registry, folder)  # type: ignore[no-untyped-call]
    return registry


_ENDPOINTS = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_SERVICE = "omnigraph"

Facts = Mapping[str, str | int]
Finish = Callable[[str, int, Callable[[], Facts]], None]
"""Callback at the end of a request: operation, status, and a function for further attributes."""


class Tracing(Protocol):
    """Traces requests."""

    def follow(self, headers: Mapping[str, str]) -> AbstractContextManager[Finish]: ...

    def close(self) -> None: ...


class NoTracing:
    """Tracing without a collector."""

    @contextmanager
    def follow(self, headers: Mapping[str, str]) -> Iterator[Finish]:  # noqa: ARG002
        yield _ignore

    def close(self) -> None:
        """Do nothing: there is no exporter."""


def _ignore(operation: str, status: int, describe: Callable[[], Facts]) -> None:
    """Do nothing: the request is not traced."""


class SpanTracing:
    """Creates a span for every request, within the trace of its client."""

    def __init__(self, provider: TracerProvider) -> None:
        self._provider = provider
        self._tracer = provider.get_tracer(_SERVICE, __version__)

    @contextmanager
    def follow(self, headers: Mapping[str, str]) -> Iterator[Finish]:
        """Start a span; it ends with the block."""
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
        """Flush pending spans."""
        self._provider.shutdown()


def open_tracing(environment: Mapping[str, str]) -> Tracing:
    """Set up tracing if the environment names a collector.

    Raises:
        MissingPackage: a collector is named, and the OpenTelemetry packages are not installed.
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

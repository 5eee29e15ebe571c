"""One worker of a server: what all of its requests share."""

from __future__ import annotations

import asyncio
import datetime
import os
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from omnigraph.engine_threads import EngineThreads
from omnigraph.errors import BadRequest, NotAuthenticated, OmniError
from omnigraph.server.access import Authority, NoPolicy, RuntimeState, classify_state
from omnigraph.server.admission import Admission, RequestCap
from omnigraph.server.audit import AuditLog
from omnigraph.server.bearer_tokens import Tokens, load_tokens
from omnigraph.server.hosted_graphs import HostedGraphs, digest_serving, open_graphs
from omnigraph.server.metrics import Metrics
from omnigraph.server.query_files import load_queries
from omnigraph.server.serve_options import ServeOptions
from omnigraph.server.stream_slots import StreamSlots
from omnigraph.server.tracing import Tracing, open_tracing
from omnigraph.stored_queries import QueryRegistry

_log = structlog.get_logger("omnigraph.server")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a reload replaces, all of it at once."""

    graphs: HostedGraphs
    tokens: Tokens
    state: RuntimeState
    server_authority: Authority
    digest: str
    """Differs where what is served differs."""


@dataclass
class Service:
    """The state of a worker; its members are used on the event loop."""

    options: ServeOptions
    configuration: Configuration
    threads: EngineThreads
    requests: RequestCap
    admission: Admission
    slots: StreamSlots
    metrics: Metrics
    audit: AuditLog
    tracing: Tracing
    is_draining: bool = False
    _reloading: asyncio.Lock = field(default_factory=asyncio.Lock)

    @property
    def graphs(self) -> HostedGraphs:
        return self.configuration.graphs

    @property
    def is_open(self) -> bool:
        """Whether requests need no token."""
        return self.configuration.state is RuntimeState.OPEN

    def authenticate(self, header: str | None) -> str | None:
        """The actor of a request, by its `Authorization` header; None where nobody is asked.

        Raises:
            NotAuthenticated: there is no token, or not a valid one.
        """
        if self.is_open:
            return None
        scheme, _, token = (header or "").strip().partition(" ")
        if scheme.lower() != "bearer" or not token.strip():
            raise NotAuthenticated("missing bearer token")
        now = datetime.datetime.now(datetime.UTC)
        actor = self.configuration.tokens.find_actor(token, now)
        if actor is None:
            raise NotAuthenticated("invalid bearer token")
        return actor

    async def reload(self) -> None:
        """Read tokens, policies and stored queries again, and try quarantined graphs again.

        A mistake changes nothing.
        """
        async with self._reloading:
            try:
                self.configuration = await self.threads.read(
                    lambda: configure(self.options, self.graphs)
                )
            except OmniError as error:
                _log.error("reload refused", reason=error.message)
                return
        self.metrics.count_graphs(self.graphs)
        _log.info(
            "reloaded",
            graphs=len(self.graphs.served),
            quarantined=len(self.graphs.quarantined),
            tokens=len(self.configuration.tokens.known),
        )

    async def keep_measuring(self) -> None:
        """Measure now and then what no request does."""
        while True:
            try:
                await self.threads.read(lambda: self.metrics.measure(self.graphs))
            except OmniError as error:
                _log.warning("metrics are incomplete", reason=error.message)
            await asyncio.sleep(self.options.server.metrics_interval_s)


def configure(options: ServeOptions, known: HostedGraphs | None = None) -> Configuration:
    """Load tokens, policies and stored queries, decide the state and open the graphs.

    Raises:
        BadRequest: the server must not start like this.
        CompileError: the policy of the server, or a file of a graph that is served, has mistakes.
    """
    tokens = load_tokens(options.server)
    state = classify_state(
        has_tokens=bool(tokens),
        has_policy=bool(options.policies),
        is_unauthenticated=options.server.is_unauthenticated,
    )
    fallback = NoPolicy.OPEN if state is RuntimeState.OPEN else NoPolicy.DEFAULT_DENY
    server_authority = options.policies.load_for_server(fallback)

    def find_authority(graph_id: str) -> Authority:
        return options.policies.load_for_graph(graph_id, fallback)

    def find_queries(graph_id: str) -> QueryRegistry:
        return load_queries(options.queries, graph_id)

    graphs = open_graphs(options.stores, find_authority, find_queries, options.settings, known)
    for graph_id, reason in graphs.quarantined.items():
        _log.warning("graph quarantined", graph=graph_id, reason=reason)
    if not graphs.served or (graphs.quarantined and options.server.requires_all_graphs):
        listed = "; ".join(f"{id}: {reason}" for id, reason in graphs.quarantined.items())
        what = "every graph is required" if graphs.served else "no graph can be served"
        raise BadRequest(f"{what}, and these cannot be opened: {listed}")
    digest = digest_serving(graphs, server_authority)
    return Configuration(graphs, tokens, state, server_authority, digest)


@contextmanager
def open_service(options: ServeOptions) -> Iterator[Service]:
    """A worker that is ready to answer; its graphs are closed at the end."""
    settings = options.server
    configuration = configure(options)
    metrics = Metrics()
    metrics.count_graphs(configuration.graphs)
    service = Service(
        options,
        configuration,
        EngineThreads(settings.read_threads, settings.write_threads),
        RequestCap(settings.most_requests),
        Admission(settings.inflight_per_actor, settings.bytes_per_actor),
        StreamSlots(settings.streams),
        metrics,
        AuditLog(settings.audit_file),
        open_tracing(os.environ),
    )
    try:
        yield service
    finally:
        service.threads.stop()
        service.audit.close()
        service.tracing.close()

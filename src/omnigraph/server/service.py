"""One worker of a server: what all of its requests share."""

from __future__ import annotations

import asyncio
import datetime
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from omnigraph.errors import BadRequest, NotAuthenticated, OmniError
from omnigraph.server.access import Authority, NoPolicy, RuntimeState, classify_state
from omnigraph.server.admission import Admission
from omnigraph.server.audit import AuditLog
from omnigraph.server.bearer_tokens import Tokens, load_tokens
from omnigraph.server.engine_threads import EngineThreads
from omnigraph.server.hosted_graphs import HostedGraphs, open_graphs
from omnigraph.server.metrics import Metrics
from omnigraph.server.serve_options import ServeOptions
from omnigraph.server.stream_slots import StreamSlots

_log = structlog.get_logger("omnigraph.server")


@dataclass(frozen=True, slots=True)
class Configuration:
    """What a reload replaces, all of it at once."""

    graphs: HostedGraphs
    tokens: Tokens
    state: RuntimeState
    server_authority: Authority


@dataclass
class Service:
    """The state of a worker; its members are used on the event loop."""

    options: ServeOptions
    configuration: Configuration
    threads: EngineThreads
    admission: Admission
    slots: StreamSlots
    metrics: Metrics
    audit: AuditLog
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
        """Read tokens and policies again, and try quarantined graphs again.

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


def configure(options: ServeOptions, known: HostedGraphs | None = None) -> Configuration:
    """Load tokens and policies, decide the state and open the graphs.

    Raises:
        BadRequest: the server must not start like this.
        CompileError: the policy of the server, or of a graph that is served, has mistakes.
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

    graphs = open_graphs(options.stores, find_authority, options.settings, known)
    for graph_id, reason in graphs.quarantined.items():
        _log.warning("graph quarantined", graph=graph_id, reason=reason)
    if not graphs.served or (graphs.quarantined and options.server.requires_all_graphs):
        listed = "; ".join(f"{id}: {reason}" for id, reason in graphs.quarantined.items())
        what = "every graph is required" if graphs.served else "no graph can be served"
        raise BadRequest(f"{what}, and these cannot be opened: {listed}")
    return Configuration(graphs, tokens, state, server_authority)


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
        Admission(settings.inflight_per_actor, settings.bytes_per_actor),
        StreamSlots(settings.streams),
        metrics,
        AuditLog(settings.audit_file),
    )
    try:
        yield service
    finally:
        service.threads.stop()
        service.audit.close()

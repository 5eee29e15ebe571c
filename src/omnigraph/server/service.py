"""The state of one worker: configuration, limits, logs and metrics shared by its requests."""

from __future__ import annotations

import asyncio
import datetime
import os
from collections.abc import Coroutine, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import structlog

from omnigraph.engine_threads import EngineThreads
from omnigraph.errors import BadRequest, NotAuthenticated, OmniError
from omnigraph.policy import Authority, NoPolicy
from omnigraph.server.hosted_graphs import GraphOpener, HostedGraphs, digest_serving
from omnigraph.server.request_limits import Admission, RequestCap, StreamSlots
from omnigraph.server.server_logs import AuditLog
from omnigraph.server.serving_config import ServeOptions, list_problems
from omnigraph.server.telemetry import Metrics, Tracing, open_tracing
from omnigraph.server.tokens import RuntimeState, Tokens, classify_state, load_tokens

_MAX_ATTEMPTS = 3
"""Attempts to read the definitions if they change while graphs are opened."""

_log = structlog.get_logger("omnigraph.server")


@dataclass(frozen=True, slots=True)
class Configuration:
    """The part of a worker's state that a reload replaces as a whole."""

    graphs: HostedGraphs
    tokens: Tokens
    state: RuntimeState
    server_authority: Authority
    digest: str
    """Digest of the served graphs and policies."""
    fingerprint: str
    """Fingerprint of the definitions it was made from."""

    def is_equal(self, other: Configuration) -> bool:
        """Return whether both serve the same definitions in the same way."""
        return (self.fingerprint, self.digest) == (other.fingerprint, other.digest)


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
    _refused: str | None = None
    """Why the last reload was refused, if it was."""

    @property
    def graphs(self) -> HostedGraphs:
        return self.configuration.graphs

    @property
    def is_open(self) -> bool:
        """True if requests need no token."""
        return self.configuration.state is RuntimeState.OPEN

    def authenticate(self, header: str | None) -> str | None:
        """Return the actor of a request by its `Authorization` header; None on an open server.

        Raises:
            NotAuthenticated: the token is missing or invalid.
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
        """Reload the configuration, and retry quarantined graphs.

        Requests continue meanwhile, and those in progress finish with the configuration they began
        with. An invalid configuration changes nothing.
        """
        self._refused = None  # an explicit reload is always answered in the log
        if await self._replace_configuration():
            self._report_reload()

    async def _replace_configuration(self) -> bool:
        """Replace the configuration; return whether it was replaced, even by an equal one."""
        async with self._reloading:
            before = self.graphs
            try:
                configuration = await self.threads.read(lambda: configure(self.options, before))
            except OmniError as error:
                self._refuse(error)
                return False
            self.configuration, self._refused = configuration, None
        self.metrics.count_graphs(self.graphs)
        for graph_id in sorted(before.served.keys() - self.graphs.served.keys()):
            _log.info("graph no longer served", graph=graph_id)
        return True

    def _report_reload(self) -> None:
        _log.info(
            "reloaded",
            graphs=len(self.graphs.served),
            quarantined=len(self.graphs.quarantined),
            tokens=len(self.configuration.tokens.known),
            revision=self.graphs.revision,
        )

    def _refuse(self, error: OmniError) -> None:
        """Log the reason of a refused reload, unless the last one had the same."""
        reason = "; ".join(list_problems(error))
        if reason != self._refused:
            _log.error("reload refused", reason=reason)
        self._refused = reason

    async def poll_definitions(self) -> None:
        """Reload whenever the definitions have changed, or a graph could not be served."""
        while True:
            await asyncio.sleep(self.options.server.cluster_poll_s)
            try:
                fingerprint = await self.threads.read(self.options.source.find_fingerprint)
            except OmniError as error:
                self._refuse(error)
                continue
            before = self.configuration
            if fingerprint == before.fingerprint and self.graphs.is_current:
                continue
            is_replaced = await self._replace_configuration()
            if is_replaced and not self.configuration.is_equal(before):
                self._report_reload()

    def list_background_tasks(self) -> list[Coroutine[None, None, None]]:
        """Return the background tasks of a worker, which run until they are cancelled."""
        settings, tasks = self.options.server, []
        if settings.metrics_bind is not None:
            tasks.append(self.collect_metrics())
        if self.options.source.is_cluster and settings.cluster_poll_s:
            tasks.append(self.poll_definitions())
        return tasks

    async def collect_metrics(self) -> None:
        """Update periodically the metrics that no request updates."""
        while True:
            try:
                await self.threads.read(lambda: self.metrics.collect(self.graphs))
            except OmniError as error:
                _log.warning("metrics are incomplete", reason=error.message)
            await asyncio.sleep(self.options.server.metrics_interval_s)


def configure(options: ServeOptions, known: HostedGraphs | None = None) -> Configuration:
    """Load tokens, read the definitions, determine the runtime state and open the graphs.

    Raises:
        BadRequest: the server must not start with these options.
        OmniError: the definitions cannot be read, or those of the server or of a graph served so
            far are invalid.
    """
    tokens = load_tokens(options.server)
    for _ in range(_MAX_ATTEMPTS):
        found = _configure_once(options, tokens, known)
        # A definition changed while graphs were opened may be the reason that one could not be.
        if not found.graphs.quarantined or options.source.find_fingerprint() == found.fingerprint:
            break
    _report_unserved(found.graphs, known)
    quarantined = found.graphs.quarantined
    if not found.graphs.served or (quarantined and options.server.requires_all_graphs):
        listed = "; ".join(f"{id}: {reason}" for id, reason in quarantined.items())
        what = "every graph is required" if found.graphs.served else "no graph can be served"
        raise BadRequest(f"{what}, and these cannot be opened: {listed}")
    return found


def _configure_once(
    options: ServeOptions, tokens: Tokens, known: HostedGraphs | None
) -> Configuration:
    definitions = options.source.read()
    state = classify_state(
        has_tokens=bool(tokens),
        has_policy=definitions.has_policy,
        is_unauthenticated=options.server.is_unauthenticated,
    )
    fallback = NoPolicy.OPEN if state is RuntimeState.OPEN else NoPolicy.DEFAULT_DENY
    policy = definitions.load_server_policy()
    server_authority = fallback if policy is None else policy
    opener = GraphOpener(
        options.settings,
        fallback,
        known.served if known else {},
        quarantines_served=options.source.is_cluster,
    )
    revision = definitions.revision
    if revision is None:
        revision = known.revision + 1 if known else 1
    graphs = opener.open(definitions, revision)
    digest = digest_serving(graphs, server_authority)
    return Configuration(graphs, tokens, state, server_authority, digest, definitions.fingerprint)


def _report_unserved(graphs: HostedGraphs, known: HostedGraphs | None) -> None:
    """Log graphs that are not served as defined, unless that was logged before."""
    logged = {**known.quarantined, **known.outdated} if known else {}
    for graph_id, reason in graphs.quarantined.items():
        if logged.get(graph_id) != reason or (known and graph_id in known.served):
            _log.warning("graph quarantined", graph=graph_id, reason=reason)
    for graph_id, reason in graphs.outdated.items():
        if logged.get(graph_id) != reason:
            _log.warning("graph served as before", graph=graph_id, reason=reason)


@contextmanager
def open_service(options: ServeOptions) -> Iterator[Service]:
    """Set up a worker; it is closed at the end of the block."""
    settings = options.server
    configuration = configure(options)
    metrics = Metrics()
    metrics.count_graphs(configuration.graphs)
    service = Service(
        options,
        configuration,
        EngineThreads(settings.read_threads, settings.write_threads),
        RequestCap(settings.max_requests),
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

"""One worker of a server: what all of its requests share."""

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
from omnigraph.server.access import (
    Authority,
    NoPolicy,
    RuntimeState,
    Tokens,
    classify_state,
    load_tokens,
)
from omnigraph.server.hosted_graphs import GraphOpener, HostedGraphs, digest_serving
from omnigraph.server.request_limits import Admission, RequestCap, StreamSlots
from omnigraph.server.server_logs import AuditLog
from omnigraph.server.serving_config import ServeOptions, list_problems
from omnigraph.server.telemetry import Metrics, Tracing, open_tracing

_READINGS = 3
"""So often is read what shall be served, if it changes while graphs are opened."""

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
    mark: str
    """Of the definitions that it was made from."""


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
        """Read again what shall be served, and try quarantined graphs again.

        Requests go on meanwhile, and those under way finish with what they began with. A mistake
        changes nothing.
        """
        self._refused = None  # who asks is told, even the same again
        if await self._replace_configuration():
            self._report_reload()

    async def _replace_configuration(self) -> bool:
        """Whether another configuration is in use now; it may say the same."""
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
        """Say why nothing was changed, and not again as long as it is for the same reason."""
        reason = "; ".join(list_problems(error))
        if reason != self._refused:
            _log.error("reload refused", reason=reason)
        self._refused = reason

    async def keep_watching(self) -> None:
        """Reload whenever something else is to be served, or something could not be served."""
        while True:
            await asyncio.sleep(self.options.server.cluster_poll_s)
            try:
                mark = await self.threads.read(self.options.source.find_mark)
            except OmniError as error:
                self._refuse(error)
                continue
            before = self.configuration
            if mark == before.mark and self.graphs.is_settled:
                continue
            is_replaced = await self._replace_configuration()
            now = self.configuration
            if is_replaced and (now.mark, now.digest) != (before.mark, before.digest):
                self._report_reload()

    def list_chores(self) -> list[Coroutine[None, None, None]]:
        """What goes on beside requests, until it is cancelled."""
        settings, chores = self.options.server, []
        if settings.metrics_bind is not None:
            chores.append(self.keep_measuring())
        if self.options.source.is_cluster and settings.cluster_poll_s:
            chores.append(self.keep_watching())
        return chores

    async def keep_measuring(self) -> None:
        """Measure now and then what no request does."""
        while True:
            try:
                await self.threads.read(lambda: self.metrics.measure(self.graphs))
            except OmniError as error:
                _log.warning("metrics are incomplete", reason=error.message)
            await asyncio.sleep(self.options.server.metrics_interval_s)


def configure(options: ServeOptions, known: HostedGraphs | None = None) -> Configuration:
    """Load tokens, read what shall be served, decide the state and open the graphs.

    Raises:
        BadRequest: the server must not start like this.
        OmniError: what shall be served cannot be told, or what is defined for the server, or for a
            graph that is served already, cannot be used.
    """
    tokens = load_tokens(options.server)
    for _ in range(_READINGS):
        found = _configure_once(options, tokens, known)
        # What was defined anew while graphs were opened may be why one of them could not be.
        if not found.graphs.quarantined or options.source.find_mark() == found.mark:
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
    return Configuration(graphs, tokens, state, server_authority, digest, definitions.mark)


def _report_unserved(graphs: HostedGraphs, known: HostedGraphs | None) -> None:
    """Log what is not served as it was defined, unless that was said before."""
    said = {**known.quarantined, **known.held} if known else {}
    for graph_id, reason in graphs.quarantined.items():
        if said.get(graph_id) != reason or (known and graph_id in known.served):
            _log.warning("graph quarantined", graph=graph_id, reason=reason)
    for graph_id, reason in graphs.held.items():
        if said.get(graph_id) != reason:
            _log.warning("graph served as before", graph=graph_id, reason=reason)


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

"""One request of one actor for one graph, as handlers see it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncGenerator, Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeVar

from omnigraph.errors import (
    DeadlineExceeded,
    OmniError,
    PolicyDenied,
)
from omnigraph.identity import MAIN
from omnigraph.server.access import Action, authorize
from omnigraph.server.admission import ANONYMOUS
from omnigraph.server.asked_request import AskedRequest
from omnigraph.server.hosted_graphs import HostedGraph
from omnigraph.server.read_limits import ClientLeft, QueryLimits
from omnigraph.server.request_log import RequestLog
from omnigraph.wire.http_names import (
    REPLAYED,
)

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph, GraphView
    from omnigraph.graph.results import Commit

T = TypeVar("T")

_SOON_S = 0.02
"""A query that is over sooner does not need its client watched."""


@dataclass(slots=True)
class Call(AskedRequest):
    """What a handler is given."""

    request_id: str
    actor: str | None
    log: RequestLog
    hosted: HostedGraph | None = None
    _noted: PolicyDenied | None = None

    # --- the graph -------------------------------------------------------------------------------

    @property
    def graph(self) -> Graph:
        """The graph, on behalf of the actor and under its policy."""
        assert self.hosted is not None, "only routes of a graph ask for it"
        return self.hosted.guarded.as_actor(self.actor)

    @property
    def unguarded(self) -> Graph:
        """The graph without its policy: to find out what there is to ask the policy about."""
        assert self.hosted is not None, "only routes of a graph ask for it"
        return self.hosted.unguarded

    @property
    def graph_url(self) -> str:
        """The address at which clients find the graph; where it is stored is not shown."""
        assert self.hosted is not None, "only routes of a graph ask for it"
        return f"{self.base_url}/graphs/{self.hosted.id}"

    @property
    def base_url(self) -> str:
        return str(self.request.base_url).rstrip("/")

    def authorize(
        self,
        action: Action,
        branch: str | None = None,
        target: str | None = None,
        *,
        query: str | None = None,
    ) -> None:
        """Go on only if the actor may do this; every decision is logged.

        Raises:
            PolicyDenied: it may not.
        """
        if self.hosted is None:
            authority = self.service.configuration.server_authority
        else:
            authority = self.hosted.authority
        try:
            decision = authorize(
                authority, self.actor, action, branch=branch, target_branch=target, query=query
            )
        except PolicyDenied as denied:
            self.note_denial(denied)
            raise
        self.log.add_decision(
            allowed=True,
            action=str(action),
            branch=branch,
            target_branch=target,
            query=query,
            rule=decision.matched_rule,
        )

    def authorize_snapshot(self, snapshot: str | None, action: Action = Action.READ) -> None:
        """Go on only if the actor may read the branch that a snapshot is of.

        One that does not exist counts as one of `main`: only who may read that is told.

        Raises:
            PolicyDenied: it may not.
            OmniError: there is no such snapshot.
        """
        self._authorize_view(lambda: self.unguarded.at(snapshot=snapshot), action)

    def authorize_place(self, place: str | None, branch: str) -> None:
        """The same for a place, whose versions and times are those of a branch."""
        self._authorize_view(lambda: self.unguarded.at(place, branch=branch), Action.READ)

    def _authorize_view(self, find: Callable[[], GraphView], action: Action) -> None:
        try:
            view = find()
        except OmniError:
            self.authorize(action, MAIN)
            raise
        self.authorize(action, view.view.snapshot.branch)

    def note_denial(self, denied: PolicyDenied) -> None:
        """Leave a trace of a denial, once."""
        if denied is self._noted:
            return
        self._noted = denied
        facts = {
            "action": str(denied.action),
            "branch": denied.branch,
            "target_branch": denied.target_branch,
            "query": denied.query,
            "hidden": list(denied.hidden) or None,
        }
        self.log.add_decision(allowed=False, **facts)
        self.service.metrics.count_denial()
        self.service.audit.record(
            "denied",
            request_id=self.request_id,
            operation=self.route.operation,
            graph=self.hosted.id if self.hosted else None,
            actor=self.actor,
            **facts,
        )

    # --- running the engine ----------------------------------------------------------------------

    async def read(self, work: Callable[[], T]) -> T:
        """The result of work that reads."""
        return await self.service.threads.read(work)

    async def read_limited(self, limits: QueryLimits, work: Callable[[], T]) -> T:
        """The result of a query, unless it takes too long or its client leaves.

        The answer does not wait for the engine to notice; its thread is busy until it does.
        """
        running = self.service.threads.start_read(work)
        limit_s = self.service.options.server.query_timeout_s or None
        soon_s = _SOON_S if limit_s is None else min(_SOON_S, limit_s)
        await asyncio.wait([running], timeout=soon_s)
        if not running.done():
            await self._wait_unless_left(
                running, limits, None if limit_s is None else limit_s - soon_s
            )
        return running.result()

    async def _wait_unless_left(
        self, running: asyncio.Future[T], limits: QueryLimits, limit_s: float | None
    ) -> None:
        leaving = asyncio.ensure_future(self._wait_for_leave())
        try:
            either: set[asyncio.Future[Any]] = {running, leaving}
            await asyncio.wait(either, timeout=limit_s, return_when=asyncio.FIRST_COMPLETED)
            if running.done():
                return
            limits.abandon()
            running.add_done_callback(_ignore_outcome)
            if leaving.done():
                raise ClientLeft
            # The clock of the loop may be a little ahead of that of the limits.
            raise DeadlineExceeded(self.service.options.server.query_timeout_s)
        finally:
            leaving.cancel()

    async def _wait_for_leave(self) -> None:
        while (await self.request.receive())["type"] != "http.disconnect":
            pass

    @contextmanager
    def admit(self, size: int) -> Iterator[None]:
        """Hold a place among the writes of the actor.

        Raises:
            TooManyRequests: it has too many under way.
        """
        metrics, name = self.service.metrics, self.actor or ANONYMOUS
        with self.service.admission.admit(self.actor, size):
            metrics.begin_write(name)
            try:
                yield
            finally:
                metrics.end_write(name)

    async def write(self, work: Callable[[], T]) -> T:
        """The result of work that writes; it is finished even if the client leaves."""
        return await self.service.threads.write(work)

    async def stream(self, first: bytes, rest: Iterator[bytes]) -> AsyncGenerator[bytes, None]:
        """A piece that is there, and then the others as they are made."""
        yield first
        async for piece in self.service.threads.iterate(rest):
            yield piece

    def note_write(self, branch: str) -> None:
        """Leave a trace of a write that makes no commit."""
        self._note("write", branch, None)

    def note_commit(self, commit: Commit | None, branch: str, *, replayed: bool = False) -> None:
        """Leave a trace of a write that was made."""
        if commit is not None and not replayed:
            self.service.metrics.count_commit(self.route.operation)
            self._note("write", branch, commit.commit_id)
        else:
            self.log.add(graph_commit_id=commit.commit_id if commit else None, branch=branch)

    def _note(self, event: str, branch: str, commit_id: str | None) -> None:
        assert self.hosted is not None, "only graphs are written"
        facts = {"branch": branch, "graph_commit_id": commit_id}
        self.log.add(**facts)
        self.service.audit.record(
            event,
            request_id=self.request_id,
            operation=self.route.operation,
            graph=self.hosted.id,
            actor=self.actor,
            **facts,
        )

    def describe_replay(self, *, is_replayed: bool) -> dict[str, str]:
        """The header that tells a repeated write from one that was made now."""
        return {REPLAYED: "true"} if is_replayed else {}


def _ignore_outcome(running: asyncio.Future[T]) -> None:
    """Take note of how an abandoned query ended, so that nobody complains about it."""
    if not running.cancelled():
        running.exception()

"""Limits of a server.

Admission of requests and writes, concurrent streams, and the time, rows and memory of one
query.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from omnigraph.errors import (
    DeadlineExceeded,
    OmniError,
    ResourceLimitExceeded,
    ServerBusy,
    TooManyRequests,
)
from omnigraph.wire.error_bodies import STREAM_SLOTS

if TYPE_CHECKING:
    import pyarrow as pa


ANONYMOUS = "anonymous"
"""The account of requests without an actor."""
RETRY_AFTER_S = 60
BUSY_RETRY_AFTER_S = 1


@dataclass(slots=True)
class RequestCap:
    """How many requests may be in progress, streams included; 0 stands for any number."""

    most: int
    _in_progress: int = 0

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count a request in; on the event loop only.

        Raises:
            ServerBusy: there are too many already.
        """
        if self.most and self._in_progress >= self.most:
            raise ServerBusy(
                f"this server already has {self.most} requests in progress", BUSY_RETRY_AFTER_S
            )
        self._in_progress += 1
        try:
            yield
        finally:
            self._in_progress -= 1


@dataclass(slots=True)
class _Account:
    requests: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Admission:
    """Admits or refuses writes; on the event loop only, so checking and reserving is one step."""

    most_requests: int
    most_bytes: int
    _accounts: dict[str, _Account] = field(default_factory=dict)

    @contextmanager
    def admit(self, actor: str | None, size: int) -> Iterator[None]:
        """Reserve a place for a write of this many bytes.

        Raises:
            TooManyRequests: the actor has too many writes in progress.
        """
        name = ANONYMOUS if actor is None else actor
        account = self._accounts.setdefault(name, _Account())
        if account.requests >= self.most_requests:
            raise TooManyRequests(
                f"this actor already has {self.most_requests} writes in progress", RETRY_AFTER_S
            )
        if account.requests and account.bytes + size > self.most_bytes:
            raise TooManyRequests(
                f"this actor's writes in progress have {account.bytes} bytes; the limit is "
                f"{self.most_bytes}",
                RETRY_AFTER_S,
            )
        account.requests += 1
        account.bytes += size
        try:
            yield
        finally:
            account.requests -= 1
            account.bytes -= size
            if not account.requests:
                self._accounts.pop(name, None)


CHUNK_BYTES = 64 << 10
_WAIT_S = 0.25


@dataclass
class StreamSlots:
    """Slots of exports and baselines. Reading needs no lock, so a graph may have many."""

    most: int
    _free: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.most)

    async def take(self) -> None:
        """Take a slot, waiting a moment for one.

        Raises:
            ResourceLimitExceeded: none got free.
        """
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._free.acquire()
        except TimeoutError:
            raise ResourceLimitExceeded(STREAM_SLOTS, self.most, self.most + 1) from None

    def release(self) -> None:
        self._free.release()


class ClientDisconnected(OmniError):
    """Nobody waits for the answer any more; it is logged and never sent."""

    code = "client_left"
    http_status = 499

    def __init__(self) -> None:
        super().__init__("the client disconnected before the answer")


class QueryLimits:
    """Given to the engine with a query, which asks it between blocks of rows.

    What it raises ends the query. A block that is being made is finished first: native code
    cannot be interrupted.
    """

    def __init__(self, limit_s: float, most_rows: int = 0, most_bytes: int = 0) -> None:
        self._limit_s, self._most_rows, self._most_bytes = limit_s, most_rows, most_bytes
        self._deadline = time.monotonic() + limit_s if limit_s else None
        self._is_abandoned = False
        self._rows, self._bytes = 0, 0

    def abandon(self) -> None:
        """End the query: whoever asked has left."""
        self._is_abandoned = True

    def lift_deadline(self) -> None:
        """Let the rest take as long as the client takes to read it."""
        self._deadline = None

    def check(self) -> None:
        """Raise if the query shall not go on."""
        if self._is_abandoned:
            raise ClientDisconnected
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise DeadlineExceeded(self._limit_s)

    def admit(self, batch: pa.RecordBatch) -> None:
        """Raise if the answer gets too large with this batch."""
        self._rows += batch.num_rows
        if self._most_rows and self._rows > self._most_rows:
            raise ResourceLimitExceeded("query_rows", self._most_rows, self._rows)
        if self._most_bytes:
            self._bytes += batch.nbytes
            if self._bytes > self._most_bytes:
                raise ResourceLimitExceeded("query_result_bytes", self._most_bytes, self._bytes)

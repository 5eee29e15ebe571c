"""Limits of a server: admission of requests, writes and streams, and the resources of one query."""

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
    """Limit on requests in progress, streams included; 0 means no limit."""

    limit: int
    _in_progress: int = 0

    @contextmanager
    def admit(self) -> Iterator[None]:
        """Count a request as in progress; on the event loop only.

        Raises:
            ServerBusy: the limit is reached.
        """
        if self.limit and self._in_progress >= self.limit:
            raise ServerBusy(
                f"this server already has {self.limit} requests in progress", BUSY_RETRY_AFTER_S
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
    """Limits on the writes of one actor; on the event loop only, so check-and-reserve is atomic."""

    max_requests: int
    max_bytes: int
    _accounts: dict[str, _Account] = field(default_factory=dict)

    @contextmanager
    def admit(self, actor: str | None, size: int) -> Iterator[None]:
        """Count a write of `size` bytes as in progress.

        Raises:
            TooManyRequests: the actor has too many writes in progress.
        """
        name = ANONYMOUS if actor is None else actor
        account = self._accounts.setdefault(name, _Account())
        if account.requests >= self.max_requests:
            raise TooManyRequests(
                f"this actor already has {self.max_requests} writes in progress", RETRY_AFTER_S
            )
        if account.requests and account.bytes + size > self.max_bytes:
            raise TooManyRequests(
                f"this actor's writes in progress have {account.bytes} bytes; the limit is "
                f"{self.max_bytes}",
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
    """Limit on concurrent exports and baselines."""

    limit: int
    _free: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.limit)

    async def acquire(self) -> None:
        """Acquire a slot, waiting briefly for one.

        Raises:
            ResourceLimitExceeded: no slot was released in time.
        """
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._free.acquire()
        except TimeoutError:
            raise ResourceLimitExceeded(STREAM_SLOTS, self.limit, self.limit + 1) from None

    def release(self) -> None:
        self._free.release()


class ClientDisconnected(OmniError):
    """The client disconnected; the error is logged and never sent."""

    code = "client_left"
    http_status = 499

    def __init__(self) -> None:
        super().__init__("the client disconnected before the answer")


class QueryLimits:
    """Limits of one query, checked by the engine between blocks of rows.

    An exception it raises ends the query. The current block is completed first: native code
    cannot be interrupted.
    """

    def __init__(self, limit_s: float, max_rows: int = 0, max_bytes: int = 0) -> None:
        self._limit_s, self._max_rows, self._max_bytes = limit_s, max_rows, max_bytes
        self._deadline = time.monotonic() + limit_s if limit_s else None
        self._is_abandoned = False
        self._rows, self._bytes = 0, 0

    def abandon(self) -> None:
        """Cancel the query: its client disconnected."""
        self._is_abandoned = True

    def lift_deadline(self) -> None:
        """Remove the deadline once rows are being streamed at the client's pace."""
        self._deadline = None

    def check(self) -> None:
        """Raise if the query is cancelled or past its deadline."""
        if self._is_abandoned:
            raise ClientDisconnected
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise DeadlineExceeded(self._limit_s)

    def admit(self, batch: pa.RecordBatch) -> None:
        """Count a batch of the result; raise if the result exceeds its limits."""
        self._rows += batch.num_rows
        if self._max_rows and self._rows > self._max_rows:
            raise ResourceLimitExceeded("query_rows", self._max_rows, self._rows)
        if self._max_bytes:
            self._bytes += batch.nbytes
            if self._bytes > self._max_bytes:
                raise ResourceLimitExceeded("query_result_bytes", self._max_bytes, self._bytes)

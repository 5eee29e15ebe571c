"""What a server takes on at once: requests of everybody, and writes of one actor."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from omnigraph.errors import ServerBusy, TooManyRequests

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

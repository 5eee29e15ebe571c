"""How much one actor may have under way: the writes it waits for, and what they weigh."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

from omnigraph.errors import TooManyRequests

ANONYMOUS = "anonymous"
"""The account of everybody who has no name."""
RETRY_AFTER_S = 60


@dataclass(slots=True)
class _Account:
    requests: int = 0
    bytes: int = 0


@dataclass(slots=True)
class Admission:
    """Admits or refuses; used on the event loop only, so checking and reserving is one step."""

    most_requests: int
    most_bytes: int
    _accounts: dict[str, _Account] = field(default_factory=dict)

    @contextmanager
    def admit(self, actor: str | None, size: int) -> Iterator[None]:
        """Hold a place for a write of so many bytes.

        Raises:
            TooManyRequests: the actor has too much under way.
        """
        name = ANONYMOUS if actor is None else actor
        account = self._accounts.setdefault(name, _Account())
        if account.requests >= self.most_requests:
            raise TooManyRequests(
                f"{self.most_requests} writes of this actor are under way", RETRY_AFTER_S
            )
        if account.requests and account.bytes + size > self.most_bytes:
            raise TooManyRequests(
                f"the writes of this actor that are under way have {account.bytes} bytes, and "
                f"{self.most_bytes} are allowed",
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

"""An embedder that does not ask its provider more often than it may."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from omnigraph.execution.embed.embedder import Embedder, TextRole


@dataclass(slots=True)
class PacedEmbedder:
    """Spreads texts evenly: one is never closer to the last than the pace allows."""

    embedder: Embedder
    per_minute: float
    clock: Callable[[], float] = time.monotonic
    pause: Callable[[float], None] = time.sleep
    _next_at: float = field(default=0.0, init=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, init=False)

    @property
    def model(self) -> str:
        return self.embedder.model

    def embed(self, text: str, dimension: int, role: TextRole) -> list[float]:
        with self._lock:
            now = self.clock()
            wait = max(0.0, self._next_at - now)
            self._next_at = now + wait + 60.0 / self.per_minute
        if wait:
            self.pause(wait)
        return self.embedder.embed(text, dimension, role)

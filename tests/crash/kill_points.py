"""Ending a process after an exact durable write."""

from __future__ import annotations

import threading

from omnigraph.storage.fence.lease import RENEWING
from omnigraph.storage.objects.write_observer import KillAfter


class Cut:
    """Ends the process once `after` durable writes were made since it was armed.

    Without a number it only keeps a list of them. Renewals of a lease are no part of it: they come
    when they come.
    """

    def __init__(self, after: int | None) -> None:
        self._kill = None if after is None else KillAfter(after)
        self._lock = threading.Lock()
        self._is_armed = False
        self.writes: list[tuple[str, str]] = []

    def arm(self) -> None:
        self._is_armed = True

    def before(self, action: str, path: str) -> None:
        if self._counts() and self._kill is not None:
            self._kill.before(action, path)

    def after(self, action: str, path: str) -> None:
        if not self._counts():
            return
        with self._lock:
            self.writes.append((action, path))
        if self._kill is not None:
            self._kill.after(action, path)

    def _counts(self) -> bool:
        return self._is_armed and threading.current_thread().name != RENEWING

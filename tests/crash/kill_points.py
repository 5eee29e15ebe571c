"""Ending a process after an exact durable write."""

from __future__ import annotations

import os
import signal
import threading

from omnigraph.storage.lease_fence import RENEWING


class KillAfter:
    """Ends the process, without any clean-up, once `writes` durable writes have taken effect.

    With 0 the process ends before its first one.
    """

    def __init__(self, writes: int) -> None:
        self._left = writes
        self._lock = threading.Lock()

    def before(self, action: str, path: str) -> None:
        with self._lock:
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)

    def after(self, action: str, path: str) -> None:
        with self._lock:
            self._left -= 1
            if self._left <= 0:
                os.kill(os.getpid(), signal.SIGKILL)


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

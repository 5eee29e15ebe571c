"""Ending a request from another thread: the connection it waits on is shut down."""

from __future__ import annotations

import socket
import threading
from contextlib import suppress
from contextvars import ContextVar


class AbortSwitch:
    """Ends the request that is being made in its context, now or as soon as it is sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.is_aborted = False

    def watch(self, connection: socket.socket | None) -> None:
        """Take note of the connection that the request waits on."""
        with self._lock:
            self._socket = connection
            if self.is_aborted:
                self._shut_down()

    def abort(self) -> None:
        """End the request; whoever waits for it is told that the connection was lost."""
        with self._lock:
            self.is_aborted = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


current_switch: ContextVar[AbortSwitch | None] = ContextVar("current_switch", default=None)
"""What ends the requests that are made here, if anything does."""

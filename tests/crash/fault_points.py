"""Fault points: fail, stop or pause at an exact moment of a write."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch
from typing import Any

from omnigraph.storage.objects.object_store import DurableWriteObserver, install_observer

TABLES = "*/[ne][od][dg]es/*"
NODES, EDGES = "*/nodes/*", "*/edges/*"
MANIFEST = "*/__manifest*"
INTENTS = "__recovery/*"
_PATIENCE_S = 600


class Stopped(BaseException):
    """Simulated death of the process."""


def stop() -> None:
    raise Stopped


def fail(error: BaseException) -> Callable[[], None]:
    def raise_it() -> None:
        raise error

    return raise_it


class At:
    """Acts right before or right after matching writes: from the `nth` on, `times` in all."""

    def __init__(
        self,
        moment: str,
        action: str,
        path: str,
        act: Callable[[], object],
        *,
        nth: int = 1,
        times: int = 1,
    ) -> None:
        self._moment, self._action, self._path, self._act = moment, action, path, act
        self._turns = range(nth, nth + times)
        self._lock = threading.Lock()
        self._is_acting = threading.local()
        self.met = 0

    def before(self, action: str, path: str) -> None:
        self._meet("before", action, path)

    def after(self, action: str, path: str) -> None:
        self._meet("after", action, path)

    def _meet(self, moment: str, action: str, path: str) -> None:
        if moment != self._moment or not fnmatch(action, self._action):
            return
        if not fnmatch(path, self._path):
            return
        if getattr(self._is_acting, "now", False):
            return  # a write that the act itself makes
        with self._lock:
            self.met += 1
            is_turn = self.met in self._turns
        if is_turn:
            self._is_acting.now = True
            try:
                self._act()
            finally:
                self._is_acting.now = False


@contextmanager
def watched(observer: DurableWriteObserver) -> Iterator[None]:
    """Notify the observer of every durable write of graphs opened in the block."""
    install_observer(observer)
    try:
        yield
    finally:
        install_observer(None)


class Parked:
    """A thread paused in the middle of its work, and its result."""

    def __init__(self) -> None:
        self._arrived, self._go = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None
        self.result: object = None
        self.error: BaseException | None = None

    def park(self) -> None:
        """Pause the thread at its fault point."""
        self._arrived.set()
        assert self._go.wait(_PATIENCE_S), "the paused thread was never resumed"

    def start(self, work: Callable[[], object]) -> None:
        """Start the work and return once it is parked."""
        self._thread = threading.Thread(target=self._run, args=(work,), daemon=True)
        self._thread.start()
        assert self._arrived.wait(_PATIENCE_S), f"never reached its fault point: {self.error!r}"

    def _run(self, work: Callable[[], object]) -> None:
        try:
            self.result = work()
        except BaseException as error:  # noqa: BLE001 - raised by finish
            self.error = error
            self._arrived.set()

    def finish(self) -> Any:
        """Resume the thread; return its result, or raise its error."""
        self._go.set()
        assert self._thread is not None
        self._thread.join(_PATIENCE_S)
        assert not self._thread.is_alive()
        if self.error is not None:
            raise self.error
        return self.result


@contextmanager
def parked(
    moment: str,
    action: str,
    path: str,
    open_and_work: Callable[[], Callable[[], object]],
    *,
    nth: int = 1,
) -> Iterator[Parked]:
    """Pause a thread at a fault point while the block runs.

    `open_and_work` opens what the thread needs and returns its work, so that only the
    thread is watched.
    """
    thread = Parked()
    with watched(At(moment, action, path, thread.park, nth=nth)):
        work = open_and_work()
        thread.start(work)
        # Native writes are reported to the installed observer: the others must not be notified.
        install_observer(None)
        try:
            yield thread
        finally:
            thread._go.set()

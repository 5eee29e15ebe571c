"""Report the progress of long work to listeners.

    with working("loading", total=rows, unit="rows") as work:
        for batch in batches:
            load(batch)
            work.advance(batch.num_rows)

Without a listener a report costs next to nothing: library code may report as often as it likes.
The command line listens where stderr is a terminal and draws one line there; other programs listen
with `with listening(callback):`. Any thread may report, and tasks may be nested.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One progress report: the task, its amount, and whether it is over."""

    what: str
    done: int
    total: int | None
    unit: str
    is_over: bool = False


Listener = Callable[[Progress], None]

_listeners: list[Listener] = []


class Work:
    """A task in progress; created by `working`."""

    def __init__(self, what: str, total: int | None, unit: str) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0
        self._lock = threading.Lock()

    def advance(self, amount: int = 1) -> None:
        """Add an amount to the work done."""
        with self._lock:
            self.done += amount
        self._report()

    def now(self, what: str) -> None:
        """Report another step of the work, counted on."""
        self.what = what
        self._report()

    def _report(self, *, is_over: bool = False) -> None:
        if _listeners:
            _listeners[-1](Progress(self.what, self.done, self.total, self.unit, is_over))


@contextmanager
def working(what: str, *, total: int | None = None, unit: str = "") -> Iterator[Work]:
    """Report a task from here to the end of the block, however it ends."""
    work = Work(what, total, unit)
    work._report()
    try:
        yield work
    finally:
        work._report(is_over=True)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Report to this listener, and no other, until the end of the block.

    It is called in the working thread, so it should be quick and must not raise.
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)

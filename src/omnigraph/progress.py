"""Report the progress of long work to listeners.

    with working("loading", total=rows, unit="rows") as work:
        for batch in batches:
            load(batch)
            work.advance(batch.num_rows)

Nobody listens by default, and then telling costs next to nothing: library code may tell as often
as it likes. The command line listens where stderr is a terminal and draws one line there; a
program of its own listens with `with listening(callback):`. Work may be told from any thread, and
one work may be inside another.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Progress:
    """One piece of news: what is done, how much of it, and whether that was the end."""

    what: str
    done: int
    total: int | None
    unit: str
    is_over: bool = False


Listener = Callable[[Progress], None]

_listeners: list[Listener] = []


class Work:
    """One piece of work on its way; made by `working`."""

    def __init__(self, what: str, total: int | None, unit: str) -> None:
        self.what, self.total, self.unit = what, total, unit
        self.done = 0
        self._lock = threading.Lock()

    def advance(self, amount: int = 1) -> None:
        """So much more is done."""
        with self._lock:
            self.done += amount
        self._tell()

    def now(self, what: str) -> None:
        """The work is at another step, counted on."""
        self.what = what
        self._tell()

    def _tell(self, *, is_over: bool = False) -> None:
        if _listeners:
            _listeners[-1](Progress(self.what, self.done, self.total, self.unit, is_over))


@contextmanager
def working(what: str, *, total: int | None = None, unit: str = "") -> Iterator[Work]:
    """Work that is told from here to the end of the block, however it ends."""
    work = Work(what, total, unit)
    work._tell()
    try:
        yield work
    finally:
        work._tell(is_over=True)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Tell this listener, and no other, until the end of the block.

    It is called in the thread that works, so it should be quick and must not raise.
    """
    _listeners.append(listener)
    try:
        yield
    finally:
        _listeners.remove(listener)

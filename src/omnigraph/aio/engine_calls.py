"""Calls of the engine from an event loop: each in a thread, and ended when nobody waits for it."""

from __future__ import annotations

import asyncio
import contextvars
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import aclosing
from typing import TYPE_CHECKING, TypeVar

from omnigraph.engine_threads import AbortSwitch, EngineThreads, current_switch

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

READERS, WRITERS = 16, 8


class Abandoned(Exception):
    """Nobody waits for a query any more; nobody sees this either."""


class CancelledReads:
    """Limits of a query that end it when its switch is thrown."""

    def __init__(self, switch: AbortSwitch) -> None:
        self._switch = switch

    def check(self) -> None:
        """Called by the engine before every block of rows."""
        if self._switch.is_aborted:
            raise Abandoned

    def admit(self, batch: pa.RecordBatch) -> None:
        """Called by the engine with every batch of the result; any size is allowed."""


class EngineCalls:
    """The threads of one handle."""

    def __init__(self) -> None:
        self._threads = EngineThreads(READERS, WRITERS)

    async def read(self, work: Callable[[], T], switch: AbortSwitch | None = None) -> T:
        """The result of work that reads; it is ended when the task is cancelled."""
        chosen = switch or AbortSwitch()
        context = contextvars.copy_context()
        context.run(current_switch.set, chosen)
        try:
            return await self._threads.read(lambda: context.run(work))
        except asyncio.CancelledError:
            chosen.abort()
            raise

    async def write(self, work: Callable[[], T]) -> T:
        """The result of work that writes; it is finished even if the task is cancelled."""
        return await self._threads.write(work)

    async def iterate(
        self, start: Callable[[], Iterator[T]], switch: AbortSwitch | None = None
    ) -> AsyncIterator[T]:
        """What an iterator gives, each piece made in a thread; ended when nobody goes on."""
        chosen = switch or AbortSwitch()
        pieces = await self.read(start, chosen)
        try:
            async with aclosing(self._threads.iterate(pieces)) as made:  # type: ignore[type-var]
                async for piece in made:
                    yield piece
        finally:
            chosen.abort()

    def stop(self) -> None:
        """Begin nothing more."""
        self._threads.stop()

"""Threads that the engine runs in beside an event loop, and the switch that aborts their work.

Reads and writes have threads of their own: a writer that waits for the fence blocks no reader.
A stream occupies a thread only while its next block is computed, so a client that reads slowly
holds none.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import aclosing, suppress
from contextvars import ContextVar, copy_context
from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    import pyarrow as pa

T = TypeVar("T")

_END = object()


class EngineThreads:
    """Threads for reads, and threads for writes."""

    def __init__(self, readers: int, writers: int) -> None:
        self._readers = ThreadPoolExecutor(readers, "omnigraph-read")
        self._writers = ThreadPoolExecutor(writers, "omnigraph-write")

    def start_read(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return _start(self._readers, work)

    async def read(self, work: Callable[[], T]) -> T:
        return await self.start_read(work)

    async def write(self, work: Callable[[], T]) -> T:
        """Run a write; it continues if the awaiting request is cancelled."""
        return await asyncio.shield(_start(self._writers, work))

    async def iterate(self, pieces: Iterator[T]) -> AsyncIterator[T]:
        """Iterate in reader threads, one item at a time."""
        try:
            while True:
                piece = await self.start_read(lambda: next(pieces, _END))
                if piece is _END:
                    return
                yield piece  # type: ignore[misc]
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                with suppress(ValueError):  # the engine is still computing an item, its last
                    close()

    def finish_writes(self) -> None:
        """Wait until every write has completed."""
        self._writers.shutdown(wait=True)

    def stop(self) -> None:
        """Start nothing more."""
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._writers.shutdown(wait=False)


def _start(threads: ThreadPoolExecutor, work: Callable[[], T]) -> asyncio.Future[T]:
    """Run work in a thread, starting once the loop is idle.

    A thread that starts at once competes for the interpreter with a loop that is still busy with
    the same request: both get slower.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[T] = loop.create_future()

    def run() -> None:
        with suppress(RuntimeError):  # the loop is closed
            try:
                result = work()
            except BaseException as error:  # noqa: BLE001 - raised in the awaiting task
                loop.call_soon_threadsafe(_set_failure, outcome, error)
            else:
                loop.call_soon_threadsafe(_set_result, outcome, result)

    def begin() -> None:
        if outcome.cancelled():
            return
        try:
            threads.submit(run)
        except RuntimeError as error:  # they were stopped
            outcome.set_exception(error)

    loop.call_soon(begin)
    return outcome


def _set_result(outcome: asyncio.Future[T], result: T) -> None:
    if not outcome.done():
        outcome.set_result(result)


def _set_failure(outcome: asyncio.Future[T], error: BaseException) -> None:
    if not outcome.done():
        outcome.set_exception(error)


class AbortSwitch:
    """Aborts the request of its context, now or as soon as it is sent."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._socket: socket.socket | None = None
        self.is_aborted = False

    def watch(self, connection: socket.socket | None) -> None:
        """Record the connection that the request waits on."""
        with self._lock:
            self._socket = connection
            if self.is_aborted:
                self._shut_down()

    def abort(self) -> None:
        """Abort the request; its caller gets a connection error."""
        with self._lock:
            self.is_aborted = True
            self._shut_down()

    def _shut_down(self) -> None:
        if self._socket is not None:
            with suppress(OSError):
                self._socket.shutdown(socket.SHUT_RDWR)


current_switch: ContextVar[AbortSwitch | None] = ContextVar("current_switch", default=None)
"""The switch that aborts requests of the current context, if there is one."""


# --- calls of one handle --------------------------------------------------------------------------

READERS, WRITERS = 16, 8


class Abandoned(Exception):
    """The caller of a query was cancelled; no caller receives this."""


class CancelledReads:
    """Limits of a query that end it when its switch is thrown."""

    def __init__(self, switch: AbortSwitch) -> None:
        self._switch = switch

    def check(self) -> None:
        """Raise before a block of rows if the switch was thrown."""
        if self._switch.is_aborted:
            raise Abandoned

    def admit(self, batch: pa.RecordBatch) -> None:
        """Accept a batch of the result; any size is allowed."""


class EngineCalls:
    """Calls from an event loop, in the threads of one handle; a cancelled one is ended."""

    def __init__(self) -> None:
        self._threads = EngineThreads(READERS, WRITERS)

    async def read(self, work: Callable[[], T], switch: AbortSwitch | None = None) -> T:
        """Return the result of a read, which is ended when the task is cancelled."""
        chosen = switch or AbortSwitch()
        context = copy_context()
        context.run(current_switch.set, chosen)
        try:
            return await self._threads.read(lambda: context.run(work))
        except asyncio.CancelledError:
            chosen.abort()
            raise

    async def write(self, work: Callable[[], T]) -> T:
        """Return the result of a write, which is finished even if the task is cancelled."""
        return await self._threads.write(work)

    async def iterate(
        self, start: Callable[[], Iterator[T]], switch: AbortSwitch | None = None
    ) -> AsyncIterator[T]:
        """Iterate in reader threads, one item at a time; end the work with the iteration."""
        chosen = switch or AbortSwitch()
        pieces = await self.read(start, chosen)
        try:
            async with aclosing(self._threads.iterate(pieces)) as made:  # type: ignore[type-var]
                async for piece in made:
                    yield piece
        finally:
            chosen.abort()

    def stop(self) -> None:
        """Start nothing more."""
        self._threads.stop()

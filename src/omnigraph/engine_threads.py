"""Where the engine runs: in threads, so that it never holds up the event loop.

Reads and writes have threads of their own: a writer that waits for the fence keeps no reader
waiting. A stream takes a thread only while its next piece is made, so a client that reads slowly
holds none.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import TypeVar

T = TypeVar("T")

_END = object()


class EngineThreads:
    """Threads for reads, and threads for writes."""

    def __init__(self, readers: int, writers: int) -> None:
        self._readers = ThreadPoolExecutor(readers, "omnigraph-read")
        self._writers = ThreadPoolExecutor(writers, "omnigraph-write")

    def start_read(self, work: Callable[[], T]) -> asyncio.Future[T]:
        return asyncio.get_running_loop().run_in_executor(self._readers, work)

    async def read(self, work: Callable[[], T]) -> T:
        return await self.start_read(work)

    async def write(self, work: Callable[[], T]) -> T:
        """The result of a write; it goes on if the request that asked for it is given up."""
        return await asyncio.shield(asyncio.get_running_loop().run_in_executor(self._writers, work))

    async def iterate(self, pieces: Iterator[T]) -> AsyncIterator[T]:
        """The pieces, each made in a thread of the readers."""
        try:
            while True:
                piece = await self.start_read(lambda: next(pieces, _END))
                if piece is _END:
                    return
                yield piece  # type: ignore[misc]
        finally:
            close = getattr(pieces, "close", None)
            if close is not None:
                with suppress(ValueError):  # the engine is still making a piece: it ends with that
                    close()

    def finish_writes(self) -> None:
        """Wait until every write is over."""
        self._writers.shutdown(wait=True)

    def stop(self) -> None:
        """Begin nothing more."""
        self._readers.shutdown(wait=False, cancel_futures=True)
        self._writers.shutdown(wait=False)

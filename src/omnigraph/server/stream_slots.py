"""How many long answers are sent at once."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass, field

from omnigraph.errors import ResourceLimitExceeded
from omnigraph.wire.error_body import STREAM_SLOTS

CHUNK_BYTES = 64 << 10
_WAIT_S = 0.25


@dataclass
class StreamSlots:
    """Slots of exports and baselines. Reading needs no lock, so a graph may have many."""

    most: int
    _free: asyncio.Semaphore = field(init=False)

    def __post_init__(self) -> None:
        self._free = asyncio.Semaphore(self.most)

    async def take(self) -> None:
        """Take a slot, waiting a moment for one.

        Raises:
            ResourceLimitExceeded: none got free.
        """
        try:
            async with asyncio.timeout(_WAIT_S):
                await self._free.acquire()
        except TimeoutError:
            raise ResourceLimitExceeded(STREAM_SLOTS, self.most, self.most + 1) from None

    def release(self) -> None:
        self._free.release()

"""What makes reads warm: numberings, adjacencies, columns and searched columns, bounded in bytes.

Everything in it is a pure function of one physical version of some tables, so entries are never
wrong, only old; snapshots and branches that show the same table version share them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from typing import Protocol, TypeVar

from omnigraph.cache import Cache
from omnigraph.execution.search.search_memory import SearchMemory
from omnigraph.storage.tables import Table, TableLocation, open_table

DEFAULT_LIMIT_BYTES = 1 << 30
_OPEN_TABLES = 512
_REMEMBERED_COSTS = 4096
_LARGEST_SHARE = 4
"""An entry larger than this fraction of the whole would push out everything else."""


class Cached(Protocol):
    @property
    def nbytes(self) -> int: ...


CachedT = TypeVar("CachedT", bound=Cached)
Key = tuple[Hashable, ...]


class Topology:
    """What the reads of one graph handle share; safe to share between threads."""

    def __init__(
        self, limit_bytes: int = DEFAULT_LIMIT_BYTES, search: SearchMemory | None = None
    ) -> None:
        self.search = SearchMemory() if search is None else search
        self._entries: Cache[Key, Cached] = Cache(
            limit_bytes, lambda entry: entry.nbytes, largest=limit_bytes // _LARGEST_SHARE
        )
        self._tables: Cache[tuple[TableLocation, int], Table] = Cache(_OPEN_TABLES)
        self._spent: Cache[Key, float] = Cache(_REMEMBERED_COSTS)

    @property
    def size_bytes(self) -> int:
        return self._entries.size

    @property
    def largest_entry_bytes(self) -> int:
        """Larger values are handed out but not kept."""
        return self._entries.largest

    def holds(self, key: Key) -> bool:
        return self._entries.holds(key)

    def find(self, key: Key) -> Cached | None:
        return self._entries.find(key)

    def get(self, key: Key, build: Callable[[], CachedT]) -> CachedT:
        """The entry of that key, built on the spot if it is not there.

        The same key must always be asked for with the same kind of value.
        """
        return self._entries.value(key, build)  # type: ignore[return-value]  # the key fixes it

    def table(self, location: TableLocation, version: int) -> Table:
        """The table at this version, opened once."""
        return self._tables.value((location, version), partial(open_table, location, version))

    def find_spent(self, key: Key) -> float:
        """What was spent so far for want of an entry, in the unit of the caller."""
        return self._spent.find(key) or 0.0

    def spend(self, key: Key, cost: float) -> None:
        self._spent.keep(key, self.find_spent(key) + cost)

    def clear(self) -> None:
        for cache in (self._entries, self._tables, self._spent):
            cache.clear()
        self.search.clear()

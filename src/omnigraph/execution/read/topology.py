"""The cache that makes reads warm: numberings, adjacencies and columns, bounded in bytes.

Everything in it is a pure function of one physical version of some tables, so entries are never
wrong, only old; snapshots and branches that show the same table version share them.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Protocol, TypeVar

from omnigraph.storage.tables.handle import Table, open_table
from omnigraph.storage.tables.location import TableLocation

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
    """Least recently used entries go first; safe to share between threads.

    An entry that is being built blocks only those who ask for the same one.
    """

    def __init__(self, limit_bytes: int = DEFAULT_LIMIT_BYTES) -> None:
        self.limit_bytes = limit_bytes
        self._lock = threading.Lock()
        self._entries: OrderedDict[Key, Cached] = OrderedDict()
        self._building: dict[Key, threading.Lock] = {}
        self._tables: OrderedDict[tuple[TableLocation, int], Table] = OrderedDict()
        self._spent: OrderedDict[Key, float] = OrderedDict()
        self._size = 0

    @property
    def size_bytes(self) -> int:
        return self._size

    @property
    def largest_entry_bytes(self) -> int:
        """Larger values are handed out but not kept."""
        return self.limit_bytes // _LARGEST_SHARE

    def holds(self, key: Key) -> bool:
        with self._lock:
            return key in self._entries

    def find(self, key: Key) -> Cached | None:
        with self._lock:
            entry = self._entries.get(key)
            if entry is not None:
                self._entries.move_to_end(key)
            return entry

    def get(self, key: Key, build: Callable[[], CachedT]) -> CachedT:
        """The entry of that key, built on the spot if it is not there.

        The same key must always be asked for with the same kind of value.
        """
        found = self.find(key)
        if found is None:
            with self._lock:
                building = self._building.setdefault(key, threading.Lock())
            with building:
                found = self.find(key)
                if found is None:
                    found = self._build(key, build)
        return found  # type: ignore[return-value]  # the key fixes the kind of value

    def _build(self, key: Key, build: Callable[[], CachedT]) -> CachedT:
        try:
            entry = build()
            self._keep(key, entry)
        finally:
            with self._lock:
                self._building.pop(key, None)
        return entry

    def _keep(self, key: Key, entry: Cached) -> None:
        with self._lock:
            replaced = self._entries.pop(key, None)
            self._size -= replaced.nbytes if replaced is not None else 0
            if entry.nbytes > self.largest_entry_bytes:
                return
            self._entries[key] = entry
            self._size += entry.nbytes
            while self._size > self.limit_bytes:
                _, oldest = self._entries.popitem(last=False)
                self._size -= oldest.nbytes

    def table(self, location: TableLocation, version: int) -> Table:
        """The table at this version, opened once."""
        key = (location, version)
        with self._lock:
            found = self._tables.get(key)
            if found is not None:
                self._tables.move_to_end(key)
                return found
        opened = open_table(location, version)
        with self._lock:
            self._tables[key] = opened
            if len(self._tables) > _OPEN_TABLES:
                self._tables.popitem(last=False)
        return opened

    def spent(self, key: Key) -> float:
        """What was spent so far for want of an entry, in the unit of the caller."""
        with self._lock:
            return self._spent.get(key, 0.0)

    def spend(self, key: Key, cost: float) -> None:
        with self._lock:
            self._spent[key] = self._spent.get(key, 0.0) + cost
            self._spent.move_to_end(key)
            if len(self._spent) > _REMEMBERED_COSTS:
                self._spent.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._entries.clear()
            self._tables.clear()
            self._spent.clear()
            self._size = 0

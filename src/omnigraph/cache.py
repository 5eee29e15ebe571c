"""A cache of immutable values with a size limit, least recently used first out."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import TYPE_CHECKING, Generic, TypeVar

if TYPE_CHECKING:
    from concurrent.futures import Future

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class Cache(Generic[K, V]):
    """Values by key, the least recently used evicted first. Safe to share between threads.

    The limit is in whatever `size_of` measures: bytes, or values if it is not given. Two threads
    that need one value compute it once; threads that need another do not wait. A value larger than
    `largest` is returned and not cached.
    """

    def __init__(
        self,
        limit: int,
        size_of: Callable[[V], int] = lambda _: 1,
        *,
        largest: int | None = None,
    ) -> None:
        self._limit, self._largest = limit, largest
        self._size_of = size_of
        self._lock = threading.Lock()
        self._values: OrderedDict[K, V] = OrderedDict()
        self._pending: dict[K, Future[V]] = {}
        self._size = 0

    @property
    def size(self) -> int:
        return self._size

    @property
    def limit(self) -> int:
        return self._limit

    @property
    def largest(self) -> int:
        return self._limit if self._largest is None else self._largest

    def holds(self, key: K) -> bool:
        with self._lock:
            return key in self._values

    def find(self, key: K) -> V | None:
        """Return the cached value of a key, or None."""
        with self._lock:
            value = self._values.get(key)
            if value is not None:
                self._values.move_to_end(key)
            return value

    def value(self, key: K, make: Callable[[], V]) -> V:
        """Return the value of a key; on a miss compute and store it."""
        with self._lock:
            if key in self._values:
                self._values.move_to_end(key)
                return self._values[key]
            from concurrent.futures import Future  # noqa: PLC0415 - checking texts makes nothing

            running = self._pending.get(key)
            future = self._pending.setdefault(key, Future())
        if running is not None:
            return running.result()
        return self._compute(key, make, future)

    def keep(self, key: K, value: V) -> None:
        """Set the value of a key, replacing any other."""
        with self._lock:
            self._store(key, value)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self._size = 0

    def _compute(self, key: K, make: Callable[[], V], future: Future[V]) -> V:
        try:
            value = make()
        except BaseException as error:
            with self._lock:
                del self._pending[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._pending[key]
            self._store(key, value)
        future.set_result(value)
        return value

    def _store(self, key: K, value: V) -> None:
        if key in self._values:
            self._size -= self._size_of(self._values.pop(key))
        size = self._size_of(value)
        if size > self.largest:
            return
        self._values[key] = value
        self._size += size
        self._evict()

    def _evict(self) -> None:
        while self._size > self._limit:
            _, dropped = self._values.popitem(last=False)
            self._size -= self._size_of(dropped)

"""What is costly to make and never changes, kept while there is room for it."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from concurrent.futures import Future
from typing import Generic, TypeVar

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class BoundedCache(Generic[K, V]):
    """Values by key, the least recently used dropped first. Safe to share between threads.

    Two threads that want one value make it once. A value that is larger than everything allowed
    is handed out and not kept.
    """

    def __init__(self, most_bytes: int, size_of: Callable[[V], int]) -> None:
        self._most_bytes = most_bytes
        self._size_of = size_of
        self._lock = threading.Lock()
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._making: dict[K, Future[V]] = {}
        self._bytes = 0

    @property
    def size_bytes(self) -> int:
        return self._bytes

    @property
    def most_bytes(self) -> int:
        return self._most_bytes

    def holds(self, key: K) -> bool:
        with self._lock:
            return key in self._kept

    def value(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made now if it is not at hand."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            running = self._making.get(key)
            future = self._making.setdefault(key, Future())
        if running is not None:
            return running.result()
        return self._make(key, make, future)

    def limit(self, most_bytes: int) -> None:
        """Allow so many bytes from now on."""
        with self._lock:
            self._most_bytes = most_bytes
            self._make_room()

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._bytes = 0

    def _make(self, key: K, make: Callable[[], V], future: Future[V]) -> V:
        try:
            value = make()
        except BaseException as error:
            with self._lock:
                del self._making[key]
            future.set_exception(error)
            raise
        with self._lock:
            del self._making[key]
            self._keep(key, value)
        future.set_result(value)
        return value

    def _keep(self, key: K, value: V) -> None:
        size = self._size_of(value)
        if size > self._most_bytes:
            return
        self._kept[key] = value
        self._bytes += size
        self._make_room()

    def _make_room(self) -> None:
        while self._bytes > self._most_bytes:
            _, dropped = self._kept.popitem(last=False)
            self._bytes -= self._size_of(dropped)

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
    """Values by key, the least recently used dropped first. Safe to share between threads.

    The limit is in whatever `size_of` measures: bytes, or values if it is not given. Two threads
    that want one value make it once, and those that want another do not wait. A value larger than
    `largest` is handed out and not kept.
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
        self._kept: OrderedDict[K, V] = OrderedDict()
        self._making: dict[K, Future[V]] = {}
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
            return key in self._kept

    def find(self, key: K) -> V | None:
        """The value of a key, if it is at hand."""
        with self._lock:
            value = self._kept.get(key)
            if value is not None:
                self._kept.move_to_end(key)
            return value

    def value(self, key: K, make: Callable[[], V]) -> V:
        """The value of a key, made now if it is not at hand."""
        with self._lock:
            if key in self._kept:
                self._kept.move_to_end(key)
                return self._kept[key]
            from concurrent.futures import Future  # noqa: PLC0415 - checking texts makes nothing

            running = self._making.get(key)
            future = self._making.setdefault(key, Future())
        if running is not None:
            return running.result()
        return self._make(key, make, future)

    def keep(self, key: K, value: V) -> None:
        """Make this the value of the key, whatever it was."""
        with self._lock:
            self._keep(key, value)

    def clear(self) -> None:
        with self._lock:
            self._kept.clear()
            self._size = 0

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
        if key in self._kept:
            self._size -= self._size_of(self._kept.pop(key))
        size = self._size_of(value)
        if size > self.largest:
            return
        self._kept[key] = value
        self._size += size
        self._make_room()

    def _make_room(self) -> None:
        while self._size > self._limit:
            _, dropped = self._kept.popitem(last=False)
            self._size -= self._size_of(dropped)

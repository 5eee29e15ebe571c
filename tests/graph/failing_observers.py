"""Observers that make chosen durable writes of this process fail."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from fnmatch import fnmatch

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.storage.objects.object_store import install_observer


class Trouble:
    """Fails before or after the writes whose action and path match, and remembers all writes.

    `instead` runs in place of the failure, for tests that damage something at that moment.
    """

    def __init__(
        self,
        moment: str,
        action: str,
        path: str = "*",
        *,
        times: int = 1,
        instead: Callable[[], None] | None = None,
    ) -> None:
        self._moment, self._action, self._path = moment, action, path
        self._left, self._instead = times, instead
        self._is_busy = False
        self.seen: list[tuple[str, str]] = []

    @property
    def is_over(self) -> bool:
        """Return whether every planned failure has occurred."""
        return not self._left

    def before(self, action: str, path: str) -> None:
        self._meet("before", action, path)

    def after(self, action: str, path: str) -> None:
        self.seen.append((action, path))
        self._meet("after", action, path)

    def _meet(self, moment: str, action: str, path: str) -> None:
        matches = fnmatch(action, self._action) and fnmatch(path, self._path)
        if moment != self._moment or not matches or not self._left or self._is_busy:
            return
        self._left -= 1
        if self._instead is None:
            raise StorageFailure(StorageKind.TRANSIENT, f"trouble {moment} {action} {path}")
        self._is_busy = True  # nested failures are not counted
        try:
            self._instead()
        finally:
            self._is_busy = False


@contextmanager
def observed(observer: Trouble) -> Iterator[Trouble]:
    """Stores opened inside the block report to the observer."""
    install_observer(observer)
    try:
        yield observer
    finally:
        install_observer(None)

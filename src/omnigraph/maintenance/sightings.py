"""When something that nothing refers to was first seen.

A file without a reference may belong to a writer that is still preparing. Its age cannot be told
everywhere, and clocks of stores and writers differ. So whatever is found is noted with our own
time, and removed by a later cleanup, once it has been there without a reference for long enough.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable

from omnigraph.errors import ManifestCorrupt
from omnigraph.storage.layout import SIGHTINGS
from omnigraph.storage.objects.store import ObjectStore

_FORMAT = 1


class Sightings:
    """What earlier cleanups noted, and what this one sees.

    To be made under the fence: whoever writes after that finds out there whether it took longer
    than the grace.
    """

    def __init__(self, store: ObjectStore, clock_us: Callable[[], int], grace_s: float) -> None:
        self._store, self._clock_us = store, clock_us
        self.limit_us = clock_us() - int(grace_s * 1_000_000)
        """What came later than this may belong to somebody who is at work."""
        self._before = _read(store)
        self._after: dict[str, int] = {}

    def spare(self, since_us: int) -> None:
        """Leave alone what came at this time or later."""
        self.limit_us = min(self.limit_us, since_us - 1)

    def due(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths that were seen before, long enough ago; all are noted."""
        seen = {path: self._note(path) for path in paths}
        return [path for path, at in seen.items() if at is not None and at <= self.limit_us]

    def is_unchanged_for(self, path: str, seconds: float) -> bool:
        """Whether this was seen before, so long ago; it is noted."""
        at = self._note(path)
        return at is not None and at <= self._clock_us() - int(seconds * 1_000_000)

    def _note(self, path: str) -> int | None:
        """When an earlier cleanup first saw it."""
        first = self._before.get(path)
        # The time is asked after the look: what was found had been there before.
        self._after[path] = self._clock_us() if first is None else first
        return first

    def forget(self, paths: Iterable[str]) -> None:
        """These are gone now."""
        for path in paths:
            self._after.pop(path, None)

    def keep(self, prefix: str) -> None:
        """Remember what was noted below a place that could not be looked at this time."""
        self._after |= {p: at for p, at in self._before.items() if p.startswith(prefix)}

    def save(self) -> None:
        """Leave the notes for the next cleanup."""
        if self._after == self._before:
            return
        if not self._after:
            self._store.delete(SIGHTINGS)
            return
        body = {"version": _FORMAT, "first_seen": dict(sorted(self._after.items()))}
        self._store.put(SIGHTINGS, json.dumps(body, indent=1).encode())


def _read(store: ObjectStore) -> dict[str, int]:
    data = store.find(SIGHTINGS)
    if data is None:
        return {}
    try:
        body = json.loads(data)
        if body["version"] != _FORMAT:
            raise ManifestCorrupt(f"{SIGHTINGS} has format {body['version']}, not {_FORMAT}")
        return {str(path): int(at) for path, at in body["first_seen"].items()}
    except (ValueError, KeyError, TypeError, AttributeError):
        return {}  # it only delays what it would have allowed

"""When something that nothing refers to was first seen.

A file without a reference may belong to a writer that is still preparing. Its age cannot be told
everywhere, and clocks of stores and writers differ. So whatever is found is noted with our own
time, and removed by a later cleanup, once it has been there without a reference for long enough.
"""

from __future__ import annotations

import json
from collections.abc import Iterable

from omnigraph.errors import ManifestCorrupt
from omnigraph.storage.layout import SIGHTINGS
from omnigraph.storage.objects.store import ObjectStore

_FORMAT = 1


class Sightings:
    """What earlier cleanups noted, and what this one sees."""

    def __init__(self, store: ObjectStore, now_us: int, grace_s: float) -> None:
        self._store, self._now_us = store, now_us
        self._limit_us = now_us - int(grace_s * 1_000_000)
        self._before = _read(store)
        self._after: dict[str, int] = {}

    def due(self, paths: Iterable[str]) -> list[str]:
        """Those of the paths that were seen before, long enough ago; all are noted."""
        due = []
        for path in paths:
            first = self._before.get(path)
            self._after[path] = self._now_us if first is None else first
            if first is not None and first <= self._limit_us:
                due.append(path)
        return due

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

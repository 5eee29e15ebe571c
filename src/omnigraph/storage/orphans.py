"""Orphans: candidates found by cleanup, temporary files, and versions about to be removed."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import (
    BranchNotFound,
    ConflictError,
    HistoricalVersionReclaimed,
    ManifestCorrupt,
    OmniError,
    StorageFailure,
)
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import LOCAL_HIDDEN_PREFIX, ORPHAN_CANDIDATES
from omnigraph.storage.manifest.manifest_reader import read_manifest
from omnigraph.storage.objects.object_store import (
    ObjectStore,
    StoreKind,
    report_write,
    translate_os_errors,
)
from omnigraph.storage.sealed_records import SEAL, is_sealed, seal
from omnigraph.storage.tables.file_probes import is_lance_branch, is_version_path
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.remove_versions import list_versions
from omnigraph.storage.tables.table import open_table

_RESIDUE = re.compile(
    re.escape(LOCAL_HIDDEN_PREFIX) + r"tmp-.+"  # a control object
    r"|\.tmp.+"  # a file of a table
    r"|.+\.json\.tmp\..+"  # a reference of a table
    r"|.+#\d+"  # a file of a table that was being renamed
)


@dataclass(frozen=True, slots=True)
class TemporaryFile:
    """A file that a killed process left."""

    path: str
    """Relative to the root of the graph."""
    size_bytes: int


def find_temporary_files(store: ObjectStore) -> list[TemporaryFile]:
    """The half-written files that are there now; none but on a local disk."""
    if store.kind is not StoreKind.LOCAL:
        return []
    root = Path(store.uri)
    with translate_os_errors("list", str(root)):
        return [
            TemporaryFile(path.relative_to(root).as_posix(), size)
            for path, size in _walk_temporary_files(root)
        ]


def remove_temporary_files(store: ObjectStore, found: list[TemporaryFile]) -> int:
    """Delete these files; gives their bytes."""
    root, freed = Path(store.uri), 0
    for one in found:
        place = root / one.path
        with translate_os_errors("delete", str(place)), report_write("delete_file", str(place)):
            place.unlink(missing_ok=True)
        freed += one.size_bytes
    return freed


def _walk_temporary_files(root: Path) -> Iterator[tuple[Path, int]]:
    for folder, _, names in os.walk(root):
        for name in filter(_RESIDUE.fullmatch, names):
            path = Path(folder) / name
            with suppress(FileNotFoundError):
                size = path.stat().st_size
                if path.is_file():
                    yield path, size


_FORMAT = 2
_TRIES = 16
"""So often a cleanup writes its list while others write theirs."""
_MALFORMED = (
    ValueError,
    KeyError,
    TypeError,
    AttributeError,
    OverflowError,
    RecursionError,
)
"""What reading a list raises that is not one."""


@dataclass(frozen=True, slots=True)
class OrphanCandidate:
    """The time an orphan was first seen, and the heartbeats present then.

    A note is the path of a heartbeat, or of the manifest version that was the newest.
    """

    at_us: int
    notes: frozenset[str] = frozenset()


class OrphanCandidates:
    """Orphan candidates of earlier cleanups and of this one. To be created under the fence."""

    def __init__(
        self,
        store: ObjectStore,
        clock_us: Callable[[], int],
        grace_s: float,
        live_notes: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """Read what earlier cleanups noted.

        Args:
            store: The store of the candidates.
            clock_us: The time, in microseconds.
            grace_s: The time a writer without a heartbeat is given to prepare.
            live_notes: The heartbeats of the writes in progress.
        """
        self._store, self._clock_us, self._live_notes = store, clock_us, live_notes
        self._grace_us = int(grace_s * 1_000_000)
        self._before = _read(store)
        self._after: dict[str, OrphanCandidate] = {}
        self._announced: set[str] = set()

    def due(self, paths: Iterable[str], beside: Collection[str] = ()) -> list[str]:
        """Those of the paths that may go now; all are noted.

        Call it after listing: whoever wrote what was found had started a heartbeat before, and if
        that is gone by now, so is the writer. `beside` is what else retains what is first seen now,
        for as long as it is given.
        """
        live_notes = self._live_notes().union(beside)
        return [path for path in paths if self._is_due(path, self._grace_us, live_notes)]

    def is_unchanged_for(self, path: str, seconds: float) -> bool:
        """Return whether this was first seen at least so long ago; record it otherwise."""
        return self._is_due(path, int(seconds * 1_000_000), frozenset())

    def _is_due(self, path: str, wait_us: int, live_notes: frozenset[str]) -> bool:
        now, first = self._clock_us(), self._before.get(path)
        if first is None:
            self._after[path] = OrphanCandidate(now, live_notes)
            return False
        if first.at_us > now:
            # A clock was ahead, then or is behind now: waiting starts over.
            first = OrphanCandidate(now, first.notes)
        self._after[path] = first
        return now - first.at_us >= wait_us and not first.notes & live_notes

    def announce(self, paths: Iterable[str]) -> None:
        """List what is about to go at first sight, whoever is at work; readable from here on.

        Nobody starts anything at a version that is listed. Forgotten, they are off the list when
        it is saved.
        """
        now, announced = self._clock_us(), set(paths)
        self._announced |= announced
        self._after |= {path: OrphanCandidate(now) for path in announced}
        self._write(dropped=frozenset())

    def forget(self, paths: Iterable[str]) -> None:
        """These are gone now."""
        for path in paths:
            self._after.pop(path, None)

    def keep(self, prefix: str) -> None:
        """Remember what was noted below a place that could not be looked at this time."""
        self._after |= {p: seen for p, seen in self._before.items() if p.startswith(prefix)}

    def save(self) -> None:
        """Leave the notes for the next cleanup, in a list that is whole afterwards.

        What another cleanup has listed meanwhile stays. So do versions that an earlier one has
        announced and not removed: it may only be asleep.
        """
        for path, seen in self._before.items():
            if path not in self._announced and is_version_path(path) and self._store.exists(path):
                self._after.setdefault(path, seen)
        self._write(dropped=(self._before.keys() | self._announced) - self._after.keys())

    def _write(self, dropped: Collection[str]) -> None:
        for _ in range(_TRIES):
            found = self._store.find_versioned(ORPHAN_CANDIDATES)
            listed = {} if found is None else _decode_if_readable(found.data)
            kept = {path: seen for path, seen in listed.items() if path not in dropped}
            content = _encode(kept | self._after)
            if found is None:
                is_done = self._store.put_if_absent(ORPHAN_CANDIDATES, content)
            else:
                is_same = found.data == content
                is_done = is_same or self._store.put_if_match(ORPHAN_CANDIDATES, content, found.tag)
            if is_done:
                return
        raise ConflictError(f"other cleanups keep changing {ORPHAN_CANDIDATES}; run one at a time")


def write_empty_candidates(store: ObjectStore) -> None:
    """Write the empty list of a new graph; from then on a missing list is detected."""
    store.put(ORPHAN_CANDIDATES, _encode({}))


def find_candidates_damage(store: ObjectStore) -> str | None:
    """Describe the damage of the list; None if it is intact."""
    data = store.find(ORPHAN_CANDIDATES)
    if data is None:
        return "is missing; the next cleanup makes it again"
    try:
        _decode(data)
    except (OmniError, *_MALFORMED):
        return "is not what a cleanup leaves; the next one starts it anew"
    return None


def _encode(first_seen: Mapping[str, OrphanCandidate]) -> bytes:
    seen = {
        path: {"at": one.at_us, "notes": sorted(one.notes)}
        for path, one in sorted(first_seen.items())
    }
    return json.dumps(seal({"version": _FORMAT, "first_seen": seen}), indent=1).encode()


def list_removable_paths(store: ObjectStore, note: str | None = None) -> frozenset[str]:
    """List what a cleanup may remove now or later, relative to the root.

    Excluded is what was first seen beside `note`, the path of a heartbeat that is still there: as
    long as it is, no cleanup removes that.
    """
    return frozenset(path for path, seen in _read(store).items() if note not in seen.notes)


def _read(store: ObjectStore) -> dict[str, OrphanCandidate]:
    data = store.find(ORPHAN_CANDIDATES)
    return {} if data is None else _decode_if_readable(data)


def _decode_if_readable(data: bytes) -> dict[str, OrphanCandidate]:
    try:
        return _decode(data)
    except _MALFORMED:
        return {}  # it only delays what it would have allowed


def _decode(data: bytes) -> dict[str, OrphanCandidate]:
    body = json.loads(data)
    if not is_sealed(body) or body.keys() - {SEAL, "version", "first_seen"}:
        raise ValueError(f"{ORPHAN_CANDIDATES} is not what was written")
    if body["version"] > _FORMAT:
        raise ManifestCorrupt(f"{ORPHAN_CANDIDATES} has format {body['version']}, not {_FORMAT}")
    return {
        str(path): OrphanCandidate(int(seen["at"]), frozenset(map(str, seen["notes"])))
        for path, seen in body["first_seen"].items()
    }


def require_retained_manifest(
    root: GraphRoot, branch: str, incarnation: str | None, version: int
) -> None:
    """Raise unless a manifest version of a branch is there to stay. To be called under the fence.

    Raises:
        HistoricalVersionReclaimed: cleanup has removed it, or is about to.
        BranchNotFound: the branch was deleted, and its versions with it.
    """
    location = root.manifest(incarnation)
    try:
        read_manifest(location, version)
    except StorageFailure:
        if incarnation is not None and not is_lance_branch(root.manifest(), incarnation):
            raise BranchNotFound(branch) from None
        raise
    _require_unlisted(root, location, version)


def require_retained_table(root: GraphRoot, location: TableLocation, version: int) -> None:
    """Raise unless a version of a table is there to stay. To be called under the fence."""
    open_table(location, version)
    _require_unlisted(root, location, version)


def require_retained_versions(
    root: GraphRoot, location: TableLocation, versions: Collection[int]
) -> None:
    """Raise unless these versions are there to stay; they are listed and not read."""
    there = set(list_versions(location))
    for version in sorted(versions):
        if version not in there:
            raise HistoricalVersionReclaimed(version, str(location))
    _require_unlisted(root, location, *versions)


def _require_unlisted(root: GraphRoot, location: TableLocation, *versions: int) -> None:
    if not root.lease_may_expire:
        return
    listed = list_removable_paths(root.store)
    for version in versions:
        if root.version_path(location, version) in listed:
            raise HistoricalVersionReclaimed(version, str(location))

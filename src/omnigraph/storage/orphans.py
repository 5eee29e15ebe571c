"""Orphans: candidates of cleanup, temporary files, and versions about to be removed."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Collection, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from omnigraph.errors import (
    BranchNotFound,
    ConflictError,
    HistoricalVersionReclaimed,
    ManifestCorrupt,
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
from omnigraph.storage.sealed_records import DamagedRecord, RecordKind, StoredRecord
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
    """A temporary file of a killed process."""

    path: str
    """Relative to the root of the graph."""
    size_bytes: int


def find_temporary_files(store: ObjectStore) -> list[TemporaryFile]:
    """Find half-written files; an object store has none."""
    if store.kind is not StoreKind.LOCAL:
        return []
    root = Path(store.uri)
    with translate_os_errors("list", str(root)):
        return [
            TemporaryFile(path.relative_to(root).as_posix(), size)
            for path, size in _walk_temporary_files(root)
        ]


def remove_temporary_files(store: ObjectStore, found: list[TemporaryFile]) -> int:
    """Remove temporary files; return their size in bytes."""
    root, freed = Path(store.uri), 0
    for one in found:
        path = root / one.path
        with translate_os_errors("delete", str(path)), report_write("delete_file", str(path)):
            path.unlink(missing_ok=True)
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


_TRIES = 16
"""The number of attempts to write the list while other cleanups write theirs."""


@dataclass(frozen=True, slots=True)
class OrphanCandidate:
    """The time an orphan was first seen, in microseconds, and the heartbeats present then.

    A retainer is the path of a heartbeat, or of the newest manifest version.
    """

    at: int
    notes: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class CandidateList:
    """The orphan candidates of all cleanups, by path."""

    first_seen: dict[str, OrphanCandidate]


CANDIDATES = RecordKind(
    what="a list of orphan candidates",
    type=CandidateList,
    base_path=ORPHAN_CANDIDATES,
    key=None,
    version=2,
)


class OrphanCandidates:
    """Orphan candidates of earlier cleanups and of this one; created under the fence."""

    def __init__(
        self,
        store: ObjectStore,
        clock_us: Callable[[], int],
        grace_s: float,
        live_notes: Callable[[], frozenset[str]] = frozenset,
    ) -> None:
        """Read the candidates of earlier cleanups.

        Args:
            store: The store of the candidates.
            clock_us: The time, in microseconds.
            grace_s: The grace period of writers without a heartbeat.
            live_notes: Returns the heartbeats of writes in progress.
        """
        self._store, self._clock_us, self._live_notes = store, clock_us, live_notes
        self._grace_us = int(grace_s * 1_000_000)
        self._before = _read(store)
        self._after: dict[str, OrphanCandidate] = {}
        self._announced: set[str] = set()

    def due(self, paths: Iterable[str], beside: Collection[str] = ()) -> list[str]:
        """Return the paths that may be removed now; the others become candidates.

        To be called after listing: the writer of a listed file had started a heartbeat before, and
        if that has ended by now, so has the writer. `beside` are further notes, which retain the
        paths first seen now for as long as they are given.
        """
        live_notes = self._live_notes().union(beside)
        return [path for path in paths if self._is_due(path, self._grace_us, live_notes)]

    def is_unchanged_for(self, path: str, seconds: float) -> bool:
        """Return whether a path was first seen at least `seconds` ago; it becomes a candidate."""
        return self._is_due(path, int(seconds * 1_000_000), frozenset())

    def _is_due(self, path: str, wait_us: int, live_notes: frozenset[str]) -> bool:
        now, first = self._clock_us(), self._before.get(path)
        if first is None:
            self._after[path] = OrphanCandidate(now, live_notes)
            return False
        if first.at > now:
            # One of the clocks is wrong: the grace period starts over.
            first = OrphanCandidate(now, first.notes)
        self._after[path] = first
        return now - first.at >= wait_us and not first.notes & live_notes

    def announce(self, paths: Iterable[str]) -> None:
        """Write paths that are about to be removed to the list at once, whatever heartbeats exist.

        No operation starts at a listed version. Forgotten paths are removed from the list when it
        is saved.
        """
        now, announced = self._clock_us(), set(paths)
        self._announced |= announced
        self._after |= {path: OrphanCandidate(now) for path in announced}
        self._write(dropped=frozenset())

    def forget(self, paths: Iterable[str]) -> None:
        """Drop the candidates that were removed."""
        for path in paths:
            self._after.pop(path, None)

    def keep(self, prefix: str) -> None:
        """Retain the candidates below a path that could not be listed."""
        self._after |= {p: seen for p, seen in self._before.items() if p.startswith(prefix)}

    def save(self) -> None:
        """Save the candidates for the next cleanup, repairing the list if it is damaged.

        Candidates of concurrent cleanups are retained. So are versions that an earlier cleanup has
        announced and not removed: it may be suspended.
        """
        for path, seen in self._before.items():
            if path not in self._announced and is_version_path(path) and self._store.exists(path):
                self._after.setdefault(path, seen)
        self._write(dropped=(self._before.keys() | self._announced) - self._after.keys())

    def _write(self, dropped: Collection[str]) -> None:
        for _ in range(_TRIES):
            found = CANDIDATES.find_stored(self._store)
            listed = {} if found is None else _decode_if_readable(found)
            retained = {path: seen for path, seen in listed.items() if path not in dropped}
            candidates = CandidateList(retained | self._after)
            is_same = found is not None and found.data == CANDIDATES.encode(candidates)
            if is_same or CANDIDATES.swap(self._store, candidates, found):
                return
        raise ConflictError(f"other cleanups keep changing {ORPHAN_CANDIDATES}; run one at a time")


def write_empty_candidates(store: ObjectStore) -> None:
    """Write the empty list of a new graph, so that a missing list is detected."""
    CANDIDATES.put(store, CandidateList({}))


def find_candidates_damage(store: ObjectStore) -> str | None:
    """Describe the damage of the list; None if it is intact."""
    try:
        if CANDIDATES.find(store) is None:
            return "is missing; the next cleanup rewrites it"
    except ManifestCorrupt:
        return "is damaged; the next cleanup rewrites it"
    return None


def list_removable_paths(store: ObjectStore, note: str | None = None) -> frozenset[str]:
    """List the paths that a cleanup may remove now or later, relative to the root.

    Excluded are those first seen beside `note`, the path of a live heartbeat: no cleanup removes
    them before it ends.
    """
    return frozenset(path for path, seen in _read(store).items() if note not in seen.notes)


def _read(store: ObjectStore) -> dict[str, OrphanCandidate]:
    found = CANDIDATES.find_stored(store)
    return {} if found is None else _decode_if_readable(found)


def _decode_if_readable(found: StoredRecord[CandidateList]) -> dict[str, OrphanCandidate]:
    try:
        return found.record.first_seen
    except DamagedRecord:
        return {}  # this only delays removals


def require_retained_manifest(
    root: GraphRoot, branch: str, incarnation: str | None, version: int
) -> None:
    """Raise unless a manifest version of a branch is retained; called under the fence.

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
    """Raise unless a version of a table is retained; called under the fence."""
    open_table(location, version)
    _require_unlisted(root, location, version)


def require_retained_versions(
    root: GraphRoot, location: TableLocation, versions: Collection[int]
) -> None:
    """Raise unless versions are retained; they are listed and not read."""
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

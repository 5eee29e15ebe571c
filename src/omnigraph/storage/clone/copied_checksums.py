"""Checksums of what is copied: compared with those of the source, and noted at the target.

A file is read to be copied, so its checksum costs nothing more. What the source noted must match:
a backup that repeats the damage of its source is none.
"""

from __future__ import annotations

import re
import threading
from collections import defaultdict
from collections.abc import Iterable, Mapping

from omnigraph.errors import ManifestCorrupt
from omnigraph.storage.objects.store import StoreKind
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables.checksums import Checksum, ChecksumLogs, add_checksums
from omnigraph.storage.tables.parts import note_branch_ref, note_version_file
from omnigraph.storage.tables.probes import NEWEST_NOTE, encode_newest_note

_FILE = re.compile(
    r"(?P<table>__manifest|[^/]+/[^/]+)(?:/tree/(?P<branch>[0-9A-Z]{26}))?/(?P<name>.+)"
)


class CopiedChecksums:
    """What one clone has copied so far; files may come from several threads."""

    def __init__(self, source: GraphRoot, target: GraphRoot) -> None:
        self._source, self._target = source, target
        self._logs = ChecksumLogs()
        self._copied: dict[str, list[Checksum]] = defaultdict(list)
        self._lock = threading.Lock()

    def take(self, path: str, size: int, crc: int) -> None:
        """Remember a file that was just read from the source.

        Raises:
            ManifestCorrupt: it is not what was written there.
        """
        parts = _FILE.fullmatch(path)
        if parts is None:
            return
        table, branch, name = parts["table"], parts["branch"], parts["name"]
        self._require_same(table, branch, Checksum(name, size, crc))
        folder = self._target.location(table, branch).local_folder
        if folder is not None:
            with self._lock:
                self._copied[folder].append(Checksum(name, size, crc))

    def _require_same(self, table: str, branch: str | None, found: Checksum) -> None:
        folder = self._source.location(table, branch).local_folder
        if folder is None:
            return
        with self._lock:
            noted = self._logs.of(folder).files.get(found.name)
        if noted is not None and (noted.size, noted.crc) != (found.size, found.crc):
            raise ManifestCorrupt(
                f"{folder}/{found.name} is not what was written: its checksum differs. "
                "`omnigraph verify --deep` names everything that is damaged; restore it from a "
                "backup before this graph is cloned"
            )

    def note(self, versions: Mapping[tuple[str, str | None], Iterable[int]]) -> None:
        """Write what tables have besides their files, where the target is on a local disk.

        These are the logs of checksums, and the notes of the newest versions.
        """
        store = self._target.store
        if store.kind is not StoreKind.LOCAL:
            return
        for folder, sums in self._copied.items():
            add_checksums(folder, sums)
        for (table, branch), numbers in versions.items():
            location = self._target.location(table, branch)
            for number in sorted(numbers):
                note_version_file(location, number)
            home = table if branch is None else f"{table}/tree/{branch}"
            store.put(f"{home}/{NEWEST_NOTE}", encode_newest_note(max(numbers)))
            if branch is not None:
                note_branch_ref(location, branch)

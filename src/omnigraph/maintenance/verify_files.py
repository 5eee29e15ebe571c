"""Comparing the files of tables with the checksums noted when they were written."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from omnigraph.errors import OmniError
from omnigraph.storage.manifest import Commit, History, read_manifest
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table, open_table
from omnigraph.storage.tables.checksums import ChecksumLogs, Damage
from omnigraph.storage.tables.damage import DamagedFile, find_damaged
from omnigraph.storage.tables.parts import Part, version_parts
from omnigraph.storage.tables.presence import find_missing

TableVersion = tuple[str, str | None, int]
"""The path of a table, its physical branch and the version."""


@dataclass
class FileCheck:
    """Compares files, each once however many versions name it; tables may come side by side."""

    whole: bool
    """Whether contents are compared, or lengths alone."""
    compared: int = 0
    unnoted: int = 0
    _logs: ChecksumLogs = field(default_factory=ChecksumLogs)
    _found: dict[str, list[DamagedFile]] = field(default_factory=dict)
    _lock: threading.Lock = field(default_factory=threading.Lock)

    def check(self, table: Table, complain: Callable[[DamagedFile], None]) -> None:
        """Tell `complain` of every file of a version that is not as it was written.

        On an object store nothing is noted: there a file can only be missing.
        """
        parts = version_parts(table.location, table.native)
        if table.location.local_folder is None:
            missing = {str(one) for one in find_missing([table])}
            gone = [part for part in parts if part.place in missing]
            for part in gone:
                complain(DamagedFile(part, part.name, Damage.MISSING))
            return
        for part in parts:
            for damaged in self._find_damaged(part):
                complain(damaged)

    def is_intact(self, table: Table) -> bool:
        """Whether no file that reading the rows takes is known to be damaged.

        The substrate may end the process over a damaged file, so its rows are better not read.
        """
        if table.location.local_folder is None:
            return True
        parts = version_parts(table.location, table.native)
        return not any(one.is_read for part in parts for one in self._find_damaged(part))

    def _find_damaged(self, part: Part) -> list[DamagedFile]:
        known = self._found.get(part.place)
        if known is not None:
            return known
        damaged, is_noted = find_damaged(part, self._logs, whole=self.whole)
        with self._lock:
            if part.place not in self._found:
                self.compared += is_noted
                self.unnoted += not is_noted
            return self._found.setdefault(part.place, damaged)


class Concerned:
    """Finds the commits that show a file; asked only about files that are damaged."""

    def __init__(self, root: GraphRoot) -> None:
        self._root = root
        self._shown: dict[tuple[str | None, int], frozenset[TableVersion]] = {}
        self._places: dict[TableVersion, frozenset[str]] = {}
        self._lock = threading.Lock()

    def commits(self, snapshot: Snapshot, path: str, place: str) -> tuple[str, ...]:
        """The commits of a branch that show the file at `place` of the table at `path`."""
        with self._lock:
            try:
                history = History().commits(snapshot.manifest)
            except OmniError:
                return ()
            return tuple(c.commit_id for c in history if self._shows(c, path, place))

    def _shows(self, commit: Commit, path: str, place: str) -> bool:
        key = (commit.incarnation, commit.manifest_version)
        if key not in self._shown:
            self._shown[key] = self._tables(*key)
        tables = [one for one in self._shown[key] if one[0] == path]
        return any(place in self._files(one) for one in tables)

    def _tables(self, branch: str | None, version: int) -> frozenset[TableVersion]:
        try:
            state = read_manifest(self._root.manifest(branch), version).state
        except OmniError:
            return frozenset()  # cleaned away, or damaged itself
        return frozenset((e.path, e.owner_branch, e.version) for e in state.entries.values())

    def _files(self, one: TableVersion) -> frozenset[str]:
        if one not in self._places:
            path, branch, version = one
            location = self._root.location(path, branch)
            try:
                native = open_table(location, version).native
                places = {part.place for part in version_parts(location, native)}
            except OmniError:
                places = set()
            self._places[one] = frozenset(places)
        return self._places[one]

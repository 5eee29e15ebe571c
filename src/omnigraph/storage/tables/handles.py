"""Tables that were opened before, to be found again without reading their metadata anew."""

from __future__ import annotations

import threading
from collections import OrderedDict

from omnigraph.storage.tables.directory import RowDirectory
from omnigraph.storage.tables.handle import Table, open_table
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage import StagedTransaction

KEPT_DIRECTORIES = 16
KEPT_HANDLES = 256
"""A handle holds the list of its fragments; a large table's takes some hundred kilobytes."""


class TableHandles:
    """The tables used last, by place and version. A version never changes, so none grows stale.

    A place names the generation of its table, so what was removed and made again is not mistaken
    for what was there before.
    """

    def __init__(self, capacity: int = KEPT_HANDLES) -> None:
        self._capacity = capacity
        self._lock = threading.Lock()
        self._tables: OrderedDict[tuple[TableLocation, int], Table] = OrderedDict()
        self._directories: OrderedDict[TableLocation, RowDirectory] = OrderedDict()

    def find(self, location: TableLocation, version: int) -> Table | None:
        key = (location, version)
        with self._lock:
            table = self._tables.get(key)
            if table is not None:
                self._tables.move_to_end(key)
            return table

    def open(self, location: TableLocation, version: int) -> Table:
        """The table at exactly this version, opened unless it is at hand."""
        return self.find(location, version) or self.keep(open_table(location, version))

    def keep(self, table: Table) -> Table:
        """The same table, to be found from now on, with the directory all its versions share."""
        place = table.location
        with self._lock:
            table.directory = self._directories.setdefault(place, RowDirectory())
            self._directories.move_to_end(place)
            self._tables[place, table.version] = table
            self._tables.move_to_end((place, table.version))
            if len(self._tables) > self._capacity:
                self._tables.popitem(last=False)
            if len(self._directories) > KEPT_DIRECTORIES:
                self._directories.popitem(last=False)
        return table

    def follow(self, staged: StagedTransaction, committed: Table) -> None:
        """Keep a table as this process has just left it."""
        directory = self.keep(committed).directory
        assert directory is not None, "a kept table has a directory"
        directory.follow(staged, committed)

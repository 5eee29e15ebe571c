"""Tables that were opened before, to be found again without reading their metadata again."""

from __future__ import annotations

from omnigraph.cache import Cache
from omnigraph.storage.tables.directory import RowDirectory
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.stage_table import StagedTransaction
from omnigraph.storage.tables.table import Table, open_table

KEPT_DIRECTORIES = 16
KEPT_HANDLES = 256
"""A handle holds the list of its fragments; a large table's takes some hundred kilobytes."""


class TableHandles:
    """The tables used last, by place and version. A version never changes, so none grows stale.

    A place names the generation of its table, so what was removed and made again is not mistaken
    for what was there before.
    """

    def __init__(self, capacity: int = KEPT_HANDLES) -> None:
        self._tables: Cache[tuple[TableLocation, int], Table] = Cache(capacity)
        self._directories: Cache[TableLocation, RowDirectory] = Cache(KEPT_DIRECTORIES)

    def find(self, location: TableLocation, version: int) -> Table | None:
        return self._tables.find((location, version))

    def open(self, location: TableLocation, version: int) -> Table:
        """The table at exactly this version, opened unless it is at hand."""
        return self.find(location, version) or self.keep(open_table(location, version))

    def keep(self, table: Table) -> Table:
        """The same table, to be found from now on, with the directory all its versions share."""
        table.directory = self._directories.value(table.location, RowDirectory)
        self._tables.keep((table.location, table.version), table)
        return table

    def follow(self, staged: StagedTransaction, committed: Table) -> None:
        """Keep a table as this process has just left it."""
        directory = self.keep(committed).directory
        assert directory is not None, "a kept table has a directory"
        directory.follow(staged, committed)

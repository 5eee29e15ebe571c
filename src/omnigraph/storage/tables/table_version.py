"""A version of a table by its address alone: plain data, to be opened somewhere else."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.table import Table, open_table


@dataclass(frozen=True, slots=True)
class TableVersion:
    """Where a table is, and which of its versions is meant.

    A pickled `Table` is opened by whoever unpickles it. This is opened where a version that is
    gone can be told from other failures.
    """

    location: TableLocation
    version: int

    @classmethod
    def of(cls, table: Table) -> TableVersion:
        return cls(table.location, table.version)

    def open(self) -> Table:
        return open_table(self.location, self.version)

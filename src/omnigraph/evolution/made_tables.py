"""The tables that an apply makes and opens while it is prepared."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from omnigraph.evolution.column_plan import Entity
from omnigraph.execution.stored_rows import build_table_schema
from omnigraph.storage.created import create_table
from omnigraph.storage.initialize import GENESIS_VERSION, NewTable
from omnigraph.storage.manifest import SetVersion, TableEntry
from omnigraph.storage.recovery import drop_created
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import Ticket, Writable, drop_fork, open_writable


class MadeTables:
    """What a preparation has made so far; all of it can be removed again."""

    def __init__(self, snapshot: Snapshot, ticket: Ticket) -> None:
        self.ticket, self.snapshot = ticket, snapshot
        self._created: list[tuple[NewTable, SetVersion]] = []
        self._shared: list[tuple[NewTable, SetVersion]] = []
        self._opened: list[Writable] = []

    def create(self, type_: Entity) -> None:
        new = NewTable(type_.identity, type_.table_key, build_table_schema(type_))
        self._created.append((new, create_table(self.snapshot.root, new, self.ticket)))

    def share(self, type_: Entity, owner: Snapshot) -> None:
        """Show the table of another branch as it was made, without a row."""
        new = NewTable(type_.identity, type_.table_key, build_table_schema(type_))
        owner.root.handles.open(owner.root.location(new.path), GENESIS_VERSION)
        first = SetVersion(new.identity, new.table_key, GENESIS_VERSION, None, 0)
        self._shared.append((new, first))

    @property
    def tables(self) -> list[tuple[NewTable, SetVersion]]:
        return [*self._created, *self._shared]

    def open(self, entry: TableEntry) -> Writable:
        writable = open_writable(self.snapshot, entry)
        self._opened.append(writable)
        return writable

    def watch(self, writable: Writable) -> None:
        """Take care of a table that was opened elsewhere."""
        self._opened.append(writable)

    def undo(self) -> None:
        for new, _ in self._created:
            drop_created(self.snapshot.root, new.path, self.ticket.operation_id)
        for writable in self._opened:
            drop_fork(writable)
        self._created, self._opened = [], []

    @contextmanager
    def undo_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.undo()
            raise

"""Tables that a write makes: empty, and unknown to the graph until the write is published.

The place of a table follows from ids that are given out once. So one that a crash leaves behind is
garbage that nobody builds on.
"""

from __future__ import annotations

from uuid import uuid4

from omnigraph.errors import OmniError
from omnigraph.identity import ID_COLUMN, OperationId
from omnigraph.storage.initialize import NewTable
from omnigraph.storage.manifest.changes import SetVersion
from omnigraph.storage.recovery.intent import OPERATION_PROPERTY
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.staged import Ticket
from omnigraph.storage.tables.commit import commit_exact
from omnigraph.storage.tables.handle import open_newest, table_exists
from omnigraph.storage.tables.history import read_record
from omnigraph.storage.tables.schemas import with_primary_key
from omnigraph.storage.tables.stage import stage_create


def create_table(root: GraphRoot, table: NewTable, ticket: Ticket) -> SetVersion:
    """An empty table at a place of its own, which nothing refers to until it is published.

    Raises:
        AlreadyExists: there is a table at its place.
    """
    staged = stage_create(
        root.location(table.path),
        with_primary_key(table.schema, ID_COLUMN),
        uuid=str(uuid4()),
        properties=ticket.properties,
    )
    committed = commit_exact(staged)
    return SetVersion(table.identity, table.table_key, committed.version, None, 0)


def drop_created(root: GraphRoot, path: str, operation: OperationId) -> None:
    """Remove a table that an operation made and that was never shown, if that works now."""
    try:
        if table_exists(root.location(path)):
            table = open_newest(root.location(path))
            record = read_record(table, table.version)
            if record.properties.get(OPERATION_PROPERTY) == operation:
                root.store.delete_prefix(path)
    except OmniError:
        return  # nothing refers to it, so it is garbage and harms nobody

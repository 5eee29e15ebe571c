"""Tables that a write makes: empty, and unknown to the graph until the write is published.

The place of a table follows from ids that are given out once, also to a change that is prepared
again. So one that a crash leaves behind is garbage that nobody builds on, and whoever removes it
may come as late as he likes.
"""

from __future__ import annotations

from uuid import uuid4

from omnigraph.identity import ID_COLUMN
from omnigraph.storage.initialize import NewTable
from omnigraph.storage.manifest.manifest_changes import SetVersion
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.staged import Ticket
from omnigraph.storage.tables.commit import commit_exact
from omnigraph.storage.tables.schemas import mark_primary_key
from omnigraph.storage.tables.stage_table import stage_create


def create_table(root: GraphRoot, table: NewTable, ticket: Ticket) -> SetVersion:
    """An empty table at a place of its own, which nothing refers to until it is published.

    Raises:
        AlreadyExists: there is a table at its place.
    """
    staged = stage_create(
        root.location(table.path),
        mark_primary_key(table.schema, ID_COLUMN),
        uuid=str(uuid4()),
        properties=ticket.properties,
    )
    committed = commit_exact(staged)
    return SetVersion(table.identity, table.table_key, committed.version, None, 0)

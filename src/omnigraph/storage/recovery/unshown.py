"""Removing tables that an operation made and that no graph ever showed."""

from __future__ import annotations

from omnigraph.errors import OmniError
from omnigraph.identity import OperationId
from omnigraph.storage.recovery.intent import OPERATION_PROPERTY
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables.history import read_record
from omnigraph.storage.tables.table import is_table, open_newest


def drop_created(root: GraphRoot, path: str, operation: OperationId) -> None:
    """Remove a table that an operation made and that was never shown, if that works now."""
    try:
        if is_table(root.location(path)):
            table = open_newest(root.location(path))
            record = read_record(table, table.version)
            if record.properties.get(OPERATION_PROPERTY) == operation:
                root.store.delete_prefix(path)
    except OmniError:
        return  # nothing refers to it, so it is garbage and harms nobody

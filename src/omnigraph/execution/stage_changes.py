"""Pending rows to staged table transactions: files are written, nothing becomes visible."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from uuid import uuid4

import pyarrow as pa

from omnigraph.constraints.table_changes import TableChange
from omnigraph.execution.stored_rows import convert_to_table_rows
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import StagedTable, Ticket, Writable, drop_fork, open_writable
from omnigraph.storage.tables import (
    StagedTransaction,
    stage_changes,
    stage_fresh,
    stage_insert,
    stage_overwrite,
)


class Placement(StrEnum):
    """How rows meet the rows that are there."""

    FRESH = "fresh"
    """Ids minted by this write: nothing can be there."""
    INSERT = "insert"
    """Ids that must be new; one that is there is a conflict."""
    UPSERT = "upsert"
    OVERWRITE = "overwrite"


def stage_tables(
    snapshot: Snapshot,
    ticket: Ticket,
    changes: Iterable[tuple[TableChange, Placement]],
) -> tuple[StagedTable, ...]:
    """One transaction for each table that changes; forks that are not needed are removed."""
    staged: list[StagedTable] = []
    opened: list[Writable] = []
    try:
        for change, placement in changes:
            writable = open_writable(snapshot, snapshot.entry(change.table_key))
            opened.append(writable)
            one = _stage(writable, change, placement, ticket.properties)
            if one is None:
                drop_fork(opened.pop())
            else:
                staged.append(StagedTable(writable, one))
    except BaseException:
        for writable in opened:
            drop_fork(writable)
        raise
    return tuple(staged)


def _stage(
    writable: Writable, change: TableChange, placement: Placement, properties: Mapping[str, str]
) -> StagedTransaction | None:
    table, rows, uuid = (
        writable.table,
        convert_to_table_rows(change.rows, change.type),
        str(uuid4()),
    )
    key = change.table_key
    match placement:
        case Placement.FRESH:
            return stage_fresh(table, rows, uuid=uuid, properties=properties)
        case Placement.INSERT:
            return stage_insert(table, rows, uuid=uuid, properties=properties, table_key=key)
        case Placement.OVERWRITE:
            return stage_overwrite(table, rows, uuid=uuid, properties=properties)
        case Placement.UPSERT:
            deleted: pa.Array | None = change.deleted if len(change.deleted) else None
            upserts = rows if rows.num_rows else None
            return stage_changes(
                table, upserts, deleted, uuid=uuid, properties=properties, table_key=key
            )

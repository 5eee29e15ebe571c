"""Telling maintenance from change: the same rows in other files are no reason to fail a write."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.storage.manifest.state import TableEntry
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.history import RESERVE_FRAGMENTS, read_record
from omnigraph.storage.tables.table import open_table

MOST_VERSIONS = 64
"""So many versions of a table are looked through; after more of them, others wrote as well."""

COMPACTING_OPERATIONS = frozenset({"Rewrite", "CreateIndex", "UpdateConfig", RESERVE_FRAGMENTS})
"""Operations that leave every row, its row id and its row versions as they were."""


def is_only_compacted(before: Snapshot, after: Snapshot) -> bool:
    """Whether both snapshots hold the same rows, by what their tables have on record."""
    if before.contract != after.contract or before.entries.keys() != after.entries.keys():
        return False
    pairs = [(before.entries[key], entry) for key, entry in after.entries.items()]
    moved = [(old, new) for old, new in pairs if old != new]
    return all(_is_compacted(before, old, new) for old, new in moved)


def _is_compacted(snapshot: Snapshot, old: TableEntry, new: TableEntry) -> bool:
    if replace(new, version=old.version) != old:
        return False
    if not 0 < new.version - old.version <= MOST_VERSIONS:
        return False
    # A handle of its own: reading a record borrows it exclusively, and kept handles are shared.
    table = open_table(snapshot.location(new), new.version)
    between = range(new.version, old.version, -1)
    return all(
        read_record(table, version).operation in COMPACTING_OPERATIONS for version in between
    )

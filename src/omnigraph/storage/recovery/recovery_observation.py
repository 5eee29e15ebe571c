"""Looking at what an interrupted write left behind, table by table."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from omnigraph.storage.manifest.state import ManifestState
from omnigraph.storage.recovery.intent import Intent, TableIntent
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables.history import TableVersionRecord, read_history
from omnigraph.storage.tables.table import find_latest_version, is_table

MAX_VERSIONS_READ = 1_026
RESTORE = "Restore"


class Ownership(StrEnum):
    """Where the intent's own transaction stands in the history of its table."""

    NONE = "none"
    AT_HEAD = "at_head"
    BEFORE_HEAD = "before_head"
    COMPENSATED = "compensated"
    """Ours, and undone by a restore to the pin that is the head now."""
    UNVERIFIABLE = "unverifiable"


@dataclass(frozen=True, slots=True)
class ObservedTable:
    """A table of an intent as it is: its head, whose head it is, and what the graph shows.

    `head` is None for a fork that does not exist. `pin` is the version the graph shows on the
    same physical branch, None where the graph shows another one.
    """

    intent: TableIntent
    head: int | None
    ownership: Ownership
    pin: int | None


def observe(root: GraphRoot, intent: Intent, state: ManifestState) -> tuple[ObservedTable, ...]:
    return tuple(_observe_table(root, table, state) for table in intent.tables)


def _observe_table(root: GraphRoot, table: TableIntent, state: ManifestState) -> ObservedTable:
    location = root.location(table.path, table.branch)
    if table.is_fork and not is_table(location):
        return ObservedTable(table, None, Ownership.NONE, None)
    head = find_latest_version(location)
    pin = _pin(table, state)
    if head <= table.base_version:
        return ObservedTable(table, head, Ownership.NONE, pin)
    if head - table.base_version > MAX_VERSIONS_READ:
        return ObservedTable(table, head, Ownership.UNVERIFIABLE, pin)
    history = read_history(location, table.base_version + 1, head)
    return ObservedTable(table, head, find_ownership(history, table, pin), pin)


def _pin(table: TableIntent, state: ManifestState) -> int | None:
    entry = state.by_identity.get(table.identity)
    if entry is None or entry.owner_branch != table.branch:
        return None
    return entry.version


def find_ownership(
    history: list[TableVersionRecord], table: TableIntent, pin: int | None
) -> Ownership:
    """Where the planned transaction stands among the versions after its base.

    A version up to the pin that cleanup has removed was not made by it: who published the pin had
    settled before whatever was pending. So it was announced late, by a writer that slept.
    """
    unreadable = [record.version for record in history if record.operation is None]
    if unreadable and (table.is_fork or pin is None or unreadable[-1] > pin):
        return Ownership.UNVERIFIABLE
    owned = [record.version for record in history if record.uuid == table.transaction]
    if not owned:
        return Ownership.NONE
    newest = history[-1]
    if newest.uuid == table.transaction:
        return Ownership.AT_HEAD
    undone = newest.operation == RESTORE and newest.restored_version in (pin, table.base_version)
    return Ownership.COMPENSATED if undone else Ownership.BEFORE_HEAD

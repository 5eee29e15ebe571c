"""Looking at what an interrupted write left behind, table by table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.storage.manifest.read import ManifestSnapshot
from omnigraph.storage.manifest.state import ManifestState
from omnigraph.storage.recovery.ended_operations import RESTORE, is_late, list_ended_operations
from omnigraph.storage.recovery.intent import Intent, TableIntent
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tables.history import TableVersionRecord, read_history
from omnigraph.storage.tables.table import find_latest_version, is_table

MAX_VERSIONS_READ = 1_026


class Ownership(StrEnum):
    """Where the intent's own transaction stands in the history of its table."""

    NONE = "none"
    AT_HEAD = "at_head"
    BEFORE_HEAD = "before_head"
    COMPENSATED = "compensated"
    """Ours, and undone by a restore to the pin that is the head now."""
    AMONG_LATE = "among_late"
    """Ours, with nothing but versions that nobody waits for between the pin and the head."""
    UNVERIFIABLE = "unverifiable"


@dataclass(frozen=True, slots=True)
class ObservedTable:
    """A table of an intent as it is: its head, whose head it is, and what the graph shows.

    `head` is None for a fork that does not exist, and where the graph shows that branch of the
    table no longer. `pin` is the version the graph shows on the same physical branch, None where
    the graph shows another one.
    """

    intent: TableIntent
    head: int | None
    ownership: Ownership
    pin: int | None


def observe(
    root: GraphRoot, intent: Intent, manifest: ManifestSnapshot
) -> tuple[ObservedTable, ...]:
    ended = list_ended_operations(manifest)
    return tuple(_observe_table(root, table, manifest.state, ended) for table in intent.tables)


def _observe_table(
    root: GraphRoot, table: TableIntent, state: ManifestState, ended: frozenset[str]
) -> ObservedTable:
    location, pin = root.location(table.path, table.branch), _pin(table, state)
    # Who dropped the table, or left that branch of it, had settled what was pending. So this was
    # announced late, by a writer that slept, and there is nothing to show or to lose. Cleanup may
    # have removed versions, or all of it.
    is_there = is_table(location) if table.is_fork else pin is not None
    if not is_there:
        return ObservedTable(table, None, Ownership.NONE, None)
    head = find_latest_version(location)
    if head <= table.base_version:
        return ObservedTable(table, head, Ownership.NONE, pin)
    if head - table.base_version > MAX_VERSIONS_READ:
        return ObservedTable(table, head, Ownership.UNVERIFIABLE, pin)
    history = read_history(location, table.base_version + 1, head)
    return ObservedTable(table, head, find_ownership(history, table, pin, ended), pin)


def _pin(table: TableIntent, state: ManifestState) -> int | None:
    entry = state.by_identity.get(table.identity)
    if entry is None or entry.owner_branch != table.branch:
        return None
    return entry.version


def find_ownership(
    history: Sequence[TableVersionRecord],
    table: TableIntent,
    pin: int | None,
    ended: frozenset[str] = frozenset(),
) -> Ownership:
    """Where the planned transaction stands among the versions after its base.

    A version up to the pin that cleanup has removed was not made by it: who published the pin had
    settled before whatever was pending. So it was announced late, by a writer that slept.
    `ended` are the operations that nobody waits for.
    """
    unreadable = [record.version for record in history if record.operation is None]
    if unreadable and (table.is_fork or pin is None or unreadable[-1] > pin):
        return Ownership.UNVERIFIABLE
    owned = [record.version for record in history if record.uuid == table.transaction]
    if not owned:
        return Ownership.NONE
    newest = history[-1]
    if newest.operation == RESTORE and newest.restored_version in (pin, table.base_version):
        return Ownership.COMPENSATED
    if _is_among_late(history, table, pin, ended):
        return Ownership.AMONG_LATE
    is_newest = newest.uuid == table.transaction
    return Ownership.AT_HEAD if is_newest else Ownership.BEFORE_HEAD


def _is_among_late(
    history: Sequence[TableVersionRecord],
    table: TableIntent,
    pin: int | None,
    ended: frozenset[str],
) -> bool:
    """Whether ours is ahead of the graph, and so is what nobody waits for, and nothing else.

    All that is ahead must have been read. Nobody comes late to a fork, which is made for one write.
    """
    if table.is_fork or pin is None or pin < table.base_version:
        return False
    ahead = [record for record in history if record.version > pin]
    others = [record for record in ahead if record.uuid != table.transaction]
    return 0 < len(others) < len(ahead) and all(is_late(record, ended) for record in others)

"""Observe the tables of an interrupted write, and decide its recovery."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.manifest.commit_records import RecoveryKind
from omnigraph.storage.manifest.manifest_reader import History, ManifestSnapshot
from omnigraph.storage.manifest.manifest_state import ManifestState
from omnigraph.storage.tables.table import find_latest_version, is_table
from omnigraph.storage.tables.table_branches import TableVersionRecord, read_history
from omnigraph.storage.write_plan import OPERATION_PROPERTY, TableMove, WritePlan

RESTORE = "Restore"

ENDED = frozenset(
    {
        RecoveryKind.ROLLED_BACK,
        RecoveryKind.ABANDONED,
        RecoveryKind.ORPHANED_BRANCH_DISCARDED,
        RecoveryKind.REVOKED_EFFECT,
    }
)
"""Ends of operations whose effects did not become visible."""


def list_ended_operations(manifest: ManifestSnapshot) -> frozenset[str]:
    audits = History().audits(manifest)
    return frozenset(audit.operation_id for audit in audits if audit.kind in ENDED)


def is_late(record: TableVersionRecord, ended: frozenset[str]) -> bool:
    """Return whether a version ahead of the graph is a late effect, which may be revoked.

    Only recovery restores tables, and a restore adds no data. A restore after the graph moved on is
    that of a recovery that was suspended while another one recovered
    the write.
    """
    operation = record.properties.get(OPERATION_PROPERTY, "")
    return operation in ended or (bool(operation) and record.operation == RESTORE)


MAX_VERSIONS_READ = 1_026


class Ownership(StrEnum):
    """The position of the intent's own transaction in the history of its table."""

    NONE = "none"
    AT_HEAD = "at_head"
    BEFORE_HEAD = "before_head"
    COMPENSATED = "compensated"
    """Its transaction, undone by a restore to the pin, which is the head."""
    AMONG_LATE = "among_late"
    """Its transaction, with only late effects between the pin and the head."""
    UNVERIFIABLE = "unverifiable"


@dataclass(frozen=True, slots=True)
class ObservedTable:
    """The observed state of a table of an intent: its head, ownership, and pin.

    `head` is None for a fork that does not exist, and if the graph shows no such branch of the
    table any more. `pin` is the version the graph shows on the same physical branch, None if
    it shows another branch.
    """

    move: TableMove
    head: int | None
    ownership: Ownership
    pin: int | None


def observe(
    root: GraphRoot, plan: WritePlan, manifest: ManifestSnapshot
) -> tuple[ObservedTable, ...]:
    ended = list_ended_operations(manifest)
    return tuple(_observe_table(root, table, manifest.state, ended) for table in plan.changes.moved)


def _observe_table(
    root: GraphRoot, table: TableMove, state: ManifestState, ended: frozenset[str]
) -> ObservedTable:
    location, pin = root.location(table.path, table.branch), _pin(table, state)
    # Who dropped the table, or left that branch of it, had resolved what was pending. So this was
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


def _pin(table: TableMove, state: ManifestState) -> int | None:
    entry = state.by_identity.get(table.identity)
    if entry is None or entry.owner_branch != table.branch:
        return None
    return entry.version


def find_ownership(
    history: Sequence[TableVersionRecord],
    table: TableMove,
    pin: int | None,
    ended: frozenset[str] = frozenset(),
) -> Ownership:
    """Find the position of the planned transaction among the versions after its base.

    A version up to the pin that cleanup has removed is not one of it: the writer that published the
    pin had recovered all pending intents before. So this intent was written late, by a suspended
    writer. `ended` are the operations that have ended.
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
    table: TableMove,
    pin: int | None,
    ended: frozenset[str],
) -> bool:
    """Return whether only its own effect and late effects of others are ahead of the graph.

    All versions ahead must have been read. A fork has no late effects: it is made for one write.
    """
    if table.is_fork or pin is None or pin < table.base_version:
        return False
    ahead = [record for record in history if record.version > pin]
    others = [record for record in ahead if record.uuid != table.transaction]
    return 0 < len(others) < len(ahead) and all(is_late(record, ended) for record in others)


class TableClass(StrEnum):
    """The state of one table of an intent."""

    NO_MOVEMENT = "no_movement"
    """None of its transactions is in the history."""
    COMPLETE = "complete"
    """Its transaction is the head, exactly one version after its base."""
    MISPLACED = "misplaced"
    """Its transaction is the head, right above a version that others published."""
    COMPENSATED = "compensated"
    """Its transaction was undone by a restore."""
    AMONG_LATE = "among_late"
    """Its transaction is above or below late effects of ended operations."""
    BURIED = "buried"
    """Its transaction is above or below a foreign version that was never published."""
    FOREIGN_DRIFT = "foreign_drift"
    """Foreign versions are ahead of the graph, and none of its transactions."""
    UNVERIFIABLE = "unverifiable"
    INVARIANT_BROKEN = "invariant_broken"
    """The graph shows a version the table does not have."""


class RecoveryDecision(StrEnum):
    FINISH_PUBLISHED = "finish_published"
    """The commit is visible; only the intent has to be removed."""
    FINISH_ROLLED_BACK = "finish_rolled_back"
    """The rollback is recorded; only the intent has to be removed."""
    DISCARD_BRANCH = "discard_branch"
    """Its branch was deleted, so its effects are unreachable."""
    ABANDON = "abandon"
    """It had no effect."""
    ROLL_FORWARD = "roll_forward"
    ROLL_BACK = "roll_back"
    REFUSE = "refuse"
    """Recovery could destroy data of another writer."""


@dataclass(frozen=True, slots=True)
class IntentStatus:
    """The manifest's state with respect to an intent."""

    is_branch_alive: bool
    is_published: bool = False
    is_rolled_back: bool = False
    is_authority_unchanged: bool = True
    is_branch_lost: bool = False
    """Whether the record of its branch is missing without a deletion."""


@dataclass(frozen=True, slots=True)
class RecoveryVerdict:
    """The decision about an interrupted write, with its reason."""

    decision: RecoveryDecision
    reason: str


def classify(table: ObservedTable) -> TableClass:
    base = table.move.base_version
    if table.head is None:
        return TableClass.NO_MOVEMENT
    if table.pin is not None and table.head < table.pin:
        return TableClass.INVARIANT_BROKEN
    match table.ownership:
        case Ownership.UNVERIFIABLE:
            return TableClass.UNVERIFIABLE
        case Ownership.AT_HEAD:
            if table.head == base + 1:
                return TableClass.COMPLETE
            # Undoing ours must not undo what is below it, unless the graph shows just that.
            is_on_pin = table.pin == table.head - 1
            return TableClass.MISPLACED if is_on_pin else TableClass.BURIED
        case Ownership.COMPENSATED:
            return TableClass.COMPENSATED
        case Ownership.AMONG_LATE:
            return TableClass.AMONG_LATE
        case Ownership.BEFORE_HEAD:
            return TableClass.BURIED
        case Ownership.NONE:
            ahead = table.head > (base if table.pin is None else table.pin)
            return TableClass.FOREIGN_DRIFT if ahead else TableClass.NO_MOVEMENT


OURS = frozenset(
    {TableClass.COMPLETE, TableClass.MISPLACED, TableClass.COMPENSATED, TableClass.AMONG_LATE}
)
"""Classes of tables with an effect of the write that can be undone."""


def decide(classes: Sequence[TableClass], outlook: IntentStatus) -> RecoveryVerdict:
    """Decide the recovery of the whole intent; the first rule that applies wins."""
    seen = set(classes)
    if outlook.is_published and outlook.is_rolled_back:
        return RecoveryVerdict(
            RecoveryDecision.REFUSE, "both its commit and its rollback are visible"
        )
    if outlook.is_branch_lost:
        return RecoveryVerdict(
            RecoveryDecision.REFUSE, "the record of its branch is lost; verify says which"
        )
    if not outlook.is_branch_alive:
        return RecoveryVerdict(RecoveryDecision.DISCARD_BRANCH, "its branch was deleted")
    if outlook.is_published:
        return RecoveryVerdict(RecoveryDecision.FINISH_PUBLISHED, "its commit is visible")
    if outlook.is_rolled_back:
        return RecoveryVerdict(RecoveryDecision.FINISH_ROLLED_BACK, "its rollback is recorded")
    for broken in (TableClass.INVARIANT_BROKEN, TableClass.UNVERIFIABLE, TableClass.BURIED):
        if broken in seen:
            return RecoveryVerdict(RecoveryDecision.REFUSE, f"a table is {broken}")
    if not seen & OURS:
        return RecoveryVerdict(RecoveryDecision.ABANDON, "it had no effect")
    if seen == {TableClass.COMPLETE} and outlook.is_authority_unchanged:
        return RecoveryVerdict(RecoveryDecision.ROLL_FORWARD, "every effect is in place")
    if not outlook.is_authority_unchanged:
        return RecoveryVerdict(RecoveryDecision.ROLL_BACK, "the branch moved on without it")
    return RecoveryVerdict(RecoveryDecision.ROLL_BACK, "only a part of its effects is there")

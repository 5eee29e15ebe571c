"""What to do about an interrupted write: pure functions of what was seen.

All or nothing: a write is finished only if every effect it planned is there, alone and in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.storage.recovery.recovery_observation import ObservedTable, Ownership


class TableClass(StrEnum):
    """What became of one table of an intent."""

    NO_MOVEMENT = "no_movement"
    """Nothing of ours is there."""
    COMPLETE = "complete"
    """Our transaction is the head, exactly one version after its base."""
    MISPLACED = "misplaced"
    """Our transaction is the head, on top of what others published meanwhile."""
    COMPENSATED = "compensated"
    """Our transaction was undone by a restore already."""
    AMONG_LATE = "among_late"
    """Our transaction is above or below versions of operations that ended without them."""
    BURIED = "buried"
    """Our transaction is above or below one of somebody else that was never published."""
    FOREIGN_DRIFT = "foreign_drift"
    """Others moved the table ahead of the graph and nothing of ours is there."""
    UNVERIFIABLE = "unverifiable"
    INVARIANT_BROKEN = "invariant_broken"
    """The graph shows a version the table does not have."""


class RecoveryDecision(StrEnum):
    FINISH_PUBLISHED = "finish_published"
    """The commit is visible: only the intent is left to remove."""
    FINISH_ROLLED_BACK = "finish_rolled_back"
    """The rollback is recorded: only the intent is left to remove."""
    DISCARD_BRANCH = "discard_branch"
    """Its branch is gone, and its effects are unreachable with it."""
    ABANDON = "abandon"
    """It had no effect: forget it."""
    ROLL_FORWARD = "roll_forward"
    ROLL_BACK = "roll_back"
    REFUSE = "refuse"
    """Undoing or finishing it could destroy what somebody else wrote."""


@dataclass(frozen=True, slots=True)
class Outlook:
    """What the manifest says about an intent."""

    is_branch_alive: bool
    is_published: bool = False
    is_rolled_back: bool = False
    is_authority_unchanged: bool = True
    is_branch_lost: bool = False
    """Whether the record of its branch is gone though nobody deleted it."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """What to do about an interrupted write, and why."""

    decision: RecoveryDecision
    reason: str


def classify(table: ObservedTable) -> TableClass:
    base = table.intent.base_version
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
"""Where something of ours is there, which can be undone."""


def decide(classes: Sequence[TableClass], outlook: Outlook) -> Verdict:
    """The one decision for the whole intent; the first rule that applies wins."""
    seen = set(classes)
    if outlook.is_published and outlook.is_rolled_back:
        return Verdict(RecoveryDecision.REFUSE, "both its commit and its rollback are visible")
    if outlook.is_branch_lost:
        return Verdict(
            RecoveryDecision.REFUSE, "the record of its branch is lost; verify says which"
        )
    if not outlook.is_branch_alive:
        return Verdict(RecoveryDecision.DISCARD_BRANCH, "its branch is gone")
    if outlook.is_published:
        return Verdict(RecoveryDecision.FINISH_PUBLISHED, "its commit is visible")
    if outlook.is_rolled_back:
        return Verdict(RecoveryDecision.FINISH_ROLLED_BACK, "its rollback is recorded")
    for broken in (TableClass.INVARIANT_BROKEN, TableClass.UNVERIFIABLE, TableClass.BURIED):
        if broken in seen:
            return Verdict(RecoveryDecision.REFUSE, f"a table is {broken}")
    if not seen & OURS:
        return Verdict(RecoveryDecision.ABANDON, "it had no effect")
    if seen == {TableClass.COMPLETE} and outlook.is_authority_unchanged:
        return Verdict(RecoveryDecision.ROLL_FORWARD, "every effect is in place")
    if not outlook.is_authority_unchanged:
        return Verdict(RecoveryDecision.ROLL_BACK, "the branch moved on without it")
    return Verdict(RecoveryDecision.ROLL_BACK, "only a part of its effects is there")

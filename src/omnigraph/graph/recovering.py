"""Looking at interrupted writes and settling them on request."""

from __future__ import annotations

from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.results import PendingWrite, RecoveredWrite
from omnigraph.identity import MAIN
from omnigraph.storage.manifest import RecoveryAudit
from omnigraph.storage.names import normalize_branch
from omnigraph.storage.recovery import (
    ExaminedIntent,
    SettledIntent,
    examine,
    list_pending_intents,
    settle_all,
)
from omnigraph.storage.root import GraphRoot


def list_pending(root: GraphRoot) -> list[PendingWrite]:
    """Every interrupted write with what recovering would do; changes nothing."""
    return [_describe(examine(root, intent)) for intent in list_pending_intents(root.store)]


def _describe(found: ExaminedIntent) -> PendingWrite:
    intent = found.intent
    classes = zip(found.tables, found.classes, strict=True)
    return PendingWrite(
        operation_id=intent.operation_id,
        branch=intent.branch,
        writer_kind=intent.writer_kind,
        table_keys=intent.table_keys,
        tables={table.intent.table_key: str(kind) for table, kind in classes},
        decision=str(found.verdict.decision),
        reason=found.verdict.reason,
    )


def recover(root: GraphRoot) -> list[RecoveredWrite]:
    """Settle every interrupted write."""
    with root.hold() as hold:
        settled = settle_all(root, hold)
    return [describe_settled(one) for one in settled]


def describe_settled(one: SettledIntent) -> RecoveredWrite:
    return RecoveredWrite(one.operation_id, str(one.decision), one.commit_id)


def list_recoveries(views: BranchSnapshots, branch: str = MAIN) -> tuple[RecoveryAudit, ...]:
    """What was recovered, as a branch remembers it, oldest first."""
    history, manifest = views.history(normalize_branch(branch))
    return history.audits(manifest)

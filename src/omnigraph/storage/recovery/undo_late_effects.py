"""Undoing what a writer did after its operation was settled without it.

Where the fence is a lease, a writer that slept may act once more after another has taken over and
settled its operation. What it leaves is a table version ahead of the graph, of an operation that
is on record as ended: nobody waits for it, so whoever meets it may undo it.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from uuid import uuid4

from omnigraph.errors import UncoveredDrift
from omnigraph.identity import OperationId, TableIdentity
from omnigraph.storage.fence.hold import Hold
from omnigraph.storage.manifest.commits import RecoveryAudit, RecoveryKind, TableOutcome
from omnigraph.storage.manifest.manifest_changes import Publication, SetVersion
from omnigraph.storage.manifest.state import TableEntry
from omnigraph.storage.publish import publish
from omnigraph.storage.recovery.ended_operations import is_late, list_ended_operations
from omnigraph.storage.recovery.intent import EPOCH_PROPERTY, OPERATION_PROPERTY
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables.commit import restore
from omnigraph.storage.tables.history import TableVersionRecord, read_history


def revoke_late_effects(
    snapshot: Snapshot, identities: Iterable[TableIdentity], hold: Hold
) -> bool:
    """Bring these tables back to what the newest snapshot shows; tells whether any was ahead.

    Raises:
        UncoveredDrift: a table was moved by something that is no ended operation of ours; that
            table is left as it is.
    """
    is_any_ahead = False
    for entry in [snapshot.state.by_identity[identity] for identity in identities]:
        location = snapshot.location(entry)
        history = read_history(location, entry.version + 1)
        if not history:
            continue
        if not has_only_late_effects(snapshot, history):
            hold.check()  # who lost it may have met a writer at work
            raise UncoveredDrift(entry.table_key, entry.version, history[-1].version)
        _undo(snapshot, entry, history, hold)
        is_any_ahead = True
    return is_any_ahead


def has_only_late_effects(snapshot: Snapshot, history: Sequence[TableVersionRecord]) -> bool:
    """Whether all these versions were made after their operations had ended without them."""
    ended = list_ended_operations(snapshot.manifest)
    return all(is_late(record, ended) for record in history)


def _list_operations(history: Sequence[TableVersionRecord]) -> set[str]:
    """The operations these versions belong to; an empty one for those of no writer of ours."""
    return {record.properties.get(OPERATION_PROPERTY, "") for record in history}


def _undo(
    snapshot: Snapshot, entry: TableEntry, history: Sequence[TableVersionRecord], hold: Hold
) -> None:
    operations = sorted(_list_operations(history))
    # The restore belongs to an ended operation too: should we die before the publish, whoever
    # comes next finds only versions of ended operations, and restores again.
    properties = {OPERATION_PROPERTY: operations[-1], EPOCH_PROPERTY: str(hold.epoch)}
    location = snapshot.location(entry)
    hold.check()
    restored = restore(location, entry.version, uuid=str(uuid4()), properties=properties)
    change = SetVersion(
        entry.identity,
        entry.table_key,
        restored,
        entry.owner_branch,
        entry.row_count,
        entry.owner,
    )
    outcome = TableOutcome(entry.table_key, history[-1].version, entry.version)
    now = snapshot.root.now_us()
    publication = Publication(
        changes=(change,),
        expected={entry.identity: (entry.table_key, entry.version)},
        audits=tuple(_make_audit(OperationId(one), outcome, now) for one in operations),
    )
    publish(snapshot.root, snapshot.ref, publication, before_commit=hold.check)


def _make_audit(operation: OperationId, outcome: TableOutcome, now_us: int) -> RecoveryAudit:
    kind = RecoveryKind.REVOKED_EFFECT
    return RecoveryAudit(operation, kind, "", None, None, (outcome,), now_us)

"""Telling the versions of tables that nobody waits for.

Where the fence is a lease, a writer that slept may act once more after others have settled its
operation. What it then leaves belongs to an operation that is on record as ended.
"""

from __future__ import annotations

from omnigraph.storage.manifest.commits import RecoveryKind
from omnigraph.storage.manifest.read import History, ManifestSnapshot
from omnigraph.storage.recovery.intent import OPERATION_PROPERTY
from omnigraph.storage.tables.history import TableVersionRecord

RESTORE = "Restore"

ENDED = frozenset(
    {
        RecoveryKind.ROLLED_BACK,
        RecoveryKind.ABANDONED,
        RecoveryKind.ORPHANED_BRANCH_DISCARDED,
        RecoveryKind.REVOKED_EFFECT,
    }
)
"""Ways in which an operation ended without its effects becoming visible."""


def list_ended_operations(manifest: ManifestSnapshot) -> frozenset[str]:
    audits = History().audits(manifest)
    return frozenset(audit.operation_id for audit in audits if audit.kind in ENDED)


def is_late(record: TableVersionRecord, ended: frozenset[str]) -> bool:
    """Whether nobody waits for a version of a table that is ahead of the graph.

    A restore is made by recovery alone and brings nothing that was not there before. One that comes
    after the graph has moved on is that of a settler that slept while another finished the write.
    """
    operation = record.properties.get(OPERATION_PROPERTY, "")
    return operation in ended or (bool(operation) and record.operation == RESTORE)

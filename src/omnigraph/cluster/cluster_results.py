"""Results of cluster commands: structs whose fields are the members of their JSON documents."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from omnigraph.cluster.cluster_changes import BlastRadius, ClusterChange
from omnigraph.cluster.cluster_files import LOCK_FILE, STATE_FILE, ResourceKind, show_control_path
from omnigraph.cluster.cluster_state import (
    Dependency,
    Observation,
    ReadLedger,
    ResourceStatus,
    StateLedger,
)
from omnigraph.cluster.control_records import StateLock
from omnigraph.errors import ClusterDiagnostic
from omnigraph.result import Result


class StateObservations(Result, frozen=True, kw_only=True):
    """The ledger and the lock as observed by a command."""

    state_path: str
    lock_path: str
    state_found: bool
    state_revision: int
    resource_count: int
    locked: bool
    """True if another operator holds the lock."""
    lock_acquired: bool
    """True if the command held the lock itself."""
    applied_config_digest: str | None = None
    state_cas: str | None = None
    lock_id: str | None = None
    acquired_lock_id: str | None = None
    lock_operation: str | None = None
    lock_created_at: str | None = None
    lock_pid: int | None = None
    lock_age_seconds: float | None = None


def observe_state(
    found: ReadLedger | None = None,
    lock: StateLock | None = None,
    acquired: StateLock | None = None,
) -> StateObservations:
    """Describe the ledger, the lock of another operator, and the lock that was acquired."""
    ledger = StateLedger() if found is None else found.ledger
    observed = StateObservations(
        state_path=show_control_path(STATE_FILE),
        lock_path=show_control_path(LOCK_FILE),
        state_found=found is not None,
        state_revision=ledger.state_revision,
        resource_count=len(ledger.resources),
        locked=lock is not None,
        lock_acquired=acquired is not None,
        applied_config_digest=ledger.applied_revision.config_digest,
        state_cas=None if found is None else found.cas,
        acquired_lock_id=None if acquired is None else acquired.lock_id,
    )
    if lock is None:
        return observed
    return msgspec.structs.replace(
        observed,
        lock_id=lock.lock_id,
        lock_operation=lock.operation,
        lock_created_at=lock.created_at,
        lock_pid=lock.pid,
        lock_age_seconds=_find_age(lock.created_at),
    )


def _find_age(created_at: str) -> float | None:
    try:
        return (datetime.now(UTC) - datetime.fromisoformat(created_at)).total_seconds()
    except (ValueError, TypeError):  # written by hand: no time, or one without a time zone
        return None


class ClusterResult(Result, frozen=True, kw_only=True):
    """The result of a command, with its diagnostics."""

    ok: bool
    config_dir: str
    diagnostics: tuple[ClusterDiagnostic, ...]


class DeclaredResource(Result, frozen=True):
    address: str
    kind: ResourceKind
    digest: str
    path: str | None = None


class ValidateResult(ClusterResult, frozen=True, kw_only=True):
    config_file: str
    resource_digests: dict[str, str]
    resources: tuple[DeclaredResource, ...]
    dependencies: tuple[Dependency, ...]


class DesiredRevision(Result, frozen=True):
    config_digest: str | None = None


class RequiredApproval(Result, frozen=True):
    resource: str
    reason: str
    satisfied: bool


class PlanResult(ClusterResult, frozen=True, kw_only=True):
    desired_revision: DesiredRevision
    resource_digests: dict[str, str]
    dependencies: tuple[Dependency, ...]
    state: StateObservations = msgspec.field(name="state_observations")
    changes: tuple[ClusterChange, ...]
    blast_radius: tuple[BlastRadius, ...]
    approvals_required: tuple[RequiredApproval, ...]


class ClusterApplyResult(ClusterResult, frozen=True, kw_only=True):
    actor: str | None = None
    desired_revision: DesiredRevision
    state: StateObservations = msgspec.field(name="state_observations")
    changes: tuple[ClusterChange, ...]
    applied_count: int
    deferred_count: int
    converged: bool
    state_written: bool
    resource_statuses: dict[str, ResourceStatus]


class ApproveResult(ClusterResult, frozen=True, kw_only=True):
    approval_id: str | None = None
    resource: str
    operation: str | None = None
    approved_by: str | None = None


class ClusterStatus(ClusterResult, frozen=True, kw_only=True):
    """The content of the ledger; `operation` is `refresh` or `import` if one of them wrote it."""

    operation: str | None = None
    state: StateObservations = msgspec.field(name="state_observations")
    resource_digests: dict[str, str]
    resource_statuses: dict[str, ResourceStatus]
    observations: dict[str, Observation]


class UnlockResult(ClusterResult, frozen=True, kw_only=True):
    state: StateObservations = msgspec.field(name="state_observations")
    lock_removed: bool

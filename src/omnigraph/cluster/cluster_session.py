"""Sessions and results of cluster commands, and the commands validate, status and force-unlock."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

import msgspec

from omnigraph.cluster.cluster_changes import ClusterChange
from omnigraph.cluster.cluster_config import ClusterConfig, choose_root, read_storage_root
from omnigraph.cluster.cluster_diagnostics import ClusterReport
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.control_records import (
    StateLock,
    hold_lock,
    remove_lock,
    report_lock,
    report_pending,
)
from omnigraph.cluster.desired_state import DesiredResource, DesiredState, read_desired
from omnigraph.cluster.resources import CONFIG_FILE, LOCK_FILE, STATE_FILE, show_control_path
from omnigraph.cluster.state_ledger import (
    Observation,
    ReadLedger,
    ResourceStatus,
    StateLedger,
    find_ledger,
)
from omnigraph.errors import ClusterDiagnostic, ClusterError, Severity
from omnigraph.settings import Settings


@dataclass(frozen=True, slots=True, kw_only=True)
class StateObservations:
    """The ledger and the lock as observed by a command."""

    state_found: bool = False
    applied_config_digest: str | None = None
    state_revision: int = 0
    state_cas: str | None = None
    resource_count: int = 0
    lock: StateLock | None = None
    """The lock of another operator."""
    acquired: StateLock | None = None
    """The lock that the command acquired."""

    @classmethod
    def of(
        cls,
        found: ReadLedger | None,
        lock: StateLock | None = None,
        acquired: StateLock | None = None,
    ) -> StateObservations:
        if found is None:
            return cls(lock=lock, acquired=acquired)
        ledger = found.ledger
        return cls(
            state_found=True,
            applied_config_digest=ledger.applied_revision.config_digest,
            state_revision=ledger.state_revision,
            state_cas=found.cas,
            resource_count=len(ledger.resources),
            lock=lock,
            acquired=acquired,
        )

    def wire(self) -> dict[str, object]:
        held = self.lock
        age = None
        if held is not None:
            began = _parse_time(held.created_at)
            age = None if began is None else (datetime.now(UTC) - began).total_seconds()
        optional = {
            "applied_config_digest": self.applied_config_digest,
            "state_cas": self.state_cas,
            "lock_id": held and held.lock_id,
            "acquired_lock_id": self.acquired and self.acquired.lock_id,
            "lock_operation": held and held.operation,
            "lock_created_at": held and held.created_at,
            "lock_pid": held and held.pid,
            "lock_age_seconds": age,
        }
        return {
            "state_path": show_control_path(STATE_FILE),
            "lock_path": show_control_path(LOCK_FILE),
            "state_found": self.state_found,
            "state_revision": self.state_revision,
            "resource_count": self.resource_count,
            "locked": held is not None,
            "lock_acquired": self.acquired is not None,
            **{name: value for name, value in optional.items() if value is not None},
        }


def _parse_time(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo else None


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterResult:
    """The result of a command, with its diagnostics."""

    config_dir: str
    diagnostics: tuple[ClusterDiagnostic, ...] = ()

    @property
    def ok(self) -> bool:
        return not any(one.is_error for one in self.diagnostics)

    def wire(self) -> dict[str, object]:
        return {
            "ok": self.ok,
            "config_dir": self.config_dir,
            "diagnostics": [one.wire() for one in self.diagnostics],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ValidateResult(ClusterResult):
    config_file: str
    resources: tuple[DesiredResource, ...] = ()
    dependencies: Sequence[tuple[str, str]] = ()

    def wire(self) -> dict[str, object]:
        return {
            **ClusterResult.wire(self),
            "config_file": self.config_file,
            "resource_digests": {one.address: one.digest for one in self.resources},
            "resources": [one.wire() for one in self.resources],
            "dependencies": _wire_dependencies(self.dependencies),
        }


@dataclass(frozen=True, slots=True)
class RequiredApproval:
    resource: str
    reason: str
    satisfied: bool

    def wire(self) -> dict[str, object]:
        return {"resource": self.resource, "reason": self.reason, "satisfied": self.satisfied}


@dataclass(frozen=True, slots=True, kw_only=True)
class PlanResult(ClusterResult):
    config_digest: str | None = None
    resource_digests: Mapping[str, str] = field(default_factory=dict)
    dependencies: Sequence[tuple[str, str]] = ()
    state: StateObservations = field(default_factory=StateObservations)
    changes: tuple[ClusterChange, ...] = ()
    blast_radius: Sequence[Mapping[str, object]] = ()
    approvals_required: tuple[RequiredApproval, ...] = ()

    def wire(self) -> dict[str, object]:
        return {
            **ClusterResult.wire(self),
            "desired_revision": _wire_revision(self.config_digest),
            "resource_digests": dict(self.resource_digests),
            "dependencies": _wire_dependencies(self.dependencies),
            "state_observations": self.state.wire(),
            "changes": [one.wire() for one in self.changes],
            "blast_radius": [dict(one) for one in self.blast_radius],
            "approvals_required": [one.wire() for one in self.approvals_required],
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterApplyResult(ClusterResult):
    actor: str | None = None
    config_digest: str | None = None
    state: StateObservations = field(default_factory=StateObservations)
    changes: tuple[ClusterChange, ...] = ()
    converged: bool = False
    state_written: bool = False
    applied_count: int = 0
    resource_statuses: Mapping[str, ResourceStatus] = field(default_factory=dict)

    @property
    def deferred_count(self) -> int:
        return len(self.changes) - self.applied_count

    def wire(self) -> dict[str, object]:
        actor = {} if self.actor is None else {"actor": self.actor}
        return {
            **ClusterResult.wire(self),
            **actor,
            "desired_revision": _wire_revision(self.config_digest),
            "state_observations": self.state.wire(),
            "changes": [one.wire() for one in self.changes],
            "applied_count": self.applied_count,
            "deferred_count": self.deferred_count,
            "converged": self.converged,
            "state_written": self.state_written,
            "resource_statuses": _wire_structs(self.resource_statuses),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class ApproveResult(ClusterResult):
    approval_id: str | None = None
    resource: str | None = None
    operation: str | None = None
    approved_by: str | None = None

    def wire(self) -> dict[str, object]:
        optional = {
            "approval_id": self.approval_id,
            "resource": self.resource,
            "operation": self.operation,
            "approved_by": self.approved_by,
        }
        given = {name: value for name, value in optional.items() if value is not None}
        return {**ClusterResult.wire(self), **given}


@dataclass(frozen=True, slots=True, kw_only=True)
class ClusterStatus(ClusterResult):
    """The content of the ledger; `operation` is `refresh` or `import` if one of them wrote it."""

    state: StateObservations = field(default_factory=StateObservations)
    ledger: StateLedger = field(default_factory=StateLedger)
    operation: str | None = None

    @property
    def resource_digests(self) -> dict[str, str]:
        return {address: one.digest for address, one in sorted(self.ledger.resources.items())}

    @property
    def resource_statuses(self) -> Mapping[str, ResourceStatus]:
        return self.ledger.resource_statuses

    @property
    def observations(self) -> Mapping[str, Observation]:
        return self.ledger.observations

    def wire(self) -> dict[str, object]:
        operation = {} if self.operation is None else {"operation": self.operation}
        return {
            **ClusterResult.wire(self),
            **operation,
            "state_observations": self.state.wire(),
            "resource_digests": self.resource_digests,
            "resource_statuses": _wire_structs(self.resource_statuses),
            "observations": _wire_structs(self.observations),
        }


@dataclass(frozen=True, slots=True, kw_only=True)
class UnlockResult(ClusterResult):
    state: StateObservations = field(default_factory=StateObservations)
    lock_removed: bool = False

    def wire(self) -> dict[str, object]:
        return {
            **ClusterResult.wire(self),
            "state_observations": self.state.wire(),
            "lock_removed": self.lock_removed,
        }


def _wire_revision(config_digest: str | None) -> dict[str, object]:
    return {} if config_digest is None else {"config_digest": config_digest}


def _wire_dependencies(pairs: Sequence[tuple[str, str]]) -> list[dict[str, object]]:
    return [{"from": one, "to": other} for one, other in pairs]


def _wire_structs(members: Mapping[str, msgspec.Struct]) -> dict[str, object]:
    return {name: msgspec.to_builtins(one) for name, one in sorted(members.items())}


Result = TypeVar("Result", bound=ClusterResult)


@dataclass(frozen=True, slots=True)
class ClusterSession:
    """One command on one folder, with the report of its diagnostics."""

    folder: Path
    settings: Settings
    report: ClusterReport = field(default_factory=ClusterReport)

    @classmethod
    def on(cls, folder: str | Path, settings: Settings | None) -> ClusterSession:
        return cls(Path(folder), settings or Settings())

    @property
    def config_dir(self) -> str:
        return str(self.folder)

    def read_desired(self) -> DesiredState:
        """Read the desired state.

        Raises:
            ClusterError: the configuration has mistakes.
        """
        desired = read_desired(self.folder, self.report)
        self.report.raise_if_errors()
        return desired

    def open_files(self, desired: DesiredState | None = None) -> ClusterFiles:
        """Open the storage root; without a desired state, the one that `cluster.yaml` names."""
        if desired is None:
            return ClusterFiles(read_storage_root(self.folder), self.settings)
        return ClusterFiles(choose_root(self.folder, desired.config.storage), self.settings)

    @contextmanager
    def lock(self, operation: str) -> Iterator[LockedCluster]:
        """Read the desired state and lock the cluster, unless `cluster.yaml` says otherwise."""
        desired = self.read_desired()
        files = self.open_files(desired)
        if not desired.config.locks_state:
            yield LockedCluster(files, desired, self.report, None)
            return
        with hold_lock(files, operation) as lock:
            yield LockedCluster(files, desired, self.report, lock)

    def finish(self, result: Result) -> Result:
        """Return the result with the diagnostics of the session.

        Raises:
            ClusterError: one of them is an error; with all of them and the result.
        """
        result = replace(result, diagnostics=tuple(self.report.found))
        if not result.ok:
            raise ClusterError(result.diagnostics, result)
        return result


@dataclass(frozen=True, slots=True)
class LockedCluster:
    """A cluster under change."""

    files: ClusterFiles
    desired: DesiredState
    report: ClusterReport
    lock: StateLock | None
    """None if `cluster.yaml` declares that no lock is taken."""


def validate_cluster(folder: str | Path) -> ValidateResult:
    """Check the configuration of a folder and every file it names; storage is not read.

    Raises:
        ClusterError: it has mistakes; with all of them and their places.
    """
    session = ClusterSession.on(folder, None)
    desired = DesiredState(session.folder, ClusterConfig())
    with session.report.collect():
        desired = read_desired(session.folder, session.report)
    for graph in desired.config.graphs.values():
        message = f"graph '{graph.id}' accepts no external blobs"
        if graph.external_blobs.bases:  # a list must not be mistaken for a permission
            message += ", listed or not: external_blobs.allow is recorded and not used yet"
        session.report.add("external_blob_ingress_default_deny", graph.at, message)
    return session.finish(
        ValidateResult(
            config_dir=session.config_dir,
            config_file=str(session.folder / CONFIG_FILE),
            resources=tuple(one for _, one in sorted(desired.resources.items())),
            dependencies=desired.list_dependencies(),
        )
    )


def read_cluster_status(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """Read the ledger and the lock, and verify the catalog.

    Writes nothing and opens no graph.

    Raises:
        ClusterError: the ledger or the catalog cannot be read.
    """
    session = ClusterSession.on(folder, settings)
    result = ClusterStatus(config_dir=session.config_dir)
    with session.report.collect():
        files = session.open_files()
        lock = report_lock(files, session.report)
        result = replace(result, state=StateObservations.of(None, lock))
        found = find_ledger(files)
        if found is None:
            message = "there is no ledger: nothing has been applied yet"
            place = show_control_path(STATE_FILE)
            session.report.add("state_missing", place, message, Severity.WARNING)
        else:
            state = StateObservations.of(found, lock)
            result = replace(result, state=state, ledger=found.ledger)
            report_pending(files, session.report)
            for address, digest in found.ledger.list_payloads():
                files.check_payload(address, digest, session.report)
    return session.finish(result)


def unlock_cluster(
    folder: str | Path, lock_id: str, *, settings: Settings | None = None
) -> UnlockResult:
    """Remove the lock of an operator that is gone, named by its id.

    Raises:
        ClusterError: there is no lock, or it has another id.
    """
    session = ClusterSession.on(folder, settings)
    result = UnlockResult(config_dir=session.config_dir)
    with session.report.collect():
        lock = remove_lock(session.open_files(), lock_id)
        result = replace(result, state=StateObservations(lock=lock), lock_removed=True)
    return session.finish(result)

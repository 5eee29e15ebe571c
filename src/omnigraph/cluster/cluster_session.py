"""Sessions of cluster commands, and the commands validate, status, force-unlock, plan and approve.

A command reads what it needs into its session, reports diagnostics there, and returns a result in
any case: as the value, or within the `ClusterError` that ends it if a diagnostic is an error.
"""

from __future__ import annotations

import copy
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from pathlib import Path
from typing import TypedDict, TypeVar

import msgspec

from omnigraph.cluster.cluster_changes import (
    BlastRadius,
    ChangeOperation,
    ClusterChange,
    ClusterPlan,
    find_blast_radius,
    list_changes,
    list_gates,
)
from omnigraph.cluster.cluster_config import choose_root, read_storage_root
from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse, refusing
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_state import ClusterState
from omnigraph.cluster.control_records import (
    ChangeApproval,
    GraphIntent,
    StateLock,
    hold_lock,
    match_approvals,
    remove_intents,
    remove_lock,
    report_lock,
    report_pending,
    write_approval,
)
from omnigraph.cluster.desired_state import DesiredState, read_desired
from omnigraph.cluster.resources import (
    CONFIG_FILE,
    LOCK_FILE,
    STATE_FILE,
    ResourceKind,
    find_resource_kind,
    show_control_path,
)
from omnigraph.cluster.state_ledger import (
    STATE_PATH,
    Observation,
    ReadLedger,
    ResourceStatus,
    StateLedger,
    find_ledger,
    write_ledger,
)
from omnigraph.errors import BadRequest, ClusterDiagnostic, ClusterError, Severity
from omnigraph.graph.graph import open as open_graph
from omnigraph.result import Result
from omnigraph.settings import Settings

# --- results ---


class StateObservations(Result, frozen=True, kw_only=True):
    """The ledger and the lock as observed by a command."""

    state_path: str
    lock_path: str
    state_found: bool
    state_revision: int
    resource_count: int
    locked: bool
    """Whether another operator holds the lock."""
    lock_acquired: bool
    """Whether the command held the lock itself."""
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


class Dependency(Result, frozen=True):
    """A resource and one that it needs."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")


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


class ResultHead(TypedDict):
    """The members of every result."""

    ok: bool
    config_dir: str
    diagnostics: tuple[ClusterDiagnostic, ...]


AnyResult = TypeVar("AnyResult", bound=ClusterResult)

# --- sessions ---


@dataclass(slots=True)
class ClusterSession:
    """One command on one folder: what it has read so far, and the diagnostics it reports."""

    folder: Path
    settings: Settings
    report: ClusterReport = field(default_factory=ClusterReport)
    desired: DesiredState = field(default_factory=DesiredState)
    state: StateObservations = field(default_factory=observe_state)

    @classmethod
    def on(cls, folder: str | Path, settings: Settings | None) -> ClusterSession:
        return cls(Path(folder), settings or Settings())

    def read_desired(self) -> None:
        """Read the desired state; its mistakes end the command."""
        desired = read_desired(self.folder, self.report)
        self.report.raise_if_errors()
        self.desired = desired

    def open_files(self) -> ClusterFiles:
        """Open the storage root of the desired state."""
        return ClusterFiles(choose_root(self.folder, self.desired.config.storage), self.settings)

    def open_declared_files(self) -> ClusterFiles:
        """Open the storage root that `cluster.yaml` names, whatever other mistakes it has."""
        return ClusterFiles(read_storage_root(self.folder), self.settings)

    @contextmanager
    def lock(self, operation: str, actor: str | None = None) -> Iterator[LockedCluster]:
        """Read the desired state and lock the cluster, unless `cluster.yaml` says otherwise."""
        self.read_desired()
        files = self.open_files()
        if not self.desired.config.lock:
            yield LockedCluster(files, self.desired, self.report, None, actor)
            return
        with hold_lock(files, operation) as lock:
            yield LockedCluster(files, self.desired, self.report, lock, actor)

    def make_head(self) -> ResultHead:
        return ResultHead(
            ok=not self.report.has_errors,
            config_dir=str(self.folder),
            diagnostics=tuple(self.report.found),
        )

    def make_status(self, ledger: StateLedger, operation: str | None = None) -> ClusterStatus:
        return finish(
            ClusterStatus(
                **self.make_head(),
                operation=operation,
                state=self.state,
                resource_digests=ledger.applied_revision.digests,
                resource_statuses=dict(sorted(ledger.resource_statuses.items())),
                observations=dict(sorted(ledger.observations.items())),
            )
        )


def finish(result: AnyResult) -> AnyResult:
    """Return the result, unless one of its diagnostics is an error.

    Raises:
        ClusterError: one is; with all of them and the result.
    """
    if not result.ok:
        raise ClusterError(result.diagnostics, result)
    return result


@dataclass
class LockedCluster:
    """A cluster under change, with a copy of its ledger that records the changes."""

    files: ClusterFiles
    desired: DesiredState
    report: ClusterReport
    lock: StateLock | None
    """None if `cluster.yaml` declares that no lock is taken."""
    actor: str | None = None
    base: ReadLedger | None = None
    """The ledger as it was read."""
    ledger: StateLedger = field(default_factory=StateLedger)
    finished: list[GraphIntent] = field(default_factory=list)
    """The intents that are removed once the ledger is written."""
    pending: set[str] = field(default_factory=set)
    """Graphs whose interrupted change could not be resolved."""

    def read_ledger(self) -> ReadLedger | None:
        """Read the ledger and begin to change a copy of it."""
        found = find_ledger(self.files)
        if found is not None:
            self.edit(found)
        return found

    def edit(self, base: ReadLedger) -> None:
        """Begin to change a copy of a ledger."""
        self.base, self.ledger = base, copy.deepcopy(base.ledger)

    def write(self) -> ReadLedger:
        """Write the ledger, and remove the intents of the changes that it records."""
        self.ledger.applied_revision.refresh_digests()
        self.base = write_ledger(self.files, self.ledger, self.base)
        self.remove_intents()
        return self.base

    def remove_intents(self) -> None:
        remove_intents(self.files, self.finished, self.report)


# --- validate, status, force-unlock ---


def validate_cluster(folder: str | Path) -> ValidateResult:
    """Check the configuration of a folder and every file it names; storage is not read.

    Raises:
        ClusterError: it has mistakes; with all of them and their places.
    """
    session = ClusterSession.on(folder, None)
    with session.report.collect():
        session.desired = read_desired(session.folder, session.report)
    for graph_id, graph in session.desired.config.graphs.items():
        message = f"graph '{graph_id}' accepts no external blobs"
        if graph.external_blobs.bases:  # a list must not be mistaken for a permission
            message += ", listed or not: external_blobs.allow is recorded and not used yet"
        session.report.add("external_blob_ingress_default_deny", graph_id.at, message)
    state = session.desired.state
    return finish(
        ValidateResult(
            **session.make_head(),
            config_file=str(session.folder / CONFIG_FILE),
            resource_digests=state.digests,
            resources=tuple(
                DeclaredResource(address, find_resource_kind(address), one.digest, one.source)
                for address, one in sorted(state.resources.items())
            ),
            dependencies=_list_dependencies(state),
        )
    )


def _list_dependencies(state: ClusterState) -> tuple[Dependency, ...]:
    return tuple(Dependency(one, other) for one, other in state.list_dependencies())


def read_cluster_status(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """Read the ledger and the lock, and verify the catalog.

    Writes nothing and opens no graph.

    Raises:
        ClusterError: the ledger or the catalog cannot be read.
    """
    session, found = ClusterSession.on(folder, settings), None
    report = session.report
    with report.collect():
        files = session.open_declared_files()
        lock = report_lock(files, report)
        session.state = observe_state(None, lock)
        found = find_ledger(files)
        session.state = observe_state(found, lock)
        if found is None:
            message = "there is no ledger: nothing has been applied yet"
            report.add("state_missing", STATE_PATH, message, Severity.WARNING)
        else:
            report_pending(files, report)
            for address, digest in found.ledger.applied_revision.list_payloads():
                files.check_payload(address, digest, report)
    return session.make_status(StateLedger() if found is None else found.ledger)


def unlock_cluster(
    folder: str | Path, lock_id: str, *, settings: Settings | None = None
) -> UnlockResult:
    """Remove the lock of an operator that is gone, named by its id.

    Raises:
        ClusterError: there is no lock, or it has another id.
    """
    session, lock = ClusterSession.on(folder, settings), None
    with session.report.collect():
        lock = remove_lock(session.open_declared_files(), lock_id)
    state = observe_state(None, lock)
    return finish(UnlockResult(**session.make_head(), state=state, lock_removed=lock is not None))


# --- plan and approve ---


def plan_cluster(folder: str | Path, *, settings: Settings | None = None) -> PlanResult:
    """Plan an apply. Takes no lock and writes nothing.

    Raises:
        ClusterError: the configuration has mistakes, or the ledger cannot be used.
    """
    session = ClusterSession.on(folder, settings)
    plan, changes = ClusterPlan(ClusterState(), ClusterState()), list[ClusterChange]()
    with session.report.collect():
        session.read_desired()
        files, report = session.open_files(), session.report
        lock = report_lock(files, report)
        found = find_ledger(files)
        if found is None:
            with report.collect(Severity.WARNING):
                require_no_roots(files)
        ledger = StateLedger() if found is None else found.ledger
        pending = report_pending(files, report)
        plan = plan_changes(files, session.desired, ledger, pending, report)
        changes = [
            _preview(files, session.desired, one, report) for one in plan.classify().values()
        ]
        session.state = observe_state(found, lock)
    return finish(
        PlanResult(
            **session.make_head(),
            desired_revision=DesiredRevision(plan.desired.config_digest),
            resource_digests=plan.desired.digests,
            dependencies=_list_dependencies(plan.desired),
            state=session.state,
            changes=tuple(changes),
            blast_radius=find_blast_radius(changes, plan.desired, plan.applied),
            approvals_required=tuple(
                RequiredApproval(one.resource, one.reason, one.resource in plan.approvals)
                for one in plan.gates
            ),
        )
    )


def require_no_roots(files: ClusterFiles) -> None:
    """Raise if there are graphs: a new ledger must record them."""
    with refusing("state_read_error", STATE_PATH):
        roots = files.list_roots()
    if roots:
        message = (
            f"there is no ledger, but there are graphs: {', '.join(roots)}; "
            "run `omnigraph cluster import`"
        )
        raise refuse("state_missing", STATE_PATH, message)


def plan_changes(
    files: ClusterFiles,
    desired: DesiredState,
    ledger: StateLedger,
    pending: Iterable[str],
    report: ClusterReport,
) -> ClusterPlan:
    """Compare a ledger with a configuration, and find the approvals that the changes need."""
    applied = ClusterState(ledger.applied_revision.config_digest, dict(ledger.resources))
    changes = list(list_changes(applied, desired.state))
    gates = list_gates(changes, desired.state.config_digest, ledger.observations)
    approvals = match_approvals(gates, files, ledger.approval_records, report)
    return ClusterPlan(applied, desired.state, frozenset(pending), gates, approvals)


def _preview(
    files: ClusterFiles, desired: DesiredState, change: ClusterChange, report: ClusterReport
) -> ClusterChange:
    """Return the change, with its migration steps if it updates a schema."""
    is_update = change.operation is ChangeOperation.UPDATE
    if change.kind is not ResourceKind.SCHEMA or not is_update or change.graph_id is None:
        return change
    code = "schema_preview_unavailable"
    with report.collect(Severity.WARNING), refusing(code, change.resource):
        files.require_root(change.graph_id)
        uri, settings = files.graph_uri(change.graph_id), files.settings
        with open_graph(uri, read_only=True, settings=settings) as graph:
            wire = graph.plan_schema(desired.files[change.resource].source).wire()
        migration = {"supported": wire["supported"], "steps": wire["steps"]}
        return msgspec.structs.replace(change, migration=migration)
    return change


def approve_change(
    folder: str | Path, resource: str, *, actor: str | None, settings: Settings | None = None
) -> ApproveResult:
    """Approve a gated change: the deletion of a graph, or its creation once more.

    The approval is bound to the current state and configuration.

    Raises:
        BadRequest: the actor is missing.
        ClusterError: the change needs no approval, or it cannot be stored.
    """
    if not actor:
        raise BadRequest("an approval needs an actor; give one with --as")
    session, found = ClusterSession.on(folder, settings), None
    with session.report.collect(), session.lock("approve") as cluster:
        cluster.read_ledger()
        plan = plan_changes(cluster.files, cluster.desired, cluster.ledger, (), session.report)
        found = plan.approvals.get(resource)
        if found is None:
            signed = _find_gate(plan, resource).sign(actor)
            write_approval(cluster.files, signed)
            found = signed
    return finish(
        ApproveResult(
            **session.make_head(),
            approval_id=None if found is None else found.approval_id,
            resource=resource,
            operation=None if found is None else found.operation,
            approved_by=None if found is None else found.approved_by,
        )
    )


def _find_gate(plan: ClusterPlan, resource: str) -> ChangeApproval:
    gate = next((one for one in plan.gates if one.resource == resource), None)
    if gate is None:
        gated = ", ".join(one.resource for one in plan.gates)
        hint = f"these changes need one: {gated}" if gated else "no change needs one"
        raise refuse("approval_not_required", resource, f"it needs no approval; {hint}")
    return gate

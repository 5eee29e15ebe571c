"""Plan what applying a configuration would change, and approve the changes that need it."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from omnigraph.cluster.cluster_changes import (
    AppliedState,
    ChangeOperation,
    ClusterChange,
    classify,
    find_blast_radius,
    list_applied_dependencies,
    list_changes,
    list_gates,
)
from omnigraph.cluster.cluster_config import read_storage_root
from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_session import (
    ApproveResult,
    ClusterSession,
    PlanResult,
    RequiredApproval,
    StateObservations,
    UnlockResult,
    require_ok,
)
from omnigraph.cluster.control_records import (
    ChangeApproval,
    GatedChange,
    list_pending,
    match_approvals,
    read_approvals,
    remove_lock,
    warn_of_lock,
    write_approval,
)
from omnigraph.cluster.desired_state import DesiredState
from omnigraph.cluster.resources import STATE_FILE, ResourceKind, show_control_path
from omnigraph.cluster.state_ledger import StateLedger, read_clock
from omnigraph.errors import BadRequest, ClusterError, OmniError, Severity, StorageError
from omnigraph.graph.graph import open as open_graph
from omnigraph.identity import UlidSource
from omnigraph.settings import Settings


def plan_cluster(folder: str | Path, *, settings: Settings | None = None) -> PlanResult:
    """What an apply would do now. Takes no lock and writes nothing.

    Raises:
        ClusterError: the configuration has mistakes, or the ledger cannot be used.
    """
    session = ClusterSession.on(folder, settings)
    result = PlanResult(config_dir=session.config_dir)
    with session.collect():
        desired = session.read_desired()
        result = _plan(session, desired)
    return require_ok(replace(result, diagnostics=tuple(session.report.found)))


def _plan(session: ClusterSession, desired: DesiredState) -> PlanResult:
    files, report = session.open_files(desired), session.report
    lock = warn_of_lock(files, report)
    found = files.find_ledger()
    ledger = StateLedger() if found is None else found.ledger
    if found is None:
        _warn_of_roots(files, report)
    pending = list_pending(files, report)
    drawn = plan_cluster_changes(files, desired, ledger, set(pending), report)
    changes = tuple(_preview(files, desired, one, report) for one in drawn.changes)
    dependencies = {*desired.list_dependencies(), *list_applied_dependencies(ledger.resources)}
    return PlanResult(
        config_dir=session.config_dir,
        config_digest=desired.config_digest,
        resource_digests=desired.digests,
        dependencies=desired.list_dependencies(),
        state=StateObservations.of(found, lock),
        changes=changes,
        blast_radius=find_blast_radius(changes, sorted(dependencies)),
        approvals_required=drawn.list_required(),
    )


def _warn_of_roots(files: ClusterFiles, report: ClusterReport) -> None:
    """Say that an apply would refuse to begin a ledger beside graphs that it does not know."""
    try:
        require_no_roots(files)
    except ClusterError as error:
        for one in error.diagnostics:
            report.add(one.code, one.path, one.message, Severity.WARNING)


def require_no_roots(files: ClusterFiles) -> None:
    """Raise if there are graphs: a ledger that is begun must know them.

    Raises:
        ClusterError: there are.
    """
    place = show_control_path(STATE_FILE)
    try:
        roots = files.list_roots()
    except StorageError as error:
        raise refuse("state_read_error", place, error.message) from error
    if roots:
        message = (
            f"there is no ledger, but there are graphs: {', '.join(roots)}; "
            "run `omnigraph cluster import`"
        )
        raise refuse("state_missing", place, message)


@dataclass(frozen=True, slots=True)
class PlannedChanges:
    """The changes between a ledger and a configuration, classified."""

    changes: list[ClusterChange]
    gates: list[GatedChange]
    approvals: dict[str, ChangeApproval]
    """The approvals that fit, by resource."""

    def list_required(self) -> tuple[RequiredApproval, ...]:
        return tuple(
            RequiredApproval(gate.resource, gate.reason, gate.resource in self.approvals)
            for gate in self.gates
        )


def plan_cluster_changes(
    files: ClusterFiles,
    desired: DesiredState,
    ledger: StateLedger,
    pending: set[str],
    report: ClusterReport,
) -> PlannedChanges:
    """What separates a ledger from a configuration, and what an apply does with each change."""
    changes = list_changes(desired, ledger.resources)
    gates = list_gates(changes, desired.config_digest, ledger.observations)
    given = read_approvals(files, ledger.approval_records, report)
    approvals = match_approvals(gates, given, report)
    gated = {gate.resource for gate in gates}
    standing = AppliedState(ledger.resources, pending, approvals.keys(), gated)
    return PlannedChanges(classify(changes, standing, desired), gates, approvals)


def _preview(
    files: ClusterFiles, desired: DesiredState, change: ClusterChange, report: ClusterReport
) -> ClusterChange:
    """The change with the steps of its schema, if it is one of a schema that is there."""
    is_schema = change.kind is ResourceKind.SCHEMA
    if not is_schema or change.operation is not ChangeOperation.UPDATE or change.graph_id is None:
        return change
    try:
        files.require_root(change.graph_id)
        uri, settings = files.graph_uri(change.graph_id), files.settings
        with open_graph(uri, read_only=True, settings=settings) as graph:
            migration = graph.plan_schema(desired.resources[change.resource].source)
    except OmniError as error:
        report.add("schema_preview_unavailable", change.resource, error.message)
        return change
    wire = migration.wire()
    return replace(change, migration={"supported": wire["supported"], "steps": wire["steps"]})


_ids = UlidSource()


def approve_change(
    folder: str | Path, resource: str, *, actor: str | None, settings: Settings | None = None
) -> ApproveResult:
    """Allow a change that needs an approval: the deletion of a graph, or creating it once more.

    The approval holds for the state and the configuration of now.

    Raises:
        BadRequest: nobody is named who approves.
        ClusterError: the change needs no approval, or it cannot be written down.
    """
    if not actor:
        raise BadRequest("an approval needs an actor; give one with --as")
    session = ClusterSession.on(folder, settings)
    result = ApproveResult(config_dir=session.config_dir, resource=resource)
    with session.collect():
        desired = session.read_desired()
        files = session.open_files(desired)
        with session.lock(files, desired, "approve"):
            approval = _approve(session, files, desired, resource, actor)
            result = replace(
                result,
                approval_id=approval.approval_id,
                operation=approval.operation,
                approved_by=approval.approved_by,
            )
    return require_ok(replace(result, diagnostics=tuple(session.report.found)))


def _approve(
    session: ClusterSession, files: ClusterFiles, desired: DesiredState, resource: str, actor: str
) -> ChangeApproval:
    found = files.find_ledger()
    ledger = StateLedger() if found is None else found.ledger
    drawn = plan_cluster_changes(files, desired, ledger, set(), session.report)
    gate = next((one for one in drawn.gates if one.resource == resource), None)
    if gate is None:
        gated = ", ".join(one.resource for one in drawn.gates)
        hint = f"these changes need one: {gated}" if gated else "no change needs one"
        raise refuse("approval_not_required", resource, f"it needs no approval; {hint}")
    approval = drawn.approvals.get(resource)
    if approval is None:
        approval = ChangeApproval(
            approval_id=_ids.next(),
            resource=gate.resource,
            operation=gate.operation,
            reason=gate.reason,
            bound_config_digest=gate.config_digest,
            bound_before_digest=gate.before_digest,
            bound_after_digest=gate.after_digest,
            approved_by=actor,
            created_at=read_clock(),
        )
        write_approval(files, approval)
    return approval


def unlock_cluster(
    folder: str | Path, lock_id: str, *, settings: Settings | None = None
) -> UnlockResult:
    """Remove the lock of an operator who is gone, named by its id.

    Raises:
        ClusterError: there is no lock, or it has another id.
    """
    session = ClusterSession.on(folder, settings)
    result = UnlockResult(config_dir=session.config_dir)
    with session.collect():
        files = ClusterFiles(read_storage_root(session.folder), session.settings)
        removed = remove_lock(files, lock_id)
        state = StateObservations(lock=removed)
        result = replace(result, state=state, lock_removed=True)
    return require_ok(replace(result, diagnostics=tuple(session.report.found)))

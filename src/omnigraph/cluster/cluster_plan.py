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
    list_changes,
    list_gates,
)
from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse, refusing
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_session import (
    ApproveResult,
    ClusterSession,
    PlanResult,
    RequiredApproval,
    StateObservations,
)
from omnigraph.cluster.control_records import (
    ChangeApproval,
    match_approvals,
    report_lock,
    report_pending,
    write_approval,
)
from omnigraph.cluster.desired_state import DesiredState
from omnigraph.cluster.resources import STATE_FILE, ResourceKind, show_control_path
from omnigraph.cluster.state_ledger import StateLedger, find_ledger
from omnigraph.errors import BadRequest, Severity
from omnigraph.graph.graph import open as open_graph
from omnigraph.settings import Settings


def plan_cluster(folder: str | Path, *, settings: Settings | None = None) -> PlanResult:
    """Plan an apply. Takes no lock and writes nothing.

    Raises:
        ClusterError: the configuration has mistakes, or the ledger cannot be used.
    """
    session = ClusterSession.on(folder, settings)
    result = PlanResult(config_dir=session.config_dir)
    with session.report.collect():
        result = _plan(session, session.read_desired())
    return session.finish(result)


def _plan(session: ClusterSession, desired: DesiredState) -> PlanResult:
    files, report = session.open_files(desired), session.report
    lock = report_lock(files, report)
    found = find_ledger(files)
    ledger = StateLedger() if found is None else found.ledger
    if found is None:
        with report.collect(Severity.WARNING):
            require_no_roots(files)
    pending = report_pending(files, report)
    planned = plan_cluster_changes(files, desired, ledger, pending, report)
    changes = tuple(_preview(files, desired, one, report) for one in planned.changes)
    dependencies = desired.list_dependencies()
    return PlanResult(
        config_dir=session.config_dir,
        config_digest=desired.config_digest,
        resource_digests=desired.digests,
        dependencies=dependencies,
        state=StateObservations.of(found, lock),
        changes=changes,
        blast_radius=find_blast_radius(
            changes, sorted({*dependencies, *ledger.list_dependencies()})
        ),
        approvals_required=tuple(
            RequiredApproval(gate.resource, gate.reason, gate.resource in planned.approvals)
            for gate in planned.gates
        ),
    )


def require_no_roots(files: ClusterFiles) -> None:
    """Raise if there are graphs: a new ledger must record them.

    Raises:
        ClusterError: there are.
    """
    place = show_control_path(STATE_FILE)
    with refusing("state_read_error", place):
        roots = files.list_roots()
    if roots:
        message = (
            f"there is no ledger, but there are graphs: {', '.join(roots)}; "
            "run `omnigraph cluster import`"
        )
        raise refuse("state_missing", place, message)


@dataclass(frozen=True, slots=True)
class PlannedChanges:
    """The classified changes between a ledger and a configuration."""

    changes: list[ClusterChange]
    gates: list[ChangeApproval]
    approvals: dict[str, ChangeApproval]
    """The approvals of gates, by resource."""


def plan_cluster_changes(
    files: ClusterFiles,
    desired: DesiredState,
    ledger: StateLedger,
    pending: set[str],
    report: ClusterReport,
) -> PlannedChanges:
    """Compute the changes between a ledger and a configuration, and the disposition of each."""
    changes = list_changes(desired, ledger.resources)
    gates = list_gates(changes, desired.config_digest, ledger.observations)
    approvals = match_approvals(gates, files, ledger.approval_records, report)
    gated = {gate.resource for gate in gates}
    state = AppliedState(ledger.resources, pending, approvals.keys(), gated)
    return PlannedChanges(classify(changes, state, desired), gates, approvals)


def _preview(
    files: ClusterFiles, desired: DesiredState, change: ClusterChange, report: ClusterReport
) -> ClusterChange:
    """Return the change, with its migration steps if it updates a schema."""
    is_schema = change.kind is ResourceKind.SCHEMA
    if not is_schema or change.operation is not ChangeOperation.UPDATE or change.graph_id is None:
        return change
    code = "schema_preview_unavailable"
    with report.collect(Severity.WARNING), refusing(code, change.resource):
        files.require_root(change.graph_id)
        uri, settings = files.graph_uri(change.graph_id), files.settings
        with open_graph(uri, read_only=True, settings=settings) as graph:
            wire = graph.plan_schema(desired.resources[change.resource].source).wire()
        return replace(change, migration={"supported": wire["supported"], "steps": wire["steps"]})
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
    session = ClusterSession.on(folder, settings)
    result = ApproveResult(config_dir=session.config_dir, resource=resource)
    with session.report.collect(), session.lock("approve") as cluster:
        found = find_ledger(cluster.files)
        ledger = StateLedger() if found is None else found.ledger
        planned = plan_cluster_changes(
            cluster.files, cluster.desired, ledger, set(), session.report
        )
        approval = planned.approvals.get(resource)
        if approval is None:
            approval = _find_gate(planned.gates, resource).sign(actor)
            write_approval(cluster.files, approval)
        result = replace(
            result,
            approval_id=approval.approval_id,
            operation=approval.operation,
            approved_by=approval.approved_by,
        )
    return session.finish(result)


def _find_gate(gates: list[ChangeApproval], resource: str) -> ChangeApproval:
    gate = next((one for one in gates if one.resource == resource), None)
    if gate is None:
        gated = ", ".join(one.resource for one in gates)
        hint = f"these changes need one: {gated}" if gated else "no change needs one"
        raise refuse("approval_not_required", resource, f"it needs no approval; {hint}")
    return gate

"""Commands that write no ledger: validate, status, force-unlock, plan and approve.

Each returns a result whose fields are the members of its JSON document.
"""

from __future__ import annotations

from pathlib import Path

import msgspec

from omnigraph.cluster.cluster_diagnostics import refuse, refusing
from omnigraph.cluster.cluster_files import CONFIG_FILE, ResourceKind, find_resource_kind
from omnigraph.cluster.cluster_session import (
    ClusterResult,
    ClusterSession,
    ClusterStatus,
    DesiredRevision,
    StateObservations,
    finish,
)
from omnigraph.cluster.cluster_state import (
    BlastRadius,
    ChangeOperation,
    ClusterChange,
    ClusterPlan,
    Dependency,
)
from omnigraph.cluster.control_records import APPROVALS, STATE_PATH, ChangeApproval
from omnigraph.cluster.desired_state import read_desired
from omnigraph.errors import BadRequest, Severity
from omnigraph.graph.graph import open as open_graph
from omnigraph.result import Result
from omnigraph.settings import Settings


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


def validate_cluster(folder: str | Path) -> ValidateResult:
    """Check the configuration of a folder and every file it names; storage is not read.

    Raises:
        ClusterError: it has mistakes; with all of them and their positions.
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
            dependencies=tuple(state.list_dependencies()),
        )
    )


def read_cluster_status(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """Read the ledger and the lock, and verify the catalog.

    Writes nothing and opens no graph.

    Raises:
        ClusterError: the ledger or the catalog cannot be read.
    """
    session = ClusterSession.on(folder, settings)
    report = session.report
    with report.collect():
        files = session.open_files()
        session.report_lock()
        if session.read_ledger() is None:
            message = "there is no ledger: nothing has been applied yet"
            report.add("state_missing", STATE_PATH, message, Severity.WARNING)
        else:
            session.report_pending()
            for address, digest in session.ledger.applied_revision.list_payloads():
                problem = files.find_payload_problem(address, digest)
                report.extend([] if problem is None else [problem])
    return finish(session.make_status())


class UnlockResult(ClusterResult, frozen=True, kw_only=True):
    state: StateObservations = msgspec.field(name="state_observations")
    lock_removed: bool


def unlock_cluster(
    folder: str | Path, lock_id: str, *, settings: Settings | None = None
) -> UnlockResult:
    """Remove the lock of an operator that is gone, named by its id.

    Raises:
        ClusterError: there is no lock, or it has another id.
    """
    session = ClusterSession.on(folder, settings)
    with session.report.collect():
        session.open_files()
        session.remove_lock(lock_id)
    is_removed = session.other_lock is not None
    return finish(
        UnlockResult(**session.make_head(), state=session.observe_state(), lock_removed=is_removed)
    )


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


def plan_cluster(folder: str | Path, *, settings: Settings | None = None) -> PlanResult:
    """Plan an apply. Takes no lock and writes nothing.

    Raises:
        ClusterError: the configuration has mistakes, or the ledger cannot be used.
    """
    session = ClusterSession.on(folder, settings)
    plan, changes = ClusterPlan(), list[ClusterChange]()
    with session.report.collect():
        session.read_desired()
        session.report_lock()
        if session.read_ledger() is None:
            with session.report.collect(Severity.WARNING):
                session.require_no_roots()
        session.report_pending()
        plan = session.plan()
        changes = [_preview(session, one) for one in plan.classify().values()]
    return finish(
        PlanResult(
            **session.make_head(),
            desired_revision=DesiredRevision(plan.desired.config_digest),
            resource_digests=plan.desired.digests,
            dependencies=tuple(plan.desired.list_dependencies()),
            state=session.observe_state(),
            changes=tuple(changes),
            blast_radius=plan.find_blast_radius(),
            approvals_required=tuple(
                RequiredApproval(address, reason, address in plan.approved)
                for address, reason in plan.gates.items()
            ),
        )
    )


def _preview(session: ClusterSession, change: ClusterChange) -> ClusterChange:
    """Return the change, with its migration steps if it updates a schema."""
    files, graph_id = session.files, change.graph_id
    is_update = change.operation is ChangeOperation.UPDATE
    if change.kind is not ResourceKind.SCHEMA or not is_update or graph_id is None:
        return change
    code = "schema_preview_unavailable"
    with session.report.collect(Severity.WARNING), refusing(code, change.resource):
        files.require_root(graph_id)
        with open_graph(
            files.graph_uri(graph_id), read_only=True, settings=files.settings
        ) as graph:
            wire = graph.plan_schema(session.desired.files[change.resource].source).wire()
        migration = {"supported": wire["supported"], "steps": wire["steps"]}
        return msgspec.structs.replace(change, migration=migration)
    return change


class ApproveResult(ClusterResult, frozen=True, kw_only=True):
    approval_id: str | None = None
    resource: str
    operation: str | None = None
    approved_by: str | None = None


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
    with session.report.collect(), session.lock("approve"):
        session.read_ledger()
        plan = session.plan()
        if resource not in plan.gates:
            gated = ", ".join(plan.gates)
            hint = f"these changes need one: {gated}" if gated else "no change needs one"
            raise refuse("approval_not_required", resource, f"it needs no approval; {hint}")
        found = session.approvals.get(resource)
        if found is None:
            signed = ChangeApproval.sign(plan, resource, actor)
            APPROVALS.put(session.files.control, signed)
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

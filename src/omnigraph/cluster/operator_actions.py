"""What an operator decides: allowing a change that cannot be undone, and removing a stale lock."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from omnigraph.cluster.approvals import ChangeApproval, write_approval
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_plan import draw_changes
from omnigraph.cluster.cluster_report import refuse
from omnigraph.cluster.cluster_results import ApproveResult, StateObservations, UnlockResult
from omnigraph.cluster.cluster_session import ClusterSession, require_ok
from omnigraph.cluster.config_text import read_storage_root
from omnigraph.cluster.desired_state import DesiredState
from omnigraph.cluster.state_ledger import StateLedger, read_clock
from omnigraph.cluster.state_lock import remove_lock
from omnigraph.errors import BadRequest
from omnigraph.identity import UlidSource
from omnigraph.settings import Settings

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
    drawn = draw_changes(files, desired, ledger, set(), session.report)
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

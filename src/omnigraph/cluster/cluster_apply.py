"""Making a cluster what its configuration says, and recording it in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path

from omnigraph.cluster.cluster_changes import (
    APPROVAL_REQUIRED,
    DEPENDENCY,
    RECOVERY_PENDING,
    UNSUPPORTED,
    ChangeOperation,
    ClusterChange,
    Disposition,
)
from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse
from omnigraph.cluster.cluster_files import ClusterFiles, ReadLedger
from omnigraph.cluster.cluster_plan import plan_cluster_changes, require_no_roots
from omnigraph.cluster.cluster_session import (
    ClusterApplyResult,
    ClusterSession,
    StateObservations,
    require_ok,
)
from omnigraph.cluster.control_records import (
    ChangeApproval,
    StateLock,
    mark_approvals_consumed,
    remove_sidecar,
)
from omnigraph.cluster.desired_state import DesiredState
from omnigraph.cluster.managed_graphs import GraphOperations, SweepResult, sweep
from omnigraph.cluster.resources import ResourceKind, find_graph_id, graph_address, schema_address
from omnigraph.cluster.state_ledger import LedgerDraft, ResourceStatus, StateLedger, StatusWord
from omnigraph.errors import ClusterError, StorageError
from omnigraph.settings import Settings

_WAITS = {
    APPROVAL_REQUIRED: "it needs an approval by `omnigraph cluster approve`",
    DEPENDENCY: "what it depends on was not applied",
    RECOVERY_PENDING: "an interrupted change of the graph is not settled",
}
_KEPT_CONDITIONS = ("actual_applied_state_pending", "graph_create_incomplete")
"""Conditions of graphs that a sweep could not settle."""


def apply_cluster(
    folder: str | Path, *, actor: str | None = None, settings: Settings | None = None
) -> ClusterApplyResult:
    """Make the cluster what the configuration of a folder says.

    What needs an approval, or depends on what could not be done, is left out and told in warnings;
    `converged` says whether everything was done.

    Raises:
        ClusterError: something failed; what was done before it is recorded.
    """
    session = ClusterSession.on(folder, settings)
    result = ClusterApplyResult(config_dir=session.config_dir, actor=actor)
    with session.collect():
        desired = session.read_desired()
        files = session.open_files(desired)
        with session.lock(files, desired, "apply") as lock:
            run = _ApplyRun(files, desired, session.report, actor, lock)
            with session.collect():
                run.apply()
            result = run.make_result(session.config_dir)
    return require_ok(replace(result, diagnostics=tuple(session.report.found)))


@dataclass
class _ApplyRun:
    files: ClusterFiles
    desired: DesiredState
    report: ClusterReport
    actor: str | None
    lock: StateLock | None
    found: ReadLedger | None = None
    changes: dict[str, ClusterChange] = field(default_factory=dict)
    approvals: dict[str, ChangeApproval] = field(default_factory=dict)
    draft: LedgerDraft = field(default_factory=lambda: LedgerDraft.of(StateLedger()))
    is_begun: bool = False
    """Whether a ledger was made."""
    is_recorded: bool = False
    """Whether the ledger says what was done."""
    is_converged: bool = False
    has_failed: bool = False
    """Whether a change of a graph failed: then no other graph is changed."""

    def apply(self) -> None:
        """Do what can be done, and record it.

        Raises:
            ClusterError: the ledger cannot be read or written, or the catalog not be written.
        """
        self.found = found = self._find_ledger()
        self.draft = LedgerDraft.of(found.ledger)
        swept = sweep(self.files, self.draft, self.desired, self.report, self.lock)
        drawn = plan_cluster_changes(
            self.files, self.desired, self.draft.freeze(), swept.pending, self.report
        )
        self.changes = {change.resource: change for change in drawn.changes}
        self.approvals = drawn.approvals
        self._warn_of_stopped()
        mover = GraphOperations(self.files, self.draft, self.report, self.actor, found.cas)
        self._move_graphs(mover)
        self._publish_texts()
        self._delete_graphs(mover)
        self._record_rest()
        self._set_statuses(swept)
        self._write(swept, mover)

    def _find_ledger(self) -> ReadLedger:
        """The ledger; one is begun where there is none and no graph that it should know."""
        found = self.files.find_ledger()
        if found is None:
            require_no_roots(self.files)
            # Written first: a root without a ledger must never be what an interruption leaves.
            found = self.files.write_ledger(StateLedger(state_revision=1), None)
            self.is_begun = True
        return found

    # --- graphs ---

    def _move_graphs(self, mover: GraphOperations) -> None:
        for change in self._select(ResourceKind.GRAPH, ChangeOperation.CREATE):
            graph_id = str(change.graph_id)
            schema = self.desired.resources[schema_address(graph_id)]
            approval = self.approvals.get(change.resource)
            if self._may_move(change, "graph_create_skipped"):
                self._try(change, partial(mover.create, graph_id, schema, approval))
        for change in self._select(ResourceKind.SCHEMA, None):
            graph = self.changes.get(graph_address(str(change.graph_id)))
            if graph is not None and graph.operation is not ChangeOperation.UPDATE:
                continue  # its schema comes and goes with it
            schema = self.desired.resources[change.resource]
            if self._may_move(change, "schema_apply_skipped"):
                self._try(change, partial(mover.apply_schema, str(change.graph_id), schema))

    def _delete_graphs(self, mover: GraphOperations) -> None:
        for change in self._select(ResourceKind.GRAPH, ChangeOperation.DELETE):
            approval = self.approvals[change.resource]
            if self._may_move(change, "graph_delete_skipped"):
                self._try(change, partial(mover.delete, str(change.graph_id), approval))

    def _select(
        self, kind: ResourceKind, operation: ChangeOperation | None
    ) -> Iterable[ClusterChange]:
        """The changes of a kind that are to be made."""
        return [
            one
            for one in self.changes.values()
            if one.kind is kind and one.is_carried_out and operation in (None, one.operation)
        ]

    def _may_move(self, change: ClusterChange, skipped: str) -> bool:
        if self.has_failed:
            message = "not tried, because a change of another graph failed"
            self.report.add(skipped, change.resource, message)
            self._stop(change, skipped, message)
        return not self.has_failed

    def _try(self, change: ClusterChange, move: Callable[[], None]) -> None:
        try:
            move()
        except ClusterError as error:
            self.has_failed = True
            self.report.extend(error.diagnostics)
            first = error.diagnostics[0]
            self._stop(change, first.code, first.message, StatusWord.ERROR)

    def _stop(
        self,
        change: ClusterChange,
        reason: str,
        message: str,
        status: StatusWord = StatusWord.BLOCKED,
    ) -> None:
        """Note that a change was not made; what depends on it is not made either."""
        self._mark(change, reason, message, status)
        for other in list(self.changes.values()):
            if other.is_carried_out and self._depends(other, change):
                self._mark(other, DEPENDENCY, f"waits for {change.resource}", StatusWord.BLOCKED)

    def _mark(self, change: ClusterChange, reason: str, message: str, status: StatusWord) -> None:
        stopped = replace(change, disposition=Disposition.BLOCKED, reason=reason)
        self.changes[change.resource] = stopped
        self.draft.set_status(change.resource, status, reason, message)

    def _depends(self, other: ClusterChange, change: ClusterChange) -> bool:
        """Whether another change must not be made because one of a graph was not."""
        if other.graph_id is not None:
            return other.graph_id == change.graph_id
        graph = graph_address(str(change.graph_id))
        if other.kind is ResourceKind.POLICY:
            return self._is_bound(other.resource, graph)
        # A graph that keeps its provider needs it.
        used = self.draft.resources.get(graph)
        return (
            other.operation is ChangeOperation.DELETE
            and used is not None
            and used.embedding_provider == other.resource
        )

    def _is_bound(self, policy: str, graph: str) -> bool:
        before, after = self.draft.resources.get(policy), self.desired.resources.get(policy)
        bound = (before and before.applies_to) or ()
        return graph in (*bound, *((after and after.record.applies_to) or ()))

    def _warn_of_stopped(self) -> None:
        for change in self.changes.values():
            if change.reason == UNSUPPORTED:
                message = f"a {change.kind} is not {change.operation}d without its graph"
                self.report.add("apply_unsupported_change", change.resource, message)
            elif change.reason is not None:
                message = f"cannot {change.operation} it yet: {_WAITS[change.reason]}"
                self.report.add("apply_dependency_blocked", change.resource, message)

    # --- everything else ---

    def _publish_texts(self) -> None:
        """Write queries and policies to the catalog; any failure leaves the ledger as it is."""
        for kind in (ResourceKind.QUERY, ResourceKind.POLICY):
            for change in self._select(kind, None):
                if change.operation is ChangeOperation.DELETE:
                    continue
                resource = self.desired.resources[change.resource]
                resource.require_unchanged()
                assert resource.data is not None, "queries and policies are files"
                try:
                    self.files.write_payload(change.resource, resource.data)
                except StorageError as error:
                    code = "resource_payload_write_error"
                    raise refuse(code, change.resource, error.message) from error

    def _record_rest(self) -> None:
        """Note in the draft what needs no change of a graph."""
        for change in self.changes.values():
            if not change.is_carried_out:
                continue
            after = self.desired.resources.get(change.resource)
            if after is None:
                self.draft.resources.pop(change.resource, None)
            elif change.kind is not ResourceKind.SCHEMA:
                self.draft.resources[change.resource] = after.record

    def _set_statuses(self, swept: SweepResult) -> None:
        stopped = {r: one for r, one in self.changes.items() if not one.is_carried_out}
        before, statuses = self.draft.statuses, dict[str, ResourceStatus]()
        for address in sorted(self.draft.resources.keys() | stopped.keys()):
            known = before.get(address)
            is_kept = known is not None and any(c in _KEPT_CONDITIONS for c in known.conditions)
            if address in stopped:
                statuses[address] = self._describe_stopped(stopped[address], known)
            elif known is not None and is_kept and _is_pending(address, swept):
                statuses[address] = known
            else:
                statuses[address] = ResourceStatus(StatusWord.APPLIED)
        self.draft.statuses = statuses
        self.is_converged = not stopped and not swept.pending
        if self.is_converged:
            self.draft.config_digest = self.desired.config_digest
        elif self.draft.resources != self.draft.base.resources:
            self.draft.config_digest = None

    def _describe_stopped(
        self, change: ClusterChange, known: ResourceStatus | None
    ) -> ResourceStatus:
        reason = (change.reason,) if change.reason else ()
        if known is not None and known.conditions == reason:
            return known
        is_later = change.disposition is Disposition.DEFERRED
        return ResourceStatus(StatusWord.PENDING if is_later else StatusWord.BLOCKED, reason)

    def _write(self, swept: SweepResult, mover: GraphOperations) -> None:
        if self.draft.is_changed:
            self.found = self.files.write_ledger(self.draft.freeze(), self.found)
            self.is_recorded = True
        for operation_id in (*swept.settled, *mover.made):
            remove_sidecar(self.files, operation_id, self.report)
        mark_approvals_consumed(self.files, self.draft.approvals, self.report)

    def make_result(self, config_dir: str) -> ClusterApplyResult:
        return ClusterApplyResult(
            config_dir=config_dir,
            actor=self.actor,
            config_digest=self.desired.config_digest,
            state=StateObservations.of(self.found, None, self.lock),
            changes=tuple(self.changes[address] for address in sorted(self.changes)),
            converged=self.is_converged,
            state_written=self.is_recorded or self.is_begun,
            applied_count=sum(one.is_carried_out for one in self.changes.values())
            if self.is_recorded
            else 0,
            resource_statuses=self.draft.statuses,
        )


def _is_pending(address: str, swept: SweepResult) -> bool:
    return find_graph_id(address) in swept.pending

"""Apply the configuration of a cluster, and record the result in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
from omnigraph.cluster.cluster_plan import plan_cluster_changes, require_no_roots
from omnigraph.cluster.cluster_session import (
    ClusterApplyResult,
    ClusterSession,
    LockedCluster,
    StateObservations,
)
from omnigraph.cluster.control_records import ChangeApproval, mark_approvals_consumed
from omnigraph.cluster.managed_graphs import CREATE_INCOMPLETE, UNATTRIBUTED, GraphChanges
from omnigraph.cluster.resources import ResourceKind, find_graph_id, graph_address, schema_address
from omnigraph.cluster.state_ledger import (
    ReadLedger,
    ResourceStatus,
    StateLedger,
    StatusWord,
    find_ledger,
    write_ledger,
)
from omnigraph.errors import ClusterError
from omnigraph.settings import Settings

_WAITS = {
    APPROVAL_REQUIRED: "it needs an approval by `omnigraph cluster approve`",
    DEPENDENCY: "what it depends on was not applied",
    RECOVERY_PENDING: "an interrupted change of the graph is not settled",
}


def apply_cluster(
    folder: str | Path, *, actor: str | None = None, settings: Settings | None = None
) -> ClusterApplyResult:
    """Make the cluster what the configuration of a folder declares.

    A change that needs an approval, or depends on one that was not made, is omitted with a warning;
    `converged` tells whether every change was made.

    Raises:
        ClusterError: something failed; the changes before it are recorded.
    """
    session = ClusterSession.on(folder, settings)
    result = ClusterApplyResult(config_dir=session.config_dir, actor=actor)
    with session.report.collect(), session.lock("apply") as cluster:
        run = _ApplyRun(cluster, actor)
        with session.report.collect():
            run.apply()
        result = run.make_result(session.config_dir)
    return session.finish(result)


@dataclass
class _ApplyRun:
    cluster: LockedCluster
    actor: str | None
    graphs: GraphChanges = field(init=False)
    found: ReadLedger | None = None
    changes: dict[str, ClusterChange] = field(default_factory=dict)
    approvals: dict[str, ChangeApproval] = field(default_factory=dict)
    statuses: dict[str, ResourceStatus] = field(default_factory=dict)
    is_created: bool = False
    """Whether the ledger was created."""
    is_recorded: bool = False
    """Whether the ledger records the changes."""
    is_converged: bool = False
    has_failed: bool = False
    """Whether a change of a graph failed: then no other graph is changed."""

    @property
    def ledger(self) -> StateLedger:
        return self.graphs.ledger

    def apply(self) -> None:
        """Make the changes that can be made, and record them.

        Raises:
            ClusterError: the ledger cannot be read or written, or the catalog not be written.
        """
        self.found = self._find_ledger()
        self.graphs = GraphChanges.of(self.cluster, self.found, self.actor)
        self.statuses = self.ledger.resource_statuses
        planned = plan_cluster_changes(
            self.cluster.files,
            self.cluster.desired,
            self.ledger.refresh_digests(),
            self.graphs.pending,
            self.cluster.report,
        )
        self.changes = {change.resource: change for change in planned.changes}
        self.approvals = planned.approvals
        self._report_omitted()
        self._create_graphs()
        self._apply_schemas()
        self._publish_payloads()
        self._delete_graphs()
        self._record_resources()
        self._set_statuses()
        self._write()

    def _find_ledger(self) -> ReadLedger:
        """Return the ledger; where there is none and no graph either, it is created."""
        found = find_ledger(self.cluster.files)
        if found is None:
            require_no_roots(self.cluster.files)
            # Written first: an interruption must never leave a root without a ledger.
            found = write_ledger(self.cluster.files, StateLedger(), None)
            self.is_created = True
        return found

    def _report_omitted(self) -> None:
        for change in self.changes.values():
            if change.reason == UNSUPPORTED:
                message = f"a {change.kind} is not {change.operation}d without its graph"
                self.cluster.report.add("apply_unsupported_change", change.resource, message)
            elif change.reason is not None:
                message = f"cannot {change.operation} it yet: {_WAITS[change.reason]}"
                self.cluster.report.add("apply_dependency_blocked", change.resource, message)

    # --- graphs ---

    def _create_graphs(self) -> None:
        for change in self._select(ResourceKind.GRAPH, ChangeOperation.CREATE):
            graph_id = str(change.graph_id)
            schema = self.cluster.desired.resources[schema_address(graph_id)]
            approval = self.approvals.get(change.resource)
            create = partial(self.graphs.create, graph_id, schema, approval)
            self._try(change, "graph_create_skipped", create)

    def _apply_schemas(self) -> None:
        for change in self._select(ResourceKind.SCHEMA):
            graph = self.changes.get(graph_address(str(change.graph_id)))
            if graph is not None and graph.operation is not ChangeOperation.UPDATE:
                continue  # its schema is created and deleted with it
            schema = self.cluster.desired.resources[change.resource]
            apply = partial(self.graphs.apply_schema, str(change.graph_id), schema)
            self._try(change, "schema_apply_skipped", apply)

    def _delete_graphs(self) -> None:
        for change in self._select(ResourceKind.GRAPH, ChangeOperation.DELETE):
            approval = self.approvals[change.resource]
            delete = partial(self.graphs.delete, str(change.graph_id), approval)
            self._try(change, "graph_delete_skipped", delete)

    def _select(
        self, kind: ResourceKind, operation: ChangeOperation | None = None
    ) -> Iterator[ClusterChange]:
        """Yield the changes of a kind to make, as they are when their turn comes."""
        for address in list(self.changes):
            one = self.changes[address]
            if one.kind is kind and one.is_carried_out and operation in (None, one.operation):
                yield one

    def _try(self, change: ClusterChange, skipped: str, make: Callable[[], None]) -> None:
        """Make a change of a graph, unless one failed before."""
        if self.has_failed:
            message = "not tried, because a change of another graph failed"
            self.cluster.report.add(skipped, change.resource, message)
            self._block(change, skipped, message, StatusWord.BLOCKED)
            return
        try:
            make()
        except ClusterError as error:
            self.has_failed = True
            self.cluster.report.extend(error.diagnostics)
            first = error.diagnostics[0]
            self._block(change, first.code, first.message, StatusWord.ERROR)

    def _block(self, change: ClusterChange, reason: str, message: str, status: StatusWord) -> None:
        """Mark a change as not made, and with it the changes that depend on it."""
        self._mark(change, reason, message, status)
        for other in list(self.changes.values()):
            if other.is_carried_out and self._depends(other, change):
                self._mark(other, DEPENDENCY, f"waits for {change.resource}", StatusWord.BLOCKED)

    def _mark(self, change: ClusterChange, reason: str, message: str, status: StatusWord) -> None:
        blocked = replace(change, disposition=Disposition.BLOCKED, reason=reason)
        self.changes[change.resource] = blocked
        self.ledger.set_status(change.resource, status, reason, message)

    def _depends(self, other: ClusterChange, change: ClusterChange) -> bool:
        """Return whether another change depends on a change of a graph that was not made."""
        if other.graph_id is not None:
            return other.graph_id == change.graph_id
        graph = graph_address(str(change.graph_id))
        if other.kind is ResourceKind.POLICY:
            return self._is_bound(other.resource, graph)
        # A provider is needed while a graph uses it.
        used = self.ledger.resources.get(graph)
        return (
            other.operation is ChangeOperation.DELETE
            and used is not None
            and used.embedding_provider == other.resource
        )

    def _is_bound(self, policy: str, graph: str) -> bool:
        before = self.ledger.resources.get(policy)
        after = self.cluster.desired.resources.get(policy)
        bound = (before and before.applies_to) or ()
        return graph in (*bound, *((after and after.record.applies_to) or ()))

    # --- other resources ---

    def _publish_payloads(self) -> None:
        """Write queries and policies to the catalog; a failure leaves the ledger unchanged."""
        for kind in (ResourceKind.QUERY, ResourceKind.POLICY):
            for change in self._select(kind):
                if change.operation is not ChangeOperation.DELETE:
                    resource = self.cluster.desired.resources[change.resource]
                    resource.require_unchanged()
                    assert resource.data is not None, "queries and policies are files"
                    self.cluster.files.write_payload(change.resource, resource.data)

    def _record_resources(self) -> None:
        """Record the changes that change no graph."""
        for change in self.changes.values():
            if not change.is_carried_out:
                continue
            after = self.cluster.desired.resources.get(change.resource)
            if after is None:
                self.ledger.resources.pop(change.resource, None)
            elif change.kind is not ResourceKind.SCHEMA:
                self.ledger.resources[change.resource] = after.record

    def _set_statuses(self) -> None:
        omitted = {r: one for r, one in self.changes.items() if not one.is_carried_out}
        before, statuses = self.ledger.resource_statuses, dict[str, ResourceStatus]()
        for address in sorted(self.ledger.resources.keys() | omitted.keys()):
            known = before.get(address)
            if address in omitted:
                statuses[address] = _describe_omitted(omitted[address], known)
            elif known is not None and self._is_unresolved(address, known):
                statuses[address] = known
            else:
                statuses[address] = ResourceStatus(StatusWord.APPLIED)
        self.ledger.resource_statuses = self.statuses = statuses
        self.is_converged = not omitted and not self.graphs.pending
        assert self.found is not None
        if self.is_converged:
            self.ledger.applied_revision.config_digest = self.cluster.desired.config_digest
        elif self.ledger.resources != self.found.ledger.resources:
            self.ledger.applied_revision.config_digest = None

    def _is_unresolved(self, address: str, known: ResourceStatus) -> bool:
        conditions = {UNATTRIBUTED, CREATE_INCOMPLETE}.intersection(known.conditions)
        return bool(conditions) and find_graph_id(address) in self.graphs.pending

    def _write(self) -> None:
        if self.graphs.is_changed:
            self.found = self.graphs.write()
            self.is_recorded = True
        else:
            self.graphs.remove_intents()
        mark_approvals_consumed(
            self.cluster.files, self.ledger.approval_records, self.cluster.report
        )

    def make_result(self, config_dir: str) -> ClusterApplyResult:
        return ClusterApplyResult(
            config_dir=config_dir,
            actor=self.actor,
            config_digest=self.cluster.desired.config_digest,
            state=StateObservations.of(self.found, None, self.cluster.lock),
            changes=tuple(self.changes[address] for address in sorted(self.changes)),
            converged=self.is_converged,
            state_written=self.is_recorded or self.is_created,
            applied_count=sum(one.is_carried_out for one in self.changes.values())
            if self.is_recorded
            else 0,
            resource_statuses=self.statuses,
        )


def _describe_omitted(change: ClusterChange, known: ResourceStatus | None) -> ResourceStatus:
    reason = (change.reason,) if change.reason else ()
    if known is not None and known.conditions == reason:
        return known
    is_later = change.disposition is Disposition.DEFERRED
    return ResourceStatus(StatusWord.PENDING if is_later else StatusWord.BLOCKED, reason)

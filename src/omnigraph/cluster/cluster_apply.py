"""Apply the configuration of a cluster, and record the result in the ledger."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path

from omnigraph.cluster.cluster_changes import (
    APPROVAL_REQUIRED,
    DEPENDENCY,
    RECOVERY_PENDING,
    UNSUPPORTED,
    ChangeOperation,
    ClusterChange,
    ClusterPlan,
    Disposition,
)
from omnigraph.cluster.cluster_files import (
    ResourceKind,
    find_graph_id,
    graph_address,
    schema_address,
)
from omnigraph.cluster.cluster_results import ClusterApplyResult, DesiredRevision
from omnigraph.cluster.cluster_session import ClusterSession, finish, require_no_roots
from omnigraph.cluster.control_records import mark_approvals_consumed, remove_intents
from omnigraph.cluster.managed_graphs import (
    CREATE_INCOMPLETE,
    UNATTRIBUTED,
    apply_graph_schema,
    create_graph,
    delete_graph,
    recover_changes,
)
from omnigraph.cluster.state_ledger import ResourceStatus, StateLedger, StatusWord, write_ledger
from omnigraph.errors import ClusterError
from omnigraph.settings import Settings

_WAITS = {
    APPROVAL_REQUIRED: "it needs an approval by `omnigraph cluster approve`",
    DEPENDENCY: "what it depends on was not applied",
    RECOVERY_PENDING: "an interrupted change of the graph is not finished",
}
_SKIPPED = {
    ChangeOperation.CREATE: "graph_create_skipped",
    ChangeOperation.UPDATE: "schema_apply_skipped",
    ChangeOperation.DELETE: "graph_delete_skipped",
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
    session = ClusterSession.on(folder, settings, actor)
    run, revision = _ApplyRun(session), DesiredRevision()
    with session.report.collect(), session.lock("apply"):
        revision = DesiredRevision(session.desired.state.config_digest)
        with session.report.collect():
            run.apply()
        session.show_state()
    applied = sum(one.is_carried_out for one in run.changes.values()) if run.is_recorded else 0
    return finish(
        ClusterApplyResult(
            **session.make_head(),
            actor=actor,
            desired_revision=revision,
            state=session.state,
            changes=tuple(run.changes.values()),
            applied_count=applied,
            deferred_count=len(run.changes) - applied,
            converged=run.is_converged,
            state_written=run.is_recorded or run.is_created,
            resource_statuses=dict(sorted(run.statuses.items())),
        )
    )


@dataclass
class _ApplyRun:
    cluster: ClusterSession
    plan: ClusterPlan = field(init=False)
    changes: dict[str, ClusterChange] = field(default_factory=dict)
    """The changes by resource, in the order of their addresses."""
    failed: dict[str, str] = field(default_factory=dict)
    """The reasons of the changes of graphs that failed or were skipped, by resource."""
    stopped: dict[str, ResourceStatus] = field(default_factory=dict)
    """The statuses of those changes, and of the changes that depend on them."""
    statuses: dict[str, ResourceStatus] = field(default_factory=dict)
    is_created: bool = False
    """True if the ledger was created."""
    is_recorded: bool = False
    """True if the ledger records the changes."""
    is_converged: bool = False

    def apply(self) -> None:
        """Make the changes that can be made, and record them."""
        cluster = self.cluster
        self._read_ledger()
        recover_changes(cluster)
        cluster.ledger.applied_revision.refresh_digests()
        self.statuses = cluster.ledger.resource_statuses
        self.plan = cluster.plan()
        self.changes = self.plan.classify()
        self._report_omitted()
        self._change_graphs(ResourceKind.GRAPH, ChangeOperation.CREATE)
        self._change_graphs(ResourceKind.SCHEMA, ChangeOperation.UPDATE)
        self._publish_payloads()
        self._change_graphs(ResourceKind.GRAPH, ChangeOperation.DELETE)
        self._record_resources()
        self._set_statuses()
        self._write()

    def _read_ledger(self) -> None:
        """Read the ledger; where there is none and no graph either, it is created."""
        files = self.cluster.files
        if self.cluster.read_ledger() is None:
            require_no_roots(files)
            # Written first: an interruption must never leave a root without a ledger.
            self.cluster.edit(write_ledger(files, StateLedger(), None))
            self.is_created = True

    def _report_omitted(self) -> None:
        report = self.cluster.report
        for change in self.changes.values():
            if change.reason == UNSUPPORTED:
                message = f"a {change.kind} is not {change.operation}d without its graph"
                report.add("apply_unsupported_change", change.resource, message)
            elif change.reason is not None:
                message = f"cannot {change.operation} it yet: {_WAITS[change.reason]}"
                report.add("apply_dependency_blocked", change.resource, message)

    def _select(self, *kinds: ResourceKind) -> Iterator[ClusterChange]:
        """Yield the changes of some kinds to make, as they are when their turn comes."""
        for address in list(self.changes):
            one = self.changes[address]
            if one.kind in kinds and one.is_carried_out:
                yield one

    # --- graphs ---

    def _change_graphs(self, kind: ResourceKind, operation: ChangeOperation) -> None:
        for change in self._select(kind):
            if kind is ResourceKind.GRAPH:
                is_due = change.operation is operation
            else:  # the schema of a graph is created and deleted with the graph
                graph = self.changes.get(graph_address(str(change.graph_id)))
                is_due = graph is None or graph.operation is ChangeOperation.UPDATE
            if is_due:
                self._try(change, _SKIPPED[operation], self._prepare(change))

    def _prepare(self, change: ClusterChange) -> Callable[[], None]:
        """Return the function that makes a change of a graph."""
        graph_id, cluster = str(change.graph_id), self.cluster
        approval = self.plan.approvals.get(change.resource)
        if change.kind is ResourceKind.GRAPH and change.operation is ChangeOperation.DELETE:
            assert approval is not None, "a deletion without an approval is blocked"
            return partial(delete_graph, cluster, graph_id, approval)
        schema = cluster.desired.files[schema_address(graph_id)]
        if change.kind is ResourceKind.GRAPH:
            return partial(create_graph, cluster, graph_id, schema, approval)
        return partial(apply_graph_schema, cluster, graph_id, schema)

    def _try(self, change: ClusterChange, skipped: str, make: Callable[[], None]) -> None:
        """Make a change of a graph, unless one failed before."""
        if self.failed:
            message = "not tried, because a change of another graph failed"
            self.cluster.report.add(skipped, change.resource, message)
            status = ResourceStatus(StatusWord.BLOCKED, (skipped,), message)
        else:
            try:
                make()
                return
            except ClusterError as error:
                self.cluster.report.extend(error.diagnostics)
                first = error.diagnostics[0]
                status = ResourceStatus(StatusWord.ERROR, (first.code,), first.message)
        self.failed[change.resource], before = status.conditions[0], self.changes
        self.changes = self.plan.classify(self.failed)
        waiting = f"waits for {change.resource}"
        for address, one in self.changes.items():
            if before[address].is_carried_out and not one.is_carried_out:
                self.stopped[address] = ResourceStatus(StatusWord.BLOCKED, (DEPENDENCY,), waiting)
        self.stopped[change.resource] = status

    # --- other resources ---

    def _publish_payloads(self) -> None:
        """Write queries and policies to the catalog; a failure leaves the ledger unchanged."""
        files = self.cluster.desired.files
        for kind in (ResourceKind.QUERY, ResourceKind.POLICY):
            for change in self._select(kind):
                if change.operation is not ChangeOperation.DELETE:
                    file = files[change.resource]
                    file.require_unchanged(change.resource)
                    self.cluster.files.write_payload(change.resource, file.data)

    def _record_resources(self) -> None:
        """Record the changes that change no graph."""
        resources = self.cluster.ledger.resources
        for change in self._select(*ResourceKind):
            after = self.plan.desired.resources.get(change.resource)
            if after is None:
                resources.pop(change.resource, None)
            elif change.kind is not ResourceKind.SCHEMA:
                resources[change.resource] = after

    def _set_statuses(self) -> None:
        cluster, ledger = self.cluster, self.cluster.ledger
        omitted = {r: one for r, one in self.changes.items() if not one.is_carried_out}
        before, self.statuses = ledger.resource_statuses, {}
        for address in sorted(ledger.resources.keys() | omitted.keys()):
            known = before.get(address)
            if address in omitted:
                self.statuses[address] = self._describe_omitted(omitted[address])
            elif known is not None and self._is_unresolved(address, known):
                self.statuses[address] = known
            else:
                self.statuses[address] = ResourceStatus(StatusWord.APPLIED)
        ledger.resource_statuses = self.statuses
        self.is_converged = not omitted and not cluster.pending
        assert cluster.base is not None
        if self.is_converged:
            ledger.applied_revision.config_digest = cluster.desired.state.config_digest
        elif ledger.resources != cluster.base.ledger.resources:
            ledger.applied_revision.config_digest = None

    def _describe_omitted(self, change: ClusterChange) -> ResourceStatus:
        is_deferred = change.disposition is Disposition.DEFERRED
        word = StatusWord.PENDING if is_deferred else StatusWord.BLOCKED
        usual = ResourceStatus(word, (change.reason,) if change.reason else ())
        return self.stopped.get(change.resource, usual)

    def _is_unresolved(self, address: str, known: ResourceStatus) -> bool:
        conditions = {UNATTRIBUTED, CREATE_INCOMPLETE}.intersection(known.conditions)
        return bool(conditions) and find_graph_id(address) in self.cluster.pending

    def _write(self) -> None:
        cluster = self.cluster
        cluster.ledger.applied_revision.refresh_digests()
        assert cluster.base is not None
        if cluster.ledger != cluster.base.ledger:
            cluster.write_ledger()
            self.is_recorded = True
        else:
            remove_intents(cluster.files, cluster.finished, cluster.report)
        records = cluster.ledger.approval_records
        mark_approvals_consumed(cluster.files, records, cluster.report)

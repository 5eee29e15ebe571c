"""Commands that write the ledger: apply the configuration; refresh from graphs, or import them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import msgspec

from omnigraph.cluster.cluster_diagnostics import refuse
from omnigraph.cluster.cluster_files import (
    ResourceKind,
    find_graph_id,
    find_resource_kind,
    graph_address,
    schema_address,
)
from omnigraph.cluster.cluster_session import (
    ClusterResult,
    ClusterSession,
    ClusterStatus,
    DesiredRevision,
    StateObservations,
    finish,
)
from omnigraph.cluster.cluster_state import (
    APPROVAL_REQUIRED,
    DEPENDENCY,
    RECOVERY_PENDING,
    UNSUPPORTED,
    ChangeOperation,
    ClusterChange,
    ClusterPlan,
    Disposition,
)
from omnigraph.cluster.control_records import (
    STATE_PATH,
    GraphObservation,
    ResourceStatus,
    StateLedger,
    StatusWord,
    find_ledger,
    write_ledger,
)
from omnigraph.cluster.graph_changes import UNRESOLVED, ManagedGraph, recover_changes
from omnigraph.errors import ClusterError
from omnigraph.settings import Settings

GRAPH_MISSING = "graph_missing"
SCHEMA_MISMATCH = "schema_mismatch"
OBSERVATION_ERROR = "graph_observation_error"
UNAVAILABLE = ""
"""The digest of a policy whose text is lost: it stays bound, so its graphs are not served."""
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


# --- apply ---


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
        run.apply()
    applied = sum(one.is_carried_out for one in run.changes.values()) if run.is_recorded else 0
    return finish(
        ClusterApplyResult(
            **session.make_head(),
            actor=actor,
            desired_revision=revision,
            state=session.observe_state(),
            changes=tuple(run.changes.values()),
            applied_count=applied,
            deferred_count=len(run.changes) - applied,
            converged=run.is_converged,
            state_written=run.is_recorded or run.is_created,
            resource_statuses=dict(sorted(session.ledger.resource_statuses.items())),
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
    is_created: bool = False
    """True if the ledger was created."""
    is_recorded: bool = False
    """True if the ledger records the changes."""
    is_converged: bool = False

    def apply(self) -> None:
        """Make the changes that can be made, and record them."""
        cluster = self.cluster
        if cluster.read_ledger() is None:
            cluster.require_no_roots()
            # Written first: an interruption must never leave a root without a ledger.
            cluster.edit(write_ledger(cluster.files, StateLedger(), None))
            self.is_created = True
        recover_changes(cluster)
        cluster.ledger.applied_revision.refresh_digests()
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

    def _change_graphs(self, kind: ResourceKind, operation: ChangeOperation) -> None:
        """Make the changes of one kind to graphs that are created, updated or deleted."""
        for change in self._select(kind):
            graph_id = str(change.graph_id)
            graph = self.changes.get(graph_address(graph_id))
            if (ChangeOperation.UPDATE if graph is None else graph.operation) is not operation:
                continue
            skipped, status = _SKIPPED[operation], None
            if self.failed:
                message = "not tried, because a change of another graph failed"
                self.cluster.report.add(skipped, change.resource, message)
                status = ResourceStatus(StatusWord.BLOCKED, (skipped,), message)
            else:
                try:
                    self._change_graph(change)
                except ClusterError as error:
                    self.cluster.report.extend(error.diagnostics)
                    first = error.diagnostics[0]
                    status = ResourceStatus(StatusWord.ERROR, (first.code,), first.message)
            if status is not None:
                self._stop(change, status)

    def _change_graph(self, change: ClusterChange) -> None:
        graph = ManagedGraph(self.cluster, str(change.graph_id))
        if change.kind is ResourceKind.SCHEMA:
            graph.apply_schema()
        elif change.operation is ChangeOperation.CREATE:
            graph.create()
        else:
            graph.delete()

    def _stop(self, change: ClusterChange, status: ResourceStatus) -> None:
        """Note a change that failed or was skipped, and those that depend on it."""
        self.failed[change.resource], before = status.conditions[0], self.changes
        self.changes = replace(self.plan, failed=self.failed).classify()
        waiting = ResourceStatus(StatusWord.BLOCKED, (DEPENDENCY,), f"waits for {change.resource}")
        for address, one in self.changes.items():
            if before[address].is_carried_out and not one.is_carried_out:
                self.stopped[address] = waiting
        self.stopped[change.resource] = status

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
        omitted = {one.resource for one in self.changes.values() if not one.is_carried_out}
        before = ledger.resource_statuses
        ledger.resource_statuses = {
            address: self._find_status(address, before.get(address))
            for address in sorted(ledger.resources.keys() | omitted)
        }
        self.is_converged = not omitted and not cluster.pending
        assert cluster.base is not None
        if self.is_converged:
            ledger.applied_revision.config_digest = cluster.desired.state.config_digest
        elif ledger.resources != cluster.base.record.resources:
            ledger.applied_revision.config_digest = None

    def _find_status(self, address: str, known: ResourceStatus | None) -> ResourceStatus:
        change = self.changes.get(address)
        if change is not None and not change.is_carried_out:
            is_deferred = change.disposition is Disposition.DEFERRED
            word = StatusWord.PENDING if is_deferred else StatusWord.BLOCKED
            usual = ResourceStatus(word, (change.reason,) if change.reason else ())
            return self.stopped.get(address, usual)
        is_pending = find_graph_id(address) in self.cluster.pending
        if known is not None and is_pending and UNRESOLVED.intersection(known.conditions):
            return known
        return ResourceStatus(StatusWord.APPLIED)

    def _write(self) -> None:
        """Write the ledger unless it is as before; intents and approvals follow it."""
        cluster = self.cluster
        cluster.ledger.applied_revision.refresh_digests()
        if cluster.base is None or cluster.ledger != cluster.base.record:
            cluster.write_ledger()
            self.is_recorded = True
        else:
            cluster.remove_intents(*cluster.finished)
        cluster.mark_approvals_consumed()


# --- refresh and import ---


def refresh_cluster(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """Observe every graph and the catalog, and record the observations in the ledger.

    A missing graph, a schema that was changed elsewhere and a lost text are marked, so that the
    next apply restores them.

    Raises:
        ClusterError: there is no ledger, or a graph cannot be opened; that is recorded as well.
    """
    cluster = ClusterSession.on(folder, settings)
    with cluster.report.collect(), cluster.lock("refresh"):
        if cluster.read_ledger() is None:
            message = "there is no ledger; run `omnigraph cluster apply` or `import`"
            raise refuse("state_missing", STATE_PATH, message)
        recover_changes(cluster)
        for graph_id in cluster.ledger.applied_revision.graph_ids:
            if graph_id not in cluster.pending:
                _record_graph(cluster, graph_id)
        for address, digest in cluster.ledger.applied_revision.list_payloads():
            _record_payload(cluster, address, digest)
        cluster.write_ledger()
    return finish(cluster.make_status("refresh"))


def import_cluster(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """Create the first ledger from existing graphs: after it was lost, or for older graphs.

    A policy whose text is lost, and every query, waits for the next apply.

    Raises:
        ClusterError: there is a ledger, or a graph cannot be opened; nothing is written.
    """
    cluster = ClusterSession.on(folder, settings)
    with cluster.report.collect(), cluster.lock("import"):
        if find_ledger(cluster.files) is not None:
            message = "there is a ledger already; `omnigraph cluster refresh` updates it"
            raise refuse("state_already_exists", STATE_PATH, message)
        recover_changes(cluster)
        ledger = cluster.ledger
        for graph_id in cluster.desired.config.graphs:
            if graph_address(graph_id) not in ledger.resources:  # it was not just recovered
                _record_graph(cluster, graph_id)
        for address, record in cluster.desired.state.resources.items():
            kind = find_resource_kind(address)
            if kind in (ResourceKind.POLICY, ResourceKind.PROVIDER):
                ledger.resources[address] = record
                ledger.set_status([address], StatusWord.APPLIED)
            if kind is ResourceKind.POLICY and cluster.files.find_payload_problem(
                address, record.digest
            ):
                ledger.resources[address] = msgspec.structs.replace(record, digest=UNAVAILABLE)
                ledger.set_status([address], StatusWord.PENDING)
        cluster.report.raise_if_errors()
        cluster.write_ledger()
    return finish(cluster.make_status("import"))


def _record_graph(cluster: ClusterSession, graph_id: str) -> None:
    """Observe a graph, and record its schema if the ledger has none or another one."""
    ledger, graph = cluster.ledger, ManagedGraph(cluster, graph_id)
    both = graph.address, schema_address(graph_id)
    record, known = ledger.resources.get(both[1]), ledger.observations.get(graph.address)
    desired, observed = cluster.desired.find_schema_digest(graph_id), graph.observe()
    if not observed.exists and cluster.base is None:
        ledger.set_status(both, StatusWord.PENDING)
        return
    ledger.record_observation(observed, desired)
    version, live = observed.graph_manifest_version or 0, observed.schema_digest
    before = (known.graph_manifest_version or 0) if isinstance(known, GraphObservation) else 0
    if not observed.exists:
        # Its observation is kept: creating it once more needs an approval.
        for address in both:
            ledger.resources.pop(address, None)
        message = "there is nothing at the root of the graph"
        ledger.set_status(both, StatusWord.DRIFTED, GRAPH_MISSING, message)
    elif live is None:
        graph.block(OBSERVATION_ERROR, str(observed.error), OBSERVATION_ERROR)
    elif version < before:
        message = (
            f"the graph is at version {version} and was at {before} before: "
            "it was replaced or restored; refresh once more if that is as it should be"
        )
        graph.block("conflicting_graph_manifest_observation", message, OBSERVATION_ERROR)
    else:
        is_expected = live == (desired if record is None else record.held_digest)
        if record is None or not is_expected:
            ledger.record_schema(graph_id, live)
        if is_expected:
            ledger.set_status(both, StatusWord.APPLIED)
        else:
            expected = "declared" if record is None else "applied"
            message = f"the graph has another schema than the one that was {expected}"
            ledger.set_status(both, StatusWord.DRIFTED, SCHEMA_MISMATCH, message)


def _record_payload(cluster: ClusterSession, address: str, digest: str) -> None:
    """Verify a text of the catalog; one that is lost is removed from the ledger."""
    ledger, resources = cluster.ledger, cluster.ledger.resources
    problem = cluster.files.find_payload_problem(address, digest)
    if problem is None:
        ledger.set_status([address], StatusWord.APPLIED)
        return
    cluster.report.extend([problem])
    status = StatusWord.ERROR if problem.is_error else StatusWord.DRIFTED
    ledger.set_status([address], status, problem.code.removeprefix("catalog_"))
    if problem.is_error:  # it could not be read, and may be there
        return
    if find_resource_kind(address) is ResourceKind.POLICY:
        resources[address] = msgspec.structs.replace(resources[address], digest=UNAVAILABLE)
    else:
        del resources[address]

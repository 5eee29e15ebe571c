"""The difference of two states of a cluster: changes, and what an apply does with each.

Everything here is a pure function of the applied and the desired state. An apply classifies its
changes once more when one of them fails.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

import msgspec

from omnigraph.cluster.cluster_files import (
    CLUSTER_SCOPE,
    ResourceKind,
    find_graph_id,
    find_resource_kind,
    graph_address,
    schema_address,
)
from omnigraph.cluster.cluster_state import (
    ClusterState,
    GraphObservation,
    GraphTombstone,
    Observation,
    ResourceRecord,
)
from omnigraph.cluster.control_records import ChangeApproval
from omnigraph.result import Result

RECOVERY_PENDING = "cluster_recovery_pending"
APPROVAL_REQUIRED = "approval_required"
DEPENDENCY = "dependency_not_applied"
UNSUPPORTED = "apply_unsupported_kind"


class ChangeOperation(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Disposition(StrEnum):
    """The treatment of a change by an apply."""

    APPLIED = "applied"
    DERIVED = "derived"
    """Implied by the changes of its parts."""
    DEFERRED = "deferred"
    BLOCKED = "blocked"


class ClusterChange(Result, frozen=True):
    """A resource to create, update or delete."""

    resource: str
    operation: ChangeOperation
    before_digest: str | None = None
    after_digest: str | None = None
    disposition: Disposition | None = None
    reason: str | None = None
    binding_change: bool = False
    metadata_change: str | None = None
    migration: Mapping[str, object] | None = None

    @property
    def kind(self) -> ResourceKind:
        return find_resource_kind(self.resource)

    @property
    def graph_id(self) -> str | None:
        return find_graph_id(self.resource)

    @property
    def is_carried_out(self) -> bool:
        return self.disposition in (Disposition.APPLIED, Disposition.DERIVED)


class BlastRadius(Result, frozen=True):
    """The resources that depend on a changed one."""

    resource: str
    affected: Sequence[str]


def list_changes(applied: ClusterState, desired: ClusterState) -> Iterator[ClusterChange]:
    """List the changes from one state to another by resource, unclassified."""
    for address in sorted(desired.resources.keys() | applied.resources.keys()):
        before, after = applied.resources.get(address), desired.resources.get(address)
        if after is None:
            assert before is not None
            yield ClusterChange(address, ChangeOperation.DELETE, before.digest)
        elif before is None:
            yield ClusterChange(address, ChangeOperation.CREATE, None, after.digest)
        else:
            yield from _compare(address, before, after)


def _compare(
    address: str, before: ResourceRecord, after: ResourceRecord
) -> Iterator[ClusterChange]:
    is_rebound = before.applies_to != after.applies_to
    metadata = "policy_bindings" if is_rebound else None
    if before.embedding_profile != after.embedding_profile:
        metadata = "embedding_profile"
    if before.digest != after.digest or metadata is not None:
        yield ClusterChange(
            address,
            ChangeOperation.UPDATE,
            before.digest,
            after.digest,
            binding_change=is_rebound,
            metadata_change=metadata,
        )


def find_blast_radius(
    changes: Iterable[ClusterChange], *states: ClusterState
) -> tuple[BlastRadius, ...]:
    """Return the dependent resources of each change that has some, in any of the states."""
    needed_by: dict[str, list[str]] = {}
    for one in (pair for state in states for pair in state.list_dependencies()):
        needed_by.setdefault(one.target, []).append(one.source)
    reached = {change.resource: _find_reachable(change.resource, needed_by) for change in changes}
    return tuple(
        BlastRadius(one, sorted(affected)) for one, affected in reached.items() if affected
    )


def _find_reachable(start: str, edges: Mapping[str, Sequence[str]]) -> set[str]:
    seen, waiting = {start}, [start]
    while waiting:
        new = set(edges.get(waiting.pop(), ())) - seen
        seen |= new
        waiting += new
    return seen - {start}


def list_gates(
    changes: Iterable[ClusterChange],
    config_digest: str | None,
    observations: Mapping[str, Observation],
) -> list[ChangeApproval]:
    """List the changes that need an approval: deleting a graph, and creating one once more."""
    graphs = (one for one in changes if one.kind is ResourceKind.GRAPH)
    reasons = ((one, _find_risk(one, observations.get(one.resource))) for one in graphs)
    return [
        ChangeApproval(
            approval_id="",
            resource=change.resource,
            operation=str(change.operation),
            reason=reason,
            bound_config_digest=config_digest,
            bound_before_digest=change.before_digest,
            bound_after_digest=change.after_digest,
            approved_by="",
            created_at="",
        )
        for change, reason in reasons
        if reason is not None
    ]


def _find_risk(change: ClusterChange, observed: Observation | None) -> str | None:
    """Return the reason why a change of a graph needs an approval; None if it needs none."""
    is_gone = isinstance(observed, GraphObservation) and not observed.exists
    match change.operation:
        case ChangeOperation.DELETE:
            return "deletes the graph with everything in it"
        case ChangeOperation.CREATE if is_gone or isinstance(observed, GraphTombstone):
            return "creates an empty graph in place of one that was there"
        case _:
            return None


@dataclass(frozen=True, slots=True)
class ClusterPlan:
    """The changes between two states, with what allows and what stops them."""

    applied: ClusterState
    desired: ClusterState
    pending: Collection[str] = ()
    """Graphs with an unfinished change."""
    gates: Sequence[ChangeApproval] = ()
    approvals: Mapping[str, ChangeApproval] = field(default_factory=dict)
    """The approvals of gates, by resource."""

    def classify(self, failed: Mapping[str, str] | None = None) -> dict[str, ClusterChange]:
        """Return the changes by resource, each with its disposition and reason.

        Args:
            failed: The reasons of changes of graphs that failed, by resource.
        """
        changes = {one.resource: one for one in list_changes(self.applied, self.desired)}
        classifier = _Classifier(self, changes, failed or {})
        return {address: classifier.decide(change) for address, change in changes.items()}


_WITH_GRAPH = {
    ResourceKind.SCHEMA: (ChangeOperation.CREATE, ChangeOperation.DELETE),
    ResourceKind.QUERY: (ChangeOperation.DELETE,),
}
"""The operations on a graph that are made on its schema and its queries at the same time."""


@dataclass(frozen=True, slots=True)
class _Classifier:
    plan: ClusterPlan
    changes: Mapping[str, ClusterChange]
    failed: Mapping[str, str]

    def decide(self, change: ClusterChange) -> ClusterChange:
        disposition, reason = self._choose(change)
        return msgspec.structs.replace(change, disposition=disposition, reason=reason)

    def _choose(self, change: ClusterChange) -> tuple[Disposition, str | None]:
        graph_id = change.graph_id
        if change.resource in self.failed:
            return Disposition.BLOCKED, self.failed[change.resource]
        if graph_id is None:
            return self._choose_shared(change)
        if any(find_graph_id(one) == graph_id for one in self.failed):
            return Disposition.BLOCKED, DEPENDENCY
        if change.kind is not ResourceKind.QUERY and graph_id in self.plan.pending:
            return Disposition.BLOCKED, RECOVERY_PENDING
        if change.kind is ResourceKind.GRAPH:
            return self._choose_for_graph(change)
        graph = self.changes.get(graph_address(graph_id))
        if graph is not None and graph.operation in _WITH_GRAPH[change.kind]:
            return self._choose(graph)
        is_delete = change.operation is ChangeOperation.DELETE
        if is_delete and change.kind is ResourceKind.SCHEMA:
            return Disposition.DEFERRED, UNSUPPORTED
        needs_schema = change.kind is ResourceKind.QUERY and not is_delete
        if needs_schema and self._is_stopped(schema_address(graph_id)):
            return Disposition.BLOCKED, DEPENDENCY
        return Disposition.APPLIED, None

    def _choose_for_graph(self, change: ClusterChange) -> tuple[Disposition, str | None]:
        is_gated = any(gate.resource == change.resource for gate in self.plan.gates)
        if is_gated and change.resource not in self.plan.approvals:
            return Disposition.BLOCKED, APPROVAL_REQUIRED
        if change.operation is not ChangeOperation.UPDATE:
            return Disposition.APPLIED, None
        others = (one for one in self.changes.values() if one.graph_id == change.graph_id)
        if any(self._is_stopped(one.resource) for one in others if one != change):
            return Disposition.DEFERRED, DEPENDENCY
        return Disposition.DERIVED, None

    def _choose_shared(self, change: ClusterChange) -> tuple[Disposition, str | None]:
        """Choose for a policy or a provider, which wait for the graphs that use them."""
        before = self.plan.applied.resources.get(change.resource)
        after = self.plan.desired.resources.get(change.resource)
        if change.kind is ResourceKind.POLICY:
            bound = set((after and after.applies_to) or ()) - {CLUSTER_SCOPE}
            if any(find_graph_id(one) in self.plan.pending for one in bound):
                return Disposition.BLOCKED, RECOVERY_PENDING
            # A graph whose deletion is pending keeps its policy until then.
            users = bound | set((before and before.applies_to) or ())
        else:
            # A provider is needed while a graph uses it.
            records = self.plan.applied.resources.items() if after is None else ()
            users = {one for one, other in records if other.embedding_provider == change.resource}
        if any(self._is_stopped(one) for one in users):
            return Disposition.BLOCKED, DEPENDENCY
        return Disposition.APPLIED, None

    def _is_stopped(self, address: str) -> bool:
        """Return whether there is a change of a resource that this apply does not make."""
        change = self.changes.get(address)
        return change is not None and not self.decide(change).is_carried_out

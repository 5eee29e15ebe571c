"""Changes between the ledger and the configuration, and the disposition of each in an apply."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from omnigraph.cluster.control_records import ChangeApproval
from omnigraph.cluster.desired_state import DesiredState
from omnigraph.cluster.resources import (
    ResourceKind,
    find_graph_id,
    find_resource_kind,
    graph_address,
    schema_address,
)
from omnigraph.cluster.state_ledger import (
    GraphObservation,
    GraphTombstone,
    Observation,
    ResourceRecord,
)

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

    @property
    def is_carried_out(self) -> bool:
        return self in (Disposition.APPLIED, Disposition.DERIVED)


@dataclass(frozen=True, slots=True)
class ClusterChange:
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
        return self.disposition is not None and self.disposition.is_carried_out

    def wire(self) -> dict[str, object]:
        optional: dict[str, object] = {
            "before_digest": self.before_digest,
            "after_digest": self.after_digest,
            "disposition": None if self.disposition is None else str(self.disposition),
            "reason": self.reason,
            "binding_change": self.binding_change or None,
            "metadata_change": self.metadata_change,
            "migration": self.migration,
        }
        body: dict[str, object] = {"resource": self.resource, "operation": str(self.operation)}
        return {**body, **{name: value for name, value in optional.items() if value is not None}}


def list_changes(
    desired: DesiredState, applied: Mapping[str, ResourceRecord]
) -> list[ClusterChange]:
    """List the changes from the applied to the desired state by resource, unclassified."""
    found = []
    for address in sorted(desired.resources.keys() | applied.keys()):
        after = desired.resources.get(address)
        before = applied.get(address)
        change = _compare(address, before, None if after is None else after.record)
        if change is not None:
            found.append(change)
    return found


def _compare(
    address: str, before: ResourceRecord | None, after: ResourceRecord | None
) -> ClusterChange | None:
    if after is None:
        assert before is not None
        return ClusterChange(address, ChangeOperation.DELETE, before.digest)
    if before is None:
        return ClusterChange(address, ChangeOperation.CREATE, None, after.digest)
    is_rebound = before.applies_to != after.applies_to
    metadata = "policy_bindings" if is_rebound else None
    if before.embedding_profile != after.embedding_profile:
        metadata = "embedding_profile"
    if before.digest == after.digest and metadata is None:
        return None
    return ClusterChange(
        address,
        ChangeOperation.UPDATE,
        before.digest,
        after.digest,
        binding_change=is_rebound,
        metadata_change=metadata,
    )


def find_blast_radius(
    changes: Sequence[ClusterChange], dependencies: Sequence[tuple[str, str]]
) -> list[dict[str, object]]:
    """Return the dependent resources of each change that has some."""
    needed_by: dict[str, list[str]] = {}
    for one, other in dependencies:
        needed_by.setdefault(other, []).append(one)
    found: list[dict[str, object]] = []
    for change in changes:
        affected = _list_reachable(change.resource, needed_by)
        if affected:
            found.append({"resource": change.resource, "affected": sorted(affected)})
    return found


def _list_reachable(start: str, edges: Mapping[str, Sequence[str]]) -> set[str]:
    seen, waiting = {start}, [start]
    while waiting:
        new = [one for one in edges.get(waiting.pop(), ()) if one not in seen]
        seen.update(new)
        waiting += new
    return seen - {start}


def list_gates(
    changes: Iterable[ClusterChange], config_digest: str, observations: Mapping[str, Observation]
) -> list[ChangeApproval]:
    """List the changes that need an approval: deleting a graph, and creating one once more."""
    found = []
    for change in changes:
        if change.kind is not ResourceKind.GRAPH:
            continue
        if change.operation is ChangeOperation.DELETE:
            reason = "deletes the graph with everything in it"
        elif change.operation is ChangeOperation.CREATE and _existed_before(
            observations.get(change.resource)
        ):
            reason = "creates an empty graph in place of one that was there"
        else:
            continue
        gate = ChangeApproval(
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
        found.append(gate)
    return found


def _existed_before(observed: Observation | None) -> bool:
    """Return whether a graph was deleted, or missing at the last refresh."""
    match observed:
        case GraphTombstone():
            return True
        case GraphObservation():
            return not observed.exists
        case None:
            return False


@dataclass(frozen=True, slots=True)
class AppliedState:
    """The state that decides about changes: records, unfinished changes, gates and approvals."""

    applied: Mapping[str, ResourceRecord]
    pending: Collection[str]
    """Graphs with an unfinished change."""
    approved: Collection[str]
    """Resources whose gated change is approved."""
    gated: Collection[str]


def classify(
    changes: Iterable[ClusterChange], state: AppliedState, desired: DesiredState
) -> list[ClusterChange]:
    """Return the changes with the disposition and the reason of each."""
    known = {change.resource: change for change in changes}
    return [_Classifier(known, state, desired).decide(one) for one in known.values()]


@dataclass(frozen=True, slots=True)
class _Classifier:
    changes: Mapping[str, ClusterChange]
    state: AppliedState
    desired: DesiredState

    def decide(self, change: ClusterChange) -> ClusterChange:
        disposition, reason = self._choose(change)
        return replace(change, disposition=disposition, reason=reason)

    def _choose(self, change: ClusterChange) -> tuple[Disposition, str | None]:
        match change.kind:
            case ResourceKind.GRAPH:
                return self._choose_for_graph(change)
            case ResourceKind.SCHEMA:
                return self._choose_for_schema(change)
            case ResourceKind.QUERY:
                return self._choose_for_query(change)
            case ResourceKind.POLICY:
                return self._choose_for_policy(change)
            case ResourceKind.PROVIDER:
                return self._choose_for_provider(change)

    def _choose_for_graph(self, change: ClusterChange) -> tuple[Disposition, str | None]:
        if change.graph_id in self.state.pending:
            return Disposition.BLOCKED, RECOVERY_PENDING
        if change.resource in self.state.gated and change.resource not in self.state.approved:
            return Disposition.BLOCKED, APPROVAL_REQUIRED
        if change.operation is not ChangeOperation.UPDATE:
            return Disposition.APPLIED, None
        if any(self._is_stopped(part) for part in self._list_parts(change)):
            return Disposition.DEFERRED, DEPENDENCY
        return Disposition.DERIVED, None

    def _list_parts(self, graph: ClusterChange) -> list[ClusterChange]:
        """List the changes of the parts of a graph."""
        return [
            one
            for one in self.changes.values()
            if one.graph_id == graph.graph_id and one.resource != graph.resource
        ]

    def _choose_for_schema(self, change: ClusterChange) -> tuple[Disposition, str | None]:
        assert change.graph_id is not None
        if change.graph_id in self.state.pending:
            return Disposition.BLOCKED, RECOVERY_PENDING
        graph = self.changes.get(graph_address(change.graph_id))
        if graph is not None and graph.operation is not ChangeOperation.UPDATE:
            return self._choose_for_graph(graph)
        if change.operation is ChangeOperation.DELETE:
            return Disposition.DEFERRED, UNSUPPORTED
        return Disposition.APPLIED, None

    def _choose_for_query(self, change: ClusterChange) -> tuple[Disposition, str | None]:
        assert change.graph_id is not None
        graph = self.changes.get(graph_address(change.graph_id))
        if graph is not None and graph.operation is ChangeOperation.DELETE:
            return self._choose_for_graph(graph)
        if change.operation is ChangeOperation.DELETE:
            return Disposition.APPLIED, None
        if self._is_stopped(self.changes.get(schema_address(change.graph_id))):
            return Disposition.BLOCKED, DEPENDENCY
        return Disposition.APPLIED, None

    def _choose_for_policy(self, change: ClusterChange) -> tuple[Disposition, str | None]:
        before = self.state.applied.get(change.resource)
        after = self.desired.resources.get(change.resource)
        bound = set(after.record.applies_to or ()) if after is not None else set[str]()
        if any(find_graph_id(scope) in self.state.pending for scope in bound if "." in scope):
            return Disposition.BLOCKED, RECOVERY_PENDING
        if any(self._is_stopped(self.changes.get(scope)) for scope in bound):
            return Disposition.BLOCKED, DEPENDENCY
        # A graph whose deletion is pending keeps its policy until then.
        freed = set(before.applies_to or ()) - bound if before is not None else set[str]()
        if any(self._is_stopped(self.changes.get(scope)) for scope in freed):
            return Disposition.BLOCKED, DEPENDENCY
        return Disposition.APPLIED, None

    def _choose_for_provider(self, change: ClusterChange) -> tuple[Disposition, str | None]:
        if change.operation is not ChangeOperation.DELETE:
            return Disposition.APPLIED, None
        users = [
            address
            for address, record in self.state.applied.items()
            if record.embedding_provider == change.resource
        ]
        if any(self._is_stopped(self.changes.get(address)) for address in users):
            return Disposition.BLOCKED, DEPENDENCY
        return Disposition.APPLIED, None

    def _is_stopped(self, change: ClusterChange | None) -> bool:
        """Return whether another change is not made by this apply."""
        return change is not None and not self._choose(change)[0].is_carried_out

"""Changes between the ledger and the configuration, and the disposition of each in an apply."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum

from omnigraph.cluster.control_records import GatedChange
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


class ChangeOperation(StrEnum):
    CREATE = "create"
    UPDATE = "update"
    DELETE = "delete"


class Disposition(StrEnum):
    """What an apply does with a change."""

    APPLIED = "applied"
    DERIVED = "derived"
    """Follows from the changes of its parts."""
    DEFERRED = "deferred"
    BLOCKED = "blocked"

    @property
    def is_carried_out(self) -> bool:
        return self in (Disposition.APPLIED, Disposition.DERIVED)


@dataclass(frozen=True, slots=True)
class ClusterChange:
    """One resource that is to be created, updated or deleted."""

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
    """Every change it takes, sorted by resource; none of them is classified yet."""
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
    binds_otherwise = before.applies_to != after.applies_to
    metadata = "policy_bindings" if binds_otherwise else None
    if before.embedding_profile != after.embedding_profile:
        metadata = "embedding_profile"
    if before.digest == after.digest and metadata is None:
        return None
    return ClusterChange(
        address,
        ChangeOperation.UPDATE,
        before.digest,
        after.digest,
        binding_change=binds_otherwise,
        metadata_change=metadata,
    )


def find_blast_radius(
    changes: Sequence[ClusterChange], dependencies: Sequence[tuple[str, str]]
) -> list[dict[str, object]]:
    """The resources that each change reaches, because they depend on what is changed."""
    needed_by: dict[str, list[str]] = {}
    for one, other in dependencies:
        needed_by.setdefault(other, []).append(one)
    found: list[dict[str, object]] = []
    for change in changes:
        affected = _walk(change.resource, needed_by)
        if affected:
            found.append({"resource": change.resource, "affected": sorted(affected)})
    return found


def _walk(start: str, needed_by: Mapping[str, Sequence[str]]) -> set[str]:
    seen: set[str] = set()
    waiting = [start]
    while waiting:
        for one in needed_by.get(waiting.pop(), ()):
            if one not in seen and one != start:
                seen.add(one)
                waiting.append(one)
    return seen


def list_applied_dependencies(
    applied: Mapping[str, ResourceRecord],
) -> list[tuple[str, str]]:
    """Which resource of the ledger needs which: what a deletion reaches is not in the files."""
    found: list[tuple[str, str]] = []
    for address, record in applied.items():
        graph_id = find_graph_id(address)
        if graph_id is not None and address != graph_address(graph_id):
            found.append((address, graph_address(graph_id)))
            if find_resource_kind(address) is ResourceKind.QUERY:
                found.append((address, schema_address(graph_id)))
        if record.embedding_provider is not None:
            found.append((address, record.embedding_provider))
        found += [(address, scope) for scope in record.applies_to or () if scope in applied]
    return found


RECOVERY_PENDING = "cluster_recovery_pending"
APPROVAL_REQUIRED = "approval_required"
DEPENDENCY = "dependency_not_applied"
UNSUPPORTED = "apply_unsupported_kind"


@dataclass(frozen=True, slots=True)
class AppliedState:
    """What decides about changes beside the changes themselves."""

    applied: Mapping[str, ResourceRecord]
    pending: Collection[str]
    """Graphs whose interrupted change is not settled."""
    approved: Collection[str]
    """Resources whose gated change is approved."""
    gated: Collection[str]


def list_gates(
    changes: Iterable[ClusterChange], config_digest: str, observations: Mapping[str, Observation]
) -> list[GatedChange]:
    """The changes that need an approval: deletions of graphs, and creating a graph once more."""
    found = []
    for change in changes:
        if change.kind is not ResourceKind.GRAPH:
            continue
        if change.operation is ChangeOperation.DELETE:
            reason = "deletes the graph with everything in it"
        elif change.operation is ChangeOperation.CREATE and _was_held(
            observations.get(change.resource)
        ):
            reason = "creates an empty graph in place of one that was there"
        else:
            continue
        found.append(
            GatedChange(
                change.resource,
                str(change.operation),
                reason,
                config_digest,
                change.before_digest,
                change.after_digest,
            )
        )
    return found


def _was_held(seen: Observation | None) -> bool:
    """Whether the ledger once had the graph: it was deleted, or a refresh found it gone."""
    match seen:
        case GraphTombstone():
            return True
        case GraphObservation():
            return not seen.exists
        case None:
            return False


def classify(
    changes: Iterable[ClusterChange], standing: AppliedState, desired: DesiredState
) -> list[ClusterChange]:
    """The same changes, each with what is done with it and why."""
    known = {change.resource: change for change in changes}
    return [_Classifier(known, standing, desired).decide(one) for one in known.values()]


@dataclass(frozen=True, slots=True)
class _Classifier:
    changes: Mapping[str, ClusterChange]
    standing: AppliedState
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
        if change.graph_id in self.standing.pending:
            return Disposition.BLOCKED, RECOVERY_PENDING
        if change.resource in self.standing.gated and change.resource not in self.standing.approved:
            return Disposition.BLOCKED, APPROVAL_REQUIRED
        if change.operation is not ChangeOperation.UPDATE:
            return Disposition.APPLIED, None
        if any(self._is_stopped(part) for part in self._list_parts(change)):
            return Disposition.DEFERRED, DEPENDENCY
        return Disposition.DERIVED, None

    def _list_parts(self, graph: ClusterChange) -> list[ClusterChange]:
        """The changes of what the digest of a graph is made of."""
        return [
            one
            for one in self.changes.values()
            if one.graph_id == graph.graph_id and one.resource != graph.resource
        ]

    def _choose_for_schema(self, change: ClusterChange) -> tuple[Disposition, str | None]:
        assert change.graph_id is not None
        if change.graph_id in self.standing.pending:
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
        before = self.standing.applied.get(change.resource)
        after = self.desired.resources.get(change.resource)
        bound = set(after.record.applies_to or ()) if after is not None else set[str]()
        if any(find_graph_id(scope) in self.standing.pending for scope in bound if "." in scope):
            return Disposition.BLOCKED, RECOVERY_PENDING
        if any(self._is_stopped(self.changes.get(scope)) for scope in bound):
            return Disposition.BLOCKED, DEPENDENCY
        # A graph that only waits to be deleted must not lose its policy before that.
        freed = set(before.applies_to or ()) - bound if before is not None else set[str]()
        if any(self._is_stopped(self.changes.get(scope)) for scope in freed):
            return Disposition.BLOCKED, DEPENDENCY
        return Disposition.APPLIED, None

    def _choose_for_provider(self, change: ClusterChange) -> tuple[Disposition, str | None]:
        if change.operation is not ChangeOperation.DELETE:
            return Disposition.APPLIED, None
        users = [
            address
            for address, record in self.standing.applied.items()
            if record.embedding_provider == change.resource
        ]
        if any(self._is_stopped(self.changes.get(address)) for address in users):
            return Disposition.BLOCKED, DEPENDENCY
        return Disposition.APPLIED, None

    def _is_stopped(self, change: ClusterChange | None) -> bool:
        """Whether another change will not be made this time."""
        return change is not None and not self._choose(change)[0].is_carried_out

"""What separates the ledger from the configuration, as changes of single resources."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from omnigraph.cluster.desired_state import DesiredState
from omnigraph.cluster.resource_addresses import (
    ResourceKind,
    find_graph_id,
    find_resource_kind,
    graph_address,
    schema_address,
)
from omnigraph.cluster.state_ledger import ResourceRecord


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

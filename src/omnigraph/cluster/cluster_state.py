"""The state of a cluster: its resources as declared or as applied, and the difference of the two.

Everything here is pure. An apply classifies its changes once more when one of them fails.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property

import msgspec

from omnigraph.cluster.cluster_files import (
    CLUSTER_SCOPE,
    ResourceKind,
    find_graph_id,
    find_resource_kind,
    graph_address,
    schema_address,
)
from omnigraph.result import Result


class StrictRecord(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The base of stored records: members that they do not have are refused."""


class EmbeddingProfile(StrictRecord, frozen=True, kw_only=True, omit_defaults=True):
    """An embedding provider; its key is a variable reference, `${NAME}`, that the server reads."""

    kind: str
    base_url: str | None = None
    model: str | None = None
    api_key: str | None = None


class BlobScope(StrEnum):
    """The processes that may read an external blob."""

    SERVER_SAFE = "server_safe"
    EMBEDDED_ONLY = "embedded_only"


class BlobBase(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An address below which external blobs are allowed."""

    uri: str
    scope: BlobScope


class BlobAllowList(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """The allowed addresses of external blobs; without a base, none is."""

    bases: tuple[BlobBase, ...] = ()


class ResourceRecord(StrictRecord, frozen=True, kw_only=True, omit_defaults=True):
    """A resource as declared or applied."""

    digest: str
    live_digest: str | None = None
    """The digest of the schema in the graph, where only comments differ from the file."""
    source: str | None = None
    """Its file, for messages."""
    applies_to: tuple[str, ...] | None = None
    embedding_profile: EmbeddingProfile | None = None
    embedding_provider: str | None = None
    external_blob_policy: BlobAllowList | None = None

    @property
    def held_digest(self) -> str:
        """The digest of the text in the graph itself."""
        return self.live_digest or self.digest


class Dependency(Result, frozen=True):
    """A resource and one that it needs."""

    source: str = msgspec.field(name="from")
    target: str = msgspec.field(name="to")


class ClusterState(msgspec.Struct, forbid_unknown_fields=True):
    """The resources of a cluster by address."""

    config_digest: str | None = None
    """The configuration that declares them; None if not all of it was applied."""
    resources: dict[str, ResourceRecord] = {}

    @property
    def graph_ids(self) -> tuple[str, ...]:
        """The ids of the graphs, sorted."""
        graphs = (a for a in self.resources if find_resource_kind(a) is ResourceKind.GRAPH)
        return tuple(sorted(address.partition(".")[2] for address in graphs))

    @property
    def digests(self) -> dict[str, str]:
        return {address: one.digest for address, one in sorted(self.resources.items())}

    def select_queries(self, graph_id: str) -> dict[str, ResourceRecord]:
        """Return the queries of a graph by name."""
        return {
            address.rpartition(".")[2]: record
            for address, record in sorted(self.resources.items())
            if find_resource_kind(address) is ResourceKind.QUERY
            and find_graph_id(address) == graph_id
        }

    def find_policy(self, scope: str) -> str | None:
        """Return the address of the policy that is bound to a graph or to the cluster."""
        found = (a for a, one in sorted(self.resources.items()) if scope in (one.applies_to or ()))
        return next(found, None)

    def list_payloads(self) -> list[tuple[str, str]]:
        """List the texts that the catalog should have, by address and digest."""
        kinds = (ResourceKind.QUERY, ResourceKind.POLICY)
        return [one for one in self.digests.items() if find_resource_kind(one[0]) in kinds]

    def list_dependencies(self) -> list[Dependency]:
        """List the resources that others need, by resource."""
        found: list[Dependency] = []
        for address, record in sorted(self.resources.items()):
            needed = {scope for scope in record.applies_to or () if scope in self.resources}
            graph_id = find_graph_id(address)
            if graph_id is not None and address != graph_address(graph_id):
                needed.add(graph_address(graph_id))
                if find_resource_kind(address) is ResourceKind.QUERY:
                    needed.add(schema_address(graph_id))
            if record.embedding_provider is not None:
                needed.add(record.embedding_provider)
            found += [Dependency(address, one) for one in sorted(needed)]
        return found

    def digest_graph(self, graph_id: str) -> str:
        """Compute the digest of a graph from the records of its parts."""
        graph = self.resources[graph_address(graph_id)]
        schema = self.resources.get(schema_address(graph_id))
        provider = self.resources.get(graph.embedding_provider or "")
        queries = {name: one.digest for name, one in self.select_queries(graph_id).items()}
        parts: dict[str, object] = {
            "graph": graph_id,
            "schema": None if schema is None else schema.digest,
            "queries": sorted(queries.items()),
            "provider": None
            if graph.embedding_provider is None
            else (graph.embedding_provider, "" if provider is None else provider.digest),
        }
        if graph.external_blob_policy is not None:
            parts["external_blobs"] = graph.external_blob_policy
        return _digest("graph", parts)

    def refresh_digests(self) -> None:
        """Make the digests of graphs those of their parts."""
        for graph_id in self.graph_ids:
            address = graph_address(graph_id)
            digest = self.digest_graph(graph_id)
            self.resources[address] = msgspec.structs.replace(
                self.resources[address], digest=digest
            )


def digest_profile(profile: EmbeddingProfile) -> str:
    return _digest("embedding profile", profile)


def digest_config(config: object, resources: Mapping[str, str]) -> str:
    """Return the digest of everything that is declared, files included."""
    return _digest("config", [config, sorted(resources.items())])


def _digest(tag: str, value: object) -> str:
    text = msgspec.json.encode(value, order="sorted", enc_hook=str)
    return hashlib.sha256(f"omnigraph {tag}\0".encode() + text).hexdigest()


# --- changes ---

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


_WITH_GRAPH = {
    ResourceKind.SCHEMA: (ChangeOperation.CREATE, ChangeOperation.DELETE),
    ResourceKind.QUERY: (ChangeOperation.DELETE,),
}
"""The operations on a graph that are made on its schema and its queries at the same time."""


@dataclass(frozen=True)
class ClusterPlan:
    """The changes between two states, with what allows and what stops them."""

    applied: ClusterState = field(default_factory=ClusterState)
    desired: ClusterState = field(default_factory=ClusterState)
    pending: Collection[str] = ()
    """Graphs with an unfinished change."""
    gone: Collection[str] = ()
    """The addresses of graphs that existed once: a new one in place of them needs an approval."""
    approved: Collection[str] = ()
    """The resources whose gated change is approved."""
    failed: Mapping[str, str] = field(default_factory=dict)
    """The reasons of changes of graphs that failed, by resource."""

    def classify(self) -> dict[str, ClusterChange]:
        """Return the changes by resource, each with its disposition and reason."""
        return {address: self._decide(change) for address, change in self.changes.items()}

    @cached_property
    def changes(self) -> dict[str, ClusterChange]:
        """The changes by resource, sorted and unclassified."""
        addresses = sorted(self.desired.resources.keys() | self.applied.resources.keys())
        found = ((one, self._compare(one)) for one in addresses)
        return {address: change for address, change in found if change is not None}

    @cached_property
    def gates(self) -> dict[str, str]:
        """The reasons why changes need an approval, by resource."""
        found = ((one.resource, self._find_risk(one)) for one in self.changes.values())
        return {address: reason for address, reason in found if reason is not None}

    def find_blast_radius(self) -> tuple[BlastRadius, ...]:
        """Return the resources that depend on each changed one, in either state."""
        needed_by: dict[str, list[str]] = {}
        for state in (self.desired, self.applied):
            for one in state.list_dependencies():
                needed_by.setdefault(one.target, []).append(one.source)
        reached = ((address, _find_reachable(address, needed_by)) for address in self.changes)
        return tuple(BlastRadius(one, sorted(affected)) for one, affected in reached if affected)

    def _compare(self, address: str) -> ClusterChange | None:
        before, after = self.applied.resources.get(address), self.desired.resources.get(address)
        if after is None:
            assert before is not None, "the address is of one of the states"
            return ClusterChange(address, ChangeOperation.DELETE, before.digest)
        if before is None:
            return ClusterChange(address, ChangeOperation.CREATE, None, after.digest)
        is_rebound, metadata = before.applies_to != after.applies_to, None
        if before.embedding_profile != after.embedding_profile:
            metadata = "embedding_profile"
        elif is_rebound:
            metadata = "policy_bindings"
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

    def _find_risk(self, change: ClusterChange) -> str | None:
        """Return the reason why a change needs an approval; None if it needs none."""
        if change.kind is not ResourceKind.GRAPH:
            return None
        if change.operation is ChangeOperation.DELETE:
            return "deletes the graph with everything in it"
        if change.operation is ChangeOperation.CREATE and change.resource in self.gone:
            return "creates an empty graph in place of one that was there"
        return None

    # --- dispositions ---

    def _decide(self, change: ClusterChange) -> ClusterChange:
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
        if change.kind is not ResourceKind.QUERY and graph_id in self.pending:
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
        if change.resource in self.gates and change.resource not in self.approved:
            return Disposition.BLOCKED, APPROVAL_REQUIRED
        if change.operation is not ChangeOperation.UPDATE:
            return Disposition.APPLIED, None
        others = (one for one in self.changes.values() if one.graph_id == change.graph_id)
        if any(self._is_stopped(one.resource) for one in others if one != change):
            return Disposition.DEFERRED, DEPENDENCY
        return Disposition.DERIVED, None

    def _choose_shared(self, change: ClusterChange) -> tuple[Disposition, str | None]:
        """Choose for a policy or a provider, which wait for the graphs that use them."""
        before = self.applied.resources.get(change.resource)
        after = self.desired.resources.get(change.resource)
        if change.kind is ResourceKind.POLICY:
            bound = set((after and after.applies_to) or ()) - {CLUSTER_SCOPE}
            if any(find_graph_id(one) in self.pending for one in bound):
                return Disposition.BLOCKED, RECOVERY_PENDING
            # A graph whose deletion is pending keeps its policy until then.
            users = bound | set((before and before.applies_to) or ())
        else:
            # A provider is needed while a graph uses it.
            records = self.applied.resources.items() if after is None else ()
            users = {one for one, other in records if other.embedding_provider == change.resource}
        if any(self._is_stopped(one) for one in users):
            return Disposition.BLOCKED, DEPENDENCY
        return Disposition.APPLIED, None

    def _is_stopped(self, address: str) -> bool:
        """Return whether there is a change of a resource that this apply does not make."""
        change = self.changes.get(address)
        return change is not None and not self._decide(change).is_carried_out


def _find_reachable(start: str, edges: Mapping[str, Sequence[str]]) -> set[str]:
    seen, waiting = {start}, [start]
    while waiting:
        new = set(edges.get(waiting.pop(), ())) - seen
        seen |= new
        waiting += new
    return seen - {start}

"""Resources of a cluster with their records: one state as declared, another one as applied."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from enum import StrEnum

import msgspec

from omnigraph.cluster.cluster_files import (
    ResourceKind,
    find_graph_id,
    find_resource_kind,
    graph_address,
    schema_address,
)
from omnigraph.result import Result


class EmbeddingProfile(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
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


class ResourceRecord(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
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

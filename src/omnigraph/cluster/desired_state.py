"""What shall be there: the resources of a configuration, with their texts and digests."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

from omnigraph.cluster.cluster_config import ClusterConfig
from omnigraph.cluster.cluster_report import refuse
from omnigraph.cluster.resource_addresses import (
    ResourceKind,
    find_graph_id,
    find_resource_kind,
    graph_address,
    schema_address,
)
from omnigraph.cluster.resource_digests import digest_config, digest_file
from omnigraph.cluster.state_ledger import ResourceRecord
from omnigraph.language.source import SourceText


@dataclass(frozen=True, slots=True)
class DesiredResource:
    """One resource: what the ledger will say of it, and its file if it has one."""

    address: str
    record: ResourceRecord
    path: Path | None = None
    data: bytes | None = None

    @property
    def digest(self) -> str:
        return self.record.digest

    @property
    def source(self) -> SourceText:
        """The text of its file, named as the configuration names it."""
        assert self.data is not None, f"{self.address} has no file"
        return SourceText.from_bytes(self.data, self.record.source or self.address)

    def require_unchanged(self) -> None:
        """Raise if its file is not the one that was checked and planned.

        Raises:
            ClusterError: somebody edited or removed it meanwhile.
        """
        if self.path is None:
            return
        try:
            digest = digest_file(self.path.read_bytes())
        except OSError:
            digest = None
        if digest != self.digest:
            message = f"{self.record.source} changed while it was being applied; apply again"
            raise refuse("resource_content_changed", self.address, message)

    def wire(self) -> dict[str, object]:
        kind = str(find_resource_kind(self.address))
        body: dict[str, object] = {"address": self.address, "kind": kind, "digest": self.digest}
        return {**body, "path": self.record.source} if self.record.source else body


@dataclass(frozen=True)
class DesiredState:
    """Everything that a configuration asks for."""

    folder: Path
    config: ClusterConfig
    resources: Mapping[str, DesiredResource] = field(default_factory=dict)

    @property
    def digests(self) -> dict[str, str]:
        return {address: one.digest for address, one in sorted(self.resources.items())}

    @cached_property
    def config_digest(self) -> str:
        return digest_config(self.config.describe(), self.digests)

    def find_schema_digest(self, graph_id: str) -> str | None:
        found = self.resources.get(schema_address(graph_id))
        return None if found is None else found.digest

    def list_dependencies(self) -> list[tuple[str, str]]:
        """Which resource needs which, as pairs."""
        found: list[tuple[str, str]] = []
        for address, one in self.resources.items():
            graph_id = find_graph_id(address)
            match find_resource_kind(address):
                case ResourceKind.SCHEMA:
                    found.append((address, graph_address(str(graph_id))))
                case ResourceKind.QUERY:
                    found.append((address, graph_address(str(graph_id))))
                    found.append((address, schema_address(str(graph_id))))
                case ResourceKind.GRAPH:
                    provider = one.record.embedding_provider
                    found += [(address, provider)] if provider else []
                case ResourceKind.POLICY:
                    scopes = one.record.applies_to or ()
                    found += [(address, scope) for scope in scopes if scope in self.resources]
                case ResourceKind.PROVIDER:
                    pass
        return sorted(found)

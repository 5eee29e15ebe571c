"""What `cluster.yaml` declares, as values that know where they were written."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.cluster.resource_settings import BlobAllowList, EmbeddingProfile


@dataclass(frozen=True, slots=True)
class FileRef:
    """A path as it was written, and where: `cluster.yaml:7:13`."""

    path: str
    at: str


@dataclass(frozen=True, slots=True)
class QueryDeclaration:
    """Where the queries of a graph are: a folder, or files, which may be named by their query."""

    folder: FileRef | None = None
    files: tuple[FileRef, ...] = ()
    named: Mapping[str, FileRef] | None = None

    def describe(self) -> object:
        """What it means, for the digest."""
        if self.named is not None:
            return {name: ref.path for name, ref in self.named.items()}
        return self.folder.path if self.folder else [ref.path for ref in self.files]


@dataclass(frozen=True, slots=True)
class GraphDeclaration:
    id: str
    at: str
    schema: FileRef | None
    queries: QueryDeclaration | None = None
    embedding_provider: str | None = None
    """The name of a provider."""
    external_blobs: BlobAllowList = field(default_factory=BlobAllowList)

    def describe(self) -> object:
        return {
            "schema": self.schema and self.schema.path,
            "queries": self.queries and self.queries.describe(),
            "embedding_provider": self.embedding_provider,
            "external_blobs": self.external_blobs,
        }


@dataclass(frozen=True, slots=True)
class PolicyDeclaration:
    name: str
    at: str
    file: FileRef | None
    applies_to: tuple[str, ...]
    """`cluster`, or addresses of graphs."""

    def describe(self) -> object:
        return {"file": self.file and self.file.path, "applies_to": self.applies_to}


@dataclass(frozen=True, slots=True)
class ClusterConfig:
    """Everything that was declared and could be understood."""

    name: str | None = None
    storage: str | None = None
    locks_state: bool = True
    providers: Mapping[str, EmbeddingProfile] = field(default_factory=dict)
    graphs: Mapping[str, GraphDeclaration] = field(default_factory=dict)
    policies: Mapping[str, PolicyDeclaration] = field(default_factory=dict)

    def describe(self) -> object:
        """What it means, without places and comments, for the digest."""
        return {
            "version": 1,
            "name": self.name,
            "storage": self.storage,
            "lock": self.locks_state,
            "providers": dict(self.providers),
            "graphs": {id: one.describe() for id, one in self.graphs.items()},
            "policies": {name: one.describe() for name, one in self.policies.items()},
        }

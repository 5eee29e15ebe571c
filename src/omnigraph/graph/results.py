"""What the verbs give back. Field names are those of the JSON on every surface."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.storage.manifest.commits import Commit as Commit


@dataclass(frozen=True, slots=True)
class MutationResult:
    """What a mutation changed; `commit` is None when nothing matched and nothing was written."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: Commit | None

    def wire(self) -> dict[str, object]:
        return {
            "branch": self.branch,
            "query_name": self.query_name,
            "affected_nodes": self.affected_nodes,
            "affected_edges": self.affected_edges,
            "actor_id": self.actor_id,
            "commit": self.commit.wire() if self.commit else None,
        }


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load read and wrote; counts are of input records, by type name."""

    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    engine: str
    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    actor_id: str | None
    commit: Commit

    @property
    def total_entities(self) -> int:
        return sum(self.nodes.values()) + sum(self.edges.values())

    def wire(self) -> dict[str, object]:
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "engine": self.engine,
            "nodes": _loaded(self.nodes),
            "edges": _loaded(self.edges),
            "total_entities": self.total_entities,
            "actor_id": self.actor_id,
            "commit": self.commit.wire(),
        }


def _loaded(counts: Mapping[str, int]) -> list[dict[str, object]]:
    return [{"name": name, "entities_loaded": counts[name]} for name in sorted(counts)]


@dataclass(frozen=True, slots=True)
class TableInfo:
    """One table of a snapshot."""

    table_key: str
    table_path: str
    manifest_version: int
    table_branch: str | None
    row_count: int

    def wire(self) -> dict[str, object]:
        entity_kind, _, type_name = self.table_key.partition(":")
        return {
            "table_key": self.table_key,
            "entity_kind": entity_kind,
            "type_name": type_name,
            "table_path": self.table_path,
            "manifest_version": self.manifest_version,
            "table_branch": self.table_branch,
            "entity_count": self.row_count,
        }


@dataclass(frozen=True, slots=True)
class SnapshotInfo:
    """Which version of which table a branch shows now."""

    graph_branch: str
    snapshot_id: str
    graph_commit_id: str | None
    graph_manifest_version: int
    internal_schema_version: int
    tables: tuple[TableInfo, ...]

    def wire(self) -> dict[str, object]:
        return {
            "graph_branch": self.graph_branch,
            "snapshot_id": self.snapshot_id,
            "graph_commit_id": self.graph_commit_id,
            "graph_manifest_version": self.graph_manifest_version,
            "internal_schema_version": self.internal_schema_version,
            "tables": [table.wire() for table in self.tables],
        }


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """An interrupted write, and what recovering would do about it."""

    operation_id: str
    branch: str
    writer_kind: str
    table_keys: tuple[str, ...]
    tables: Mapping[str, str]
    decision: str
    reason: str

    def wire(self) -> dict[str, object]:
        return {
            "operation_id": self.operation_id,
            "branch": self.branch,
            "writer_kind": self.writer_kind,
            "table_keys": list(self.table_keys),
            "tables": dict(self.tables),
            "decision": self.decision,
            "reason": self.reason,
        }


@dataclass(frozen=True, slots=True)
class RecoveredWrite:
    """How an interrupted write was settled."""

    operation_id: str
    decision: str
    commit_id: str | None

    def wire(self) -> dict[str, object]:
        return {
            "operation_id": self.operation_id,
            "decision": self.decision,
            "graph_commit_id": self.commit_id,
        }

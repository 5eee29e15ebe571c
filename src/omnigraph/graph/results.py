"""The results of the verbs. Field names are those of the JSON on every surface."""

from __future__ import annotations

import html
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from omnigraph.errors import RowProblem
from omnigraph.storage.consumers import Consumer as Consumer
from omnigraph.storage.layout import check_actor as check_actor
from omnigraph.storage.layout import normalize_branch as normalize_branch
from omnigraph.storage.manifest import Commit as Commit
from omnigraph.storage.manifest import RowCounts as RowCounts
from omnigraph.storage.refs import BranchRef as BranchRef
from omnigraph.storage.refs import Tag as Tag
from omnigraph.storage.tables import IoCounters as IoCounters
from omnigraph.storage.tables import read_io_counters as read_io_counters


def render_html_table(
    columns: Sequence[str], rows: Iterable[Iterable[object]], note: str = ""
) -> str:
    """A table with a note below it."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    below = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


@dataclass(frozen=True, slots=True)
class MutationResult:
    """What a mutation changed; `commit` is None when nothing matched and nothing was written."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: Commit | None
    is_replayed: bool = False
    """Whether it was made before, under the same idempotency key."""

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
class CreatedBranch(BranchRef):
    """A branch that was created or renamed."""

    is_replayed: bool = False
    """Whether that was done before, under the same idempotency key."""


@dataclass(frozen=True, slots=True)
class DeletedBranch:
    """A deleted branch, and who deleted it."""

    name: str
    actor_id: str | None
    is_replayed: bool = False
    """Whether it was deleted before, under the same idempotency key."""

    def wire(self) -> dict[str, object]:
        return {"name": self.name, "actor_id": self.actor_id}


@dataclass(frozen=True, slots=True)
class SkippedRows:
    """The rows a load skipped: how many, and the first problems."""

    total: int = 0
    first: tuple[RowProblem, ...] = ()

    def wire(self) -> dict[str, object]:
        return {"total": self.total, "rows": [problem.wire() for problem in self.first]}


@dataclass(frozen=True, slots=True)
class LoadResult:
    """What a load read and wrote; counts are of input records, by type name.

    `commit` is None when there was nothing to load, and nothing was written.

    A load by the pipeline also reports how much it read, how long each of its stages
    took, and which bad rows it skipped.
    """

    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    engine: str
    nodes: Mapping[str, int]
    edges: Mapping[str, int]
    actor_id: str | None
    commit: Commit | None
    spark_app_id: str | None = None
    stages: tuple[Mapping[str, object], ...] = ()
    rows: int | None = None
    bytes: int | None = None
    seconds: float | None = None
    skipped: SkippedRows = SkippedRows()
    is_replayed: bool = False
    """Whether it was made before, under the same idempotency key."""
    engine_reason: str | None = None
    """Why it ran where it did."""

    @property
    def total_entities(self) -> int:
        return sum(self.nodes.values()) + sum(self.edges.values())

    @property
    def rows_per_second(self) -> float | None:
        return round(self.rows / self.seconds, 1) if self.rows and self.seconds else None

    def wire(self) -> dict[str, object]:
        return {
            "branch": self.branch,
            "base_branch": self.base_branch,
            "branch_created": self.branch_created,
            "mode": self.mode,
            "engine": self.engine,
            "engine_reason": self.engine_reason,
            "nodes": _describe_loaded(self.nodes),
            "edges": _describe_loaded(self.edges),
            "total_entities": self.total_entities,
            "actor_id": self.actor_id,
            "commit": self.commit.wire() if self.commit else None,
            **(self._measures() if self.seconds is not None else {}),
        }

    def _measures(self) -> dict[str, object]:
        return {
            "spark_app_id": self.spark_app_id,
            "stages": [dict(stage) for stage in self.stages],
            "rows": self.rows,
            "bytes": self.bytes,
            "seconds": round(self.seconds or 0, 3),
            "rows_per_second": self.rows_per_second,
            "skipped": self.skipped.wire(),
        }


def _describe_loaded(counts: Mapping[str, int]) -> list[dict[str, object]]:
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
    """The table versions that make up a branch."""

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

    def _repr_html_(self) -> str:
        """A table for notebooks: what the snapshot is made of, and which one it is."""
        rows = [(t.table_key, t.manifest_version, t.row_count) for t in self.tables]
        note = f"branch {self.graph_branch} at {self.snapshot_id}"
        return render_html_table(("table", "version", "rows"), rows, note)


def render_types_html(info: SnapshotInfo, note: str) -> str:
    """A table for notebooks: the types of a snapshot, with how many rows each has."""
    rows = []
    for table in info.tables:
        kind, _, name = table.table_key.partition(":")
        rows.append((name, kind, table.row_count))
    return render_html_table(("type", "kind", "rows"), rows, note)


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """An interrupted write, and how recovery would settle it."""

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


class PlanText(str):
    """A plan as text; notebooks keep its lines and its indentation."""

    __slots__ = ()

    def _repr_html_(self) -> str:
        return f"<pre>{html.escape(self)}</pre>"

"""Results of reading, as every surface shows them: snapshots, rows, plans, blobs, server states."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Any, Literal

import msgspec

from omnigraph.result import Result


def render_html_table(
    columns: Sequence[str], rows: Iterable[Iterable[object]], note: str = ""
) -> str:
    """Render a table with a note below it."""
    head = "".join(f"<th>{html.escape(name)}</th>" for name in columns)
    body = "".join(
        "<tr>" + "".join(f"<td>{html.escape(str(value))}</td>" for value in row) + "</tr>"
        for row in rows
    )
    below = f"<p>{html.escape(note)}</p>" if note else ""
    return f"<table><thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>{below}"


class TableInfo(Result, frozen=True):
    """One table of a snapshot."""

    table_key: str
    entity_kind: str
    type_name: str
    table_path: str
    manifest_version: int
    table_branch: str | None
    row_count: int = msgspec.field(name="entity_count")

    @classmethod
    def of(
        cls, table_key: str, path: str, version: int, branch: str | None, rows: int
    ) -> TableInfo:
        """Return the table of a key, which names the kind and the type of its entities."""
        entity_kind, _, type_name = table_key.partition(":")
        return cls(table_key, entity_kind, type_name, path, version, branch, rows)


class SnapshotInfo(Result, frozen=True, kw_only=True):
    """The table versions that make up a branch."""

    graph_branch: str
    snapshot_id: str
    graph_commit_id: str | None
    graph_manifest_version: int
    internal_schema_version: int
    tables: tuple[TableInfo, ...]

    def _repr_html_(self) -> str:
        """Render the tables for notebooks, and which snapshot they are."""
        rows = [(t.table_key, t.manifest_version, t.row_count) for t in self.tables]
        note = f"branch {self.graph_branch} at {self.snapshot_id}"
        return render_html_table(("table", "version", "rows"), rows, note)


def render_types_html(info: SnapshotInfo, note: str) -> str:
    """Render the types of a snapshot with their row counts, for notebooks."""
    rows = [(table.type_name, table.entity_kind, table.row_count) for table in info.tables]
    return render_html_table(("type", "kind", "rows"), rows, note)


class ReadTarget(Result, frozen=True):
    """The branch or the snapshot that rows were read from."""

    branch: str | None
    snapshot: str | None


class QueryRows(Result, frozen=True, kw_only=True):
    """Rows in one document. `graph_commit_id` is the commit they were read at."""

    query_name: str
    target: ReadTarget
    row_count: int
    columns: list[str]
    rows: list[dict[str, Any]]
    graph_commit_id: str | None


class SchemaText(Result, frozen=True):
    """An accepted schema, as it was written."""

    schema_source: str


class Explanation(Result, frozen=True):
    """The plan of a query: as text and, if the query was not run, as a document."""

    text: str
    plan: dict[str, Any] | None = None


class BlobStorage(StrEnum):
    """The keeper of the bytes."""

    MANAGED = "managed"
    EXTERNAL = "external"


class BlobStat(Result, frozen=True, kw_only=True):
    """The metadata of a blob.

    A managed blob has a size and a strong ETag, which changes with every write to its table; an
    external one has the address its bytes are at, and nothing is known of them.
    """

    entity_kind: str
    type_name: str
    entity_id: str
    property: str
    storage: BlobStorage
    size: int | None
    etag: str | None
    uri: str | None
    snapshot_id: str


class BranchList(Result, frozen=True, kw_only=True):
    """A page of the names of the branches."""

    branches: list[str]
    next_page_token: str | None = None


class QueryList(Result, frozen=True):
    """The stored queries that the actor may run."""

    queries: list[dict[str, Any]]


# --- servers --------------------------------------------------------------------------------------


class ErrorBody(Result, frozen=True, kw_only=True):
    """An error. `kind` is its code; details are further members."""

    error: str
    kind: str
    code: str
    request_id: str | None = None


class Health(Result, frozen=True, kw_only=True):
    """The versions of a process that is alive."""

    status: Literal["ok"]
    version: str
    internal_schema_version: int
    source_version: str | None = None


class Readiness(Result, frozen=True, kw_only=True):
    """The readiness of a worker; ids of graphs are not disclosed, since no token is needed."""

    ready: bool
    status: Literal["serving", "draining"]
    booted_serving_digest: str
    state_revision: int
    served_graph_count: int
    quarantined_graph_count: int
    shutdown_grace_seconds: float


class ListedGraph(Result, frozen=True):
    graph_id: str
    uri: str


class QuarantinedGraph(Result, frozen=True):
    graph_id: str
    reason: str


class GraphList(Result, frozen=True):
    """The graphs of a server."""

    graphs: tuple[ListedGraph, ...]
    quarantined: tuple[QuarantinedGraph, ...]

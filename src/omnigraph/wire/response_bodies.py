"""The bodies of answers.

The engine makes them with the `wire()` of its results; these types describe them for clients and
for the OpenAPI document, and a test holds every answer against its type.
"""

from __future__ import annotations

from typing import Any, Literal

import msgspec
from msgspec import UNSET, UnsetType


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """The base of every body; members that may be left out have no value in the document."""


class ErrorBody(Answer, frozen=True, kw_only=True):
    """An error. `kind` is its code; details are further members."""

    error: str
    kind: str
    code: str
    request_id: str | UnsetType = UNSET


class HealthOutput(Answer, frozen=True, kw_only=True):
    status: Literal["ok"]
    version: str
    internal_schema_version: int
    source_version: str | UnsetType = UNSET


class ReadyOutput(Answer, frozen=True, kw_only=True):
    ready: bool
    status: Literal["serving", "draining"]
    booted_serving_digest: str
    state_revision: int
    served_graph_count: int
    quarantined_graph_count: int
    shutdown_grace_seconds: float


class ListedGraph(Answer, frozen=True, kw_only=True):
    graph_id: str
    uri: str


class QuarantinedGraph(Answer, frozen=True, kw_only=True):
    graph_id: str
    reason: str


class GraphListOutput(Answer, frozen=True, kw_only=True):
    graphs: list[ListedGraph]
    quarantined: list[QuarantinedGraph]


class QueryListOutput(Answer, frozen=True, kw_only=True):
    queries: list[dict[str, Any]]


class RowCountsOutput(Answer, frozen=True, kw_only=True):
    """Counts of the rows of a table that a commit changed."""

    table_key: str
    inserted: int
    updated: int
    deleted: int


class CommitOutput(Answer, frozen=True, kw_only=True):
    graph_commit_id: str
    graph_branch: str | None
    graph_manifest_version: int
    parent_commit_id: str | None
    merged_parent_commit_id: str | None
    actor_id: str | None
    created_at: int
    kind: str | UnsetType = UNSET
    tables: list[RowCountsOutput] | UnsetType = UNSET
    origin: str | UnsetType = UNSET
    details: dict[str, Any] | UnsetType = UNSET


class CommitListOutput(Answer, frozen=True, kw_only=True):
    commits: list[CommitOutput]
    next_page_token: str | UnsetType = UNSET


class TableOutput(Answer, frozen=True, kw_only=True):
    table_key: str
    entity_kind: Literal["node", "edge"]
    type_name: str
    table_path: str
    manifest_version: int
    table_branch: str | None
    entity_count: int


class SnapshotOutput(Answer, frozen=True, kw_only=True):
    graph_branch: str
    snapshot_id: str
    graph_commit_id: str | None
    graph_manifest_version: int
    internal_schema_version: int
    tables: list[TableOutput]


class ReadTarget(Answer, frozen=True, kw_only=True):
    branch: str | None
    snapshot: str | None


class ReadOutput(Answer, frozen=True, kw_only=True):
    """Rows in one document. `graph_commit_id` is the commit they were read at."""

    query_name: str
    target: ReadTarget
    row_count: int
    columns: list[str]
    rows: list[dict[str, Any]]
    graph_commit_id: str | UnsetType | None = UNSET


class ChangeOutput(Answer, frozen=True, kw_only=True):
    """The result of a mutation; no commit if nothing matched."""

    branch: str
    query_name: str
    affected_nodes: int
    affected_edges: int
    actor_id: str | None
    commit: CommitOutput | None


class LoadedType(Answer, frozen=True, kw_only=True):
    name: str
    entities_loaded: int


class GraphBatchLoadOutput(Answer, frozen=True, kw_only=True):
    """The result of a load; no commit if there was nothing to load. A large load reports more."""

    branch: str
    base_branch: str | None
    branch_created: bool
    mode: str
    engine: str
    engine_reason: str | UnsetType | None = UNSET
    nodes: list[LoadedType]
    edges: list[LoadedType]
    total_entities: int
    actor_id: str | None
    commit: CommitOutput | None
    spark_app_id: str | UnsetType | None = UNSET
    stages: list[dict[str, Any]] | UnsetType = UNSET
    rows: int | UnsetType | None = UNSET
    bytes: int | UnsetType | None = UNSET
    seconds: float | UnsetType = UNSET
    rows_per_second: float | UnsetType | None = UNSET
    skipped: dict[str, Any] | UnsetType = UNSET


class LoadOutput(GraphBatchLoadOutput, frozen=True, kw_only=True):
    uri: str


class SchemaOutput(Answer, frozen=True, kw_only=True):
    schema_source: str


class AppliedMutationOutput(Answer, frozen=True, kw_only=True):
    """A mutation that was run before the change of the schema, in the same commit."""

    query_name: str
    affected_nodes: int
    affected_edges: int


class SchemaApplyOutput(Answer, frozen=True, kw_only=True):
    """The steps to another schema, and the commit that took them."""

    uri: str
    supported: bool
    step_count: int
    steps: list[dict[str, Any]]
    branch: str
    applied: bool
    dry_run: bool
    graph_manifest_version: int
    tables: list[dict[str, Any]]
    actor_id: str | None
    commit: CommitOutput | None
    notes: list[dict[str, Any]] | UnsetType = UNSET
    mutations: list[AppliedMutationOutput] | UnsetType = UNSET


class SchemaPlanOutput(Answer, frozen=True, kw_only=True):
    """The steps to another schema."""

    supported: bool
    step_count: int
    steps: list[dict[str, Any]]
    notes: list[dict[str, Any]]


class ExplainOutput(Answer, frozen=True, kw_only=True):
    """The plan of a query: as text and, if the query was not run, as a document."""

    text: str
    plan: dict[str, Any] | UnsetType = UNSET


class LintOutput(Answer, frozen=True, kw_only=True):
    """The result of a check of each query, and general findings."""

    status: Literal["ok", "error"]
    schema_source: dict[str, Any]
    query_path: str
    queries_processed: int
    errors: int
    warnings: int
    infos: int
    results: list[dict[str, Any]]
    findings: list[dict[str, Any]]


class BranchListOutput(Answer, frozen=True, kw_only=True):
    branches: list[str]
    next_page_token: str | UnsetType = UNSET


class BranchCreateOutput(Answer, frozen=True, kw_only=True, rename={"source": "from"}):
    uri: str
    source: str | None
    name: str
    actor_id: str | None


class BranchRenameOutput(BranchCreateOutput, frozen=True, kw_only=True):
    """The branch under its new name; `from` is what it was created from."""

    renamed_from: str


class BranchDeleteOutput(Answer, frozen=True, kw_only=True):
    uri: str
    name: str
    actor_id: str | None


class BranchMergeOutput(Answer, frozen=True, kw_only=True):
    source: str
    target: str
    outcome: Literal["already_up_to_date", "fast_forward", "merged"]
    engine: str
    dry_run: bool
    base_commit_ids: list[str]
    tables: list[dict[str, Any]]
    conflicts: list[dict[str, Any]]
    resolved: dict[str, int]
    actor_id: str | None
    commit: CommitOutput | None
    branch_deleted: bool | UnsetType = UNSET
    branch_delete_error: str | UnsetType = UNSET


class ApplyCommitOutput(Answer, frozen=True, kw_only=True):
    """The result of a revert, a cherry-pick or a restore, or of its dry run."""

    branch: str
    outcome: Literal["reverted", "cherry_picked", "restored", "unchanged"]
    applied_commit_id: str
    dry_run: bool
    tables: list[dict[str, Any]]
    conflicts: list[dict[str, Any]]
    resolved: dict[str, int]
    actor_id: str | None
    commit: CommitOutput | None


class TagOutput(Answer, frozen=True, kw_only=True):
    """A permanent name for a commit."""

    name: str
    graph_commit_id: str
    graph_branch: str
    actor_id: str | None
    created_at: int


class TagListOutput(Answer, frozen=True, kw_only=True):
    tags: list[TagOutput]
    next_page_token: str | UnsetType = UNSET


class ConsumerOutput(Answer, frozen=True, kw_only=True):
    """A consumer of the feed of a branch: up to where it has read, and until when it counts."""

    name: str
    graph_branch: str
    graph_commit_id: str
    expires_at: int
    updated_at: int


class ConsumerListOutput(Answer, frozen=True, kw_only=True):
    consumers: list[ConsumerOutput]
    next_page_token: str | UnsetType = UNSET


class TypeStatsOutput(Answer, frozen=True, kw_only=True):
    kind: Literal["node", "edge"]
    type_name: str
    inserted: int
    updated: int
    deleted: int


class DiffOutput(Answer, frozen=True, kw_only=True, rename={"before": "from", "after": "to"}):
    """Between which snapshots, and how many entities of each type are different."""

    before: str
    after: str
    stats: list[TypeStatsOutput]


class ChangeCause(Answer, frozen=True, kw_only=True):
    graph_commit_id: str
    graph_manifest_version: int
    authored_branch: str
    authored_at: int
    parent_commit_id: str | UnsetType | None = UNSET
    merged_parent_commit_id: str | UnsetType | None = UNSET
    actor_id: str | UnsetType | None = UNSET


class ChangeBlock(Answer, frozen=True, kw_only=True):
    cause: ChangeCause
    changes: list[dict[str, Any]]


class CommitChangesOutput(ChangeBlock, frozen=True, kw_only=True):
    next_page_token: str | UnsetType = UNSET


class EntityVersionOutput(Answer, frozen=True, kw_only=True):
    cause: ChangeCause
    op: str
    image: dict[str, Any] | None


class EntityHistoryOutput(Answer, frozen=True, kw_only=True):
    """Every value an entity had, newest first; not complete where cleanup removed the rest."""

    kind: Literal["node", "edge"]
    type_name: str
    id: str
    versions: list[EntityVersionOutput]
    complete: bool


class ChangeFeedOutput(Answer, frozen=True, kw_only=True):
    """A page: with a cursor its last commit is whole, with a page token it goes on."""

    blocks: list[ChangeBlock]
    next_page_token: str | UnsetType = UNSET
    cursor: str | UnsetType = UNSET
    caught_up: bool | UnsetType = UNSET


class BlobStatOutput(Answer, frozen=True, kw_only=True):
    entity_kind: str
    type_name: str
    entity_id: str
    property: str
    storage: Literal["managed", "external"]
    size: int | None
    etag: str | None
    uri: str | None
    snapshot_id: str


class BlobPutOutput(Answer, frozen=True, kw_only=True):
    """The metadata of a written blob, and the commit that wrote it."""

    blob: BlobStatOutput
    commit: CommitOutput


class WriteOutput(Answer, frozen=True, kw_only=True):
    """The outcome of a write with an idempotency key; its commit if it created one."""

    key: str
    operation: str
    commit: CommitOutput | None
    answer: dict[str, Any]

"""Table of the operations: path, parameters, bodies and rights of the route of each.

The server dispatches by it and checks the rights in it, the clients build requests from it, and the
OpenAPI document is generated from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec

from omnigraph.evolution.apply_result import SchemaApplyResult
from omnigraph.evolution.migration_plan import MigrationPlan
from omnigraph.operations.route_spec import (
    BLOB,
    BRANCH,
    CHANGES,
    CHANGES_BRANCH,
    ENTITY,
    EXPECTED_HEAD,
    GRAPH,
    KINDS,
    PAGES,
    READS,
    READS_GRAPH,
    READS_STATE,
    ROWS,
    SNAPSHOT,
    YES_NO,
    QueryParameter,
    Right,
    RouteSpec,
    make_delete,
    make_get,
    make_keyed_post,
    make_post,
    make_put,
)
from omnigraph.plan.query_lint import LintReport
from omnigraph.policy import Action
from omnigraph.wire import request_bodies as asks
from omnigraph.wire.change_results import CommitChanges, DiffStats, EntityHistory, FeedPage
from omnigraph.wire.commit_results import Commit, CommitList, Consumer, ConsumerList, Tag, TagList
from omnigraph.wire.http_protocol import ARROW_STREAM, NDJSON, OCTETS
from omnigraph.wire.merge_results import ApplyResult, MergeResult
from omnigraph.wire.read_results import (
    BranchList,
    ErrorBody,
    Explanation,
    GraphList,
    Health,
    QueryList,
    QueryRows,
    Readiness,
    SchemaText,
    SnapshotInfo,
)
from omnigraph.wire.write_results import (
    CreatedBranch,
    DeletedBranch,
    LoadResult,
    MutationResult,
    PutBlob,
    RecordedWrite,
)

_NO_BRANCH = "the branch does not exist"

# --- reading --------------------------------------------------------------------------------------
GET_SNAPSHOT = make_get(
    "getSnapshot",
    "snapshot",
    "The table versions that make up a branch, now or at a revision.",
    SnapshotInfo,
    Right(Action.READ, "branch", unless="at"),
    Right(Action.READ, of="at"),
    parameters=(
        BRANCH,
        QueryParameter(
            "at",
            "A tag, commit, version, time or any other revision, instead of the branch as it is.",
        ),
    ),
)
GET_BLOB: RouteSpec[Any] = make_get(
    "getBlob",
    "blob",
    "The bytes of a blob, or a range of them.",
    None,
    *READS_STATE,
    parameters=(*BLOB, BRANCH, SNAPSHOT),
    answer_media=(OCTETS,),
    statuses=(206, 302, 304, 412, 416),
)
HEAD_BLOB: RouteSpec[Any] = RouteSpec(
    "headBlob",
    "HEAD",
    f"{GRAPH}/blob",
    "The metadata of a blob, without reading it.",
    parameters=(*BLOB, BRANCH, SNAPSHOT),
    answer_media=(OCTETS,),
    statuses=(302, 304, 412),
    rights=READS_STATE,
)
PUT_BLOB = make_put(
    "putBlob",
    "blob",
    "Write a blob as one commit; with `If-Match`, only over the value that was read.",
    None,
    PutBlob,
    CHANGES_BRANCH,
    READS,
    parameters=(*BLOB, BRANCH),
    body_media=OCTETS,
    takes_key=True,
    statuses=(412, 415),
)
QUERY = make_post(
    "query",
    "query",
    "Run a read query.",
    asks.QueryRequest,
    QueryRows,
    *READS_STATE,
    answer_media=ROWS,
    statuses=(504,),
)
EXPLAIN = make_post(
    "explain",
    "explain",
    "The plan of a query; with `analyze`, also the rows and time of each operator.",
    asks.ExplainRequest,
    Explanation,
    *READS_STATE,
    statuses=(504,),
)
LINT = make_post(
    "lint",
    "lint",
    "Check queries against the schema without running any.",
    asks.LintRequest,
    LintReport,
    *READS_STATE,
)
LIST_ROWS: RouteSpec[Any] = make_get(
    "listRows",
    "rows",
    "Every node or edge of a type, blobs included, as a stream.",
    None,
    *READS_STATE,
    parameters=(
        QueryParameter("entity", "Nodes or edges.", is_required=True, choices=KINDS),
        QueryParameter("type", "The type.", is_required=True),
        BRANCH,
        SNAPSHOT,
    ),
    answer_media=(ARROW_STREAM,),
)
# --- queries, schemas and loads -------------------------------------------------------------------
MUTATE = make_keyed_post(
    "mutate",
    "mutate",
    "Run a mutation as one commit.",
    asks.MutateRequest,
    MutationResult,
    CHANGES_BRANCH,
    verb="mutate",
    is_conditional=True,
    statuses=(412,),
)
LIST_QUERIES = make_get(
    "list_queries", "queries", "The stored queries that can be run.", QueryList, READS
)
INVOKE_QUERY = make_keyed_post(
    "invoke_query",
    "queries/{name}",
    "Run a stored query; a read is answered as `query` is, a mutation as `mutate` is.",
    asks.InvokeQueryRequest,
    QueryRows,
    Right(Action.INVOKE_QUERY, query="name"),
    Right(Action.READ, "branch", unless="snapshot", only="the query reads"),
    Right(Action.READ, of="snapshot"),
    Right(Action.CHANGE, "branch", only="the query changes the graph"),
    verb="invoke",
    alternative=MutationResult,
    answer_media=ROWS,
    is_body_optional=True,
    is_conditional=True,
    statuses=(412, 504),
)
GET_SCHEMA = make_get(
    "getSchema",
    "schema",
    "The accepted schema.",
    SchemaText,
    Right(Action.READ, "branch", has_default=False, unless="snapshot"),
    Right(Action.READ, of="snapshot"),
    parameters=(BRANCH, SNAPSHOT),
)
PLAN_SCHEMA = make_post(
    "planSchema",
    "schema/plan",
    "The steps to another schema; nothing is changed.",
    asks.SchemaPlanRequest,
    MigrationPlan,
    READS_GRAPH,
)
APPLY_SCHEMA = make_keyed_post(
    "applySchema",
    "schema/apply",
    "Apply another schema as one commit.",
    asks.SchemaApplyRequest,
    SchemaApplyResult,
    Right(Action.SCHEMA_APPLY, target="branch"),
    Right(Action.CHANGE, "branch", when="mutations"),
    verb="apply_schema",
    statuses=(412,),
)
LOAD = make_keyed_post(
    "load",
    "load",
    "Load records as one commit; `load/ndjson` takes them without wrapping.",
    asks.LoadRequest,
    LoadResult,
    Right(Action.BRANCH_CREATE, "base", "branch", when="base", only=_NO_BRANCH),
    CHANGES_BRANCH,
    verb="load",
    statuses=(412,),
)
LOAD_NDJSON = RouteSpec(
    "loadNdjson",
    "POST",
    f"{GRAPH}/load/ndjson",
    "Load JSON lines as one commit.",
    verb="load",
    response=LoadResult,
    rights=(
        Right(Action.BRANCH_CREATE, "from", "branch", when="from", only=_NO_BRANCH),
        CHANGES_BRANCH,
    ),
    parameters=(
        BRANCH,
        QueryParameter("from", "Create the branch from this one first, if it is missing."),
        QueryParameter(
            "mode",
            "How records are combined with stored ones; `merge` by default.",
            choices=("append", "merge", "overwrite"),
        ),
        QueryParameter("partial", "Whether a merge retains omitted properties.", choices=YES_NO),
        QueryParameter(
            "match",
            "A column by which a merge finds edges without ids, such as `from`.",
            repeats=True,
        ),
        EXPECTED_HEAD,
        QueryParameter("message", "A text stored with the commit."),
    ),
    body_media=NDJSON,
    is_write=True,
    takes_key=True,
    statuses=(412, 415),
)
EXPORT: RouteSpec[Any] = make_post(
    "export",
    "export",
    "Every record of a branch, as JSON lines that can be loaded again.",
    asks.ExportRequest,
    None,
    Right(Action.EXPORT, "branch", unless="snapshot"),
    Right(Action.EXPORT, of="snapshot"),
    answer_media=(NDJSON,),
    is_body_optional=True,
)
# --- branches -------------------------------------------------------------------------------------
LIST_BRANCHES = make_get(
    "listBranches",
    "branches",
    "The names of the branches.",
    BranchList,
    READS_GRAPH,
    parameters=PAGES,
)
CREATE_BRANCH = make_keyed_post(
    "createBranch",
    "branches",
    "Create a branch; nothing is copied.",
    asks.BranchCreateRequest,
    CreatedBranch,
    Right(Action.BRANCH_CREATE, "source", "name"),
    verb="create_branch",
)
MERGE_BRANCHES = make_keyed_post(
    "mergeBranches",
    "branches/merge",
    "Merge a branch into another one, as one commit.",
    asks.BranchMergeRequest,
    MergeResult,
    Right(Action.BRANCH_MERGE, "source", "into"),
    Right(Action.BRANCH_DELETE, target="source", when="delete_branch"),
    verb="merge",
    statuses=(412,),
)
RENAME_BRANCH = make_keyed_post(
    "renameBranch",
    "branches/rename",
    "Rename a branch; it stays the same branch, with its commits and its feed.",
    asks.BranchRenameRequest,
    CreatedBranch,
    Right(Action.BRANCH_DELETE, target="name"),
    Right(Action.BRANCH_CREATE, "name", "new_name"),
    verb="rename_branch",
)
DELETE_BRANCH = make_delete(
    "deleteBranch",
    "branches/{branch}",
    "Delete a branch.",
    DeletedBranch,
    Right(Action.BRANCH_DELETE, target="branch"),
    verb="delete_branch",
    takes_key=True,
)
# --- history --------------------------------------------------------------------------------------
LIST_COMMITS = make_get(
    "listCommits",
    "commits",
    "The commits of a branch, newest first.",
    CommitList,
    READS,
    parameters=(
        BRANCH,
        QueryParameter("before", "Only commits older than this one, or up to this time."),
        QueryParameter("after", "Only commits newer than this one, or after this time."),
        QueryParameter("type", "Only commits that changed rows of these types.", repeats=True),
        QueryParameter("commit_kind", "Only of this kind, such as `load`.", repeats=True),
        *PAGES,
    ),
)
GET_COMMIT = make_get("getCommit", "commits/{commit_id}", "One commit.", Commit, READS_GRAPH)
GET_COMMIT_CHANGES = make_get(
    "getCommitChanges",
    "commits/{commit_id}/changes",
    "The changes of a commit, in pages.",
    CommitChanges,
    Right(Action.READ, of="commit_id"),
    parameters=(*PAGES, *CHANGES),
    statuses=(410,),
)
REVERT = make_keyed_post(
    "revert",
    "revert",
    "Undo the changes of one commit, as a new commit.",
    asks.ApplyCommitRequest,
    ApplyResult,
    CHANGES_BRANCH,
    Right(Action.READ, of="commit"),
    verb="revert",
    statuses=(412,),
)
CHERRY_PICK = make_keyed_post(
    "cherryPick",
    "cherry-pick",
    "Apply the changes of one commit of any branch to a branch, as a new commit.",
    asks.ApplyCommitRequest,
    ApplyResult,
    CHANGES_BRANCH,
    Right(Action.READ, of="commit"),
    verb="cherry_pick",
    statuses=(412,),
)
RESTORE = make_keyed_post(
    "restore",
    "restore",
    "Set a branch to its state at a revision, as a new commit.",
    asks.RestoreRequest,
    ApplyResult,
    CHANGES_BRANCH,
    Right(Action.READ, of="revision"),
    verb="restore",
    statuses=(412,),
)
LIST_TAGS = make_get(
    "listTags", "tags", "The tags, by name.", TagList, READS_GRAPH, parameters=PAGES
)
CREATE_TAG = make_post(
    "createTag",
    "tags",
    "Give a commit a permanent name.",
    asks.TagCreateRequest,
    Tag,
    CHANGES_BRANCH,
    Right(Action.READ, of="at"),
    verb="tag",
    is_write=True,
)
DELETE_TAG = make_delete(
    "deleteTag", "tags/{tag}", "Delete a tag.", Tag, Right(Action.CHANGE), verb="delete_tag"
)
DIFF = make_get(
    "diff",
    "diff",
    "Compare two revisions: counts by type, changes as lines, or those of one type as Arrow.",
    DiffStats,
    Right(Action.READ, of="before"),
    Right(Action.READ, of="after"),
    parameters=(
        QueryParameter("before", "The revision to compare.", is_required=True),
        QueryParameter("after", "The other revision; the head of the branch by default."),
        BRANCH,
        QueryParameter(
            "images", "Whether lines have whole entities before and after.", choices=YES_NO
        ),
        *CHANGES,
    ),
    answer_media=ROWS,
)
GET_ENTITY_HISTORY = make_get(
    "getEntityHistory",
    "history",
    "Every value an entity had on a branch, newest first.",
    EntityHistory,
    READS,
    parameters=(
        *ENTITY,
        QueryParameter(
            "entity",
            "Its kind, if a node type and an edge type share the name.",
            choices=KINDS,
        ),
        BRANCH,
    ),
)
# --- feeds and keyed writes -----------------------------------------------------------------------
POLL_CHANGES = make_get(
    "pollChanges",
    "changes",
    "A page of the change feed of a branch.",
    FeedPage,
    READS,
    parameters=(
        BRANCH,
        QueryParameter("cursor", "Go on after a page that ended with this cursor."),
        QueryParameter("start", "Where to begin: `now`, `beginning`, or `after:` and a commit id."),
        *reversed(PAGES),
        QueryParameter("max_commits", "At most so many commits.", is_number=True),
        *CHANGES,
    ),
    statuses=(410,),
)
CAPTURE_CHANGE_BASELINE: RouteSpec[Any] = make_post(
    "captureChangeBaseline",
    "changes/baseline",
    "Every record of a branch, and then the cursor to follow its feed from.",
    asks.ChangeBaselineRequest,
    None,
    Right(Action.EXPORT, "branch"),
    answer_media=(NDJSON,),
    is_body_optional=True,
)
LIST_CONSUMERS = make_get(
    "listConsumers",
    "consumers",
    "The consumers of the change feeds, by name.",
    ConsumerList,
    READS_GRAPH,
    parameters=PAGES,
)
SET_CONSUMER = make_put(
    "setConsumer",
    "consumers/{consumer}",
    "Record how far a consumer has read, so that cleanup retains the rest for it.",
    asks.ConsumerSetRequest,
    Consumer,
    CHANGES_BRANCH,
    verb="set_consumer",
    is_body_optional=True,
)
DELETE_CONSUMER = make_delete(
    "deleteConsumer",
    "consumers/{consumer}",
    "Delete a consumer.",
    Consumer,
    Right(Action.CHANGE),
    verb="delete_consumer",
)
GET_WRITE = make_get(
    "getWrite",
    "writes/{key}",
    "The outcome of a write with an idempotency key.",
    RecordedWrite,
    CHANGES_BRANCH,
    parameters=(BRANCH,),
)
# --- the server itself ----------------------------------------------------------------------------
HEALTH = RouteSpec(
    "health",
    "GET",
    "/healthz",
    "Whether the process is alive; no graph is touched.",
    response=Health,
    is_open=True,
)
READY = RouteSpec(
    "ready",
    "GET",
    "/readyz",
    "Whether requests should be sent here.",
    response=Readiness,
    is_open=True,
    statuses=(503,),
)
OPENAPI: RouteSpec[Any] = RouteSpec(
    "openapi", "GET", "/openapi.json", "This document.", is_open=True
)
LIST_GRAPHS = RouteSpec(
    "listGraphs",
    "GET",
    "/graphs",
    "The graphs that are served.",
    response=GraphList,
    rights=(Right(Action.GRAPH_LIST),),
)

ROUTES: tuple[RouteSpec[Any], ...] = (
    *(HEALTH, READY, OPENAPI, LIST_GRAPHS),
    *(GET_SNAPSHOT, GET_BLOB, HEAD_BLOB, PUT_BLOB, QUERY, EXPLAIN, LINT, LIST_ROWS),
    *(
        MUTATE,
        LIST_QUERIES,
        INVOKE_QUERY,
        GET_SCHEMA,
        PLAN_SCHEMA,
        APPLY_SCHEMA,
        LOAD,
        LOAD_NDJSON,
        EXPORT,
    ),
    *(LIST_BRANCHES, CREATE_BRANCH, MERGE_BRANCHES, RENAME_BRANCH, DELETE_BRANCH),
    *(
        LIST_COMMITS,
        GET_COMMIT,
        GET_COMMIT_CHANGES,
        REVERT,
        CHERRY_PICK,
        RESTORE,
        LIST_TAGS,
        CREATE_TAG,
        DELETE_TAG,
        DIFF,
        GET_ENTITY_HISTORY,
    ),
    *(
        POLL_CHANGES,
        CAPTURE_CHANGE_BASELINE,
        LIST_CONSUMERS,
        SET_CONSUMER,
        DELETE_CONSUMER,
        GET_WRITE,
    ),
)


def find_route(operation: str) -> RouteSpec[Any]:
    """Return the route of an operation."""
    return next(route for route in ROUTES if route.operation == operation)


def list_schemas() -> Sequence[type[msgspec.Struct]]:
    """Every type that a body has."""
    requests = (route.request for route in ROUTES if route.request is not None)
    responses = (one for route in ROUTES for one in route.responses)
    return sorted({*requests, *responses, ErrorBody}, key=lambda one: one.__name__)

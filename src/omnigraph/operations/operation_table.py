"""Route table of the HTTP interface.

Operation, path, parameters, body and answers of each route.

The server dispatches by it, the client builds requests from it, and the OpenAPI document is
generated from it.
"""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

from omnigraph.evolution.apply_result import SchemaApplyResult
from omnigraph.evolution.migration_plan import MigrationPlan
from omnigraph.plan.query_lint import LintReport
from omnigraph.wire import request_bodies as asks
from omnigraph.wire.change_results import CommitChanges, DiffStats, EntityHistory, FeedPage
from omnigraph.wire.commit_results import Commit, CommitList, Consumer, ConsumerList, Tag, TagList
from omnigraph.wire.http_protocol import (
    ARROW_STREAM,
    BLOB,
    BRANCH,
    CHANGES,
    ENTITY,
    EXPECTED_HEAD,
    GRAPH,
    KINDS,
    NDJSON,
    OCTETS,
    PAGES,
    ROWS,
    SNAPSHOT,
    YES_NO,
    QueryParameter,
    RouteSpec,
    make_delete,
    make_get,
    make_keyed_post,
    make_post,
)
from omnigraph.wire.merge_results import ApplyResult, MergeResult
from omnigraph.wire.read_results import (
    BranchList,
    Explanation,
    QueryList,
    QueryRows,
    SchemaText,
    SnapshotInfo,
)
from omnigraph.wire.server_state import ErrorBody, GraphList, Health, Readiness
from omnigraph.wire.write_results import (
    CreatedBranch,
    DeletedBranch,
    LoadResult,
    MutationResult,
    PutBlob,
    RecordedWrite,
)

READING_ROUTES = (
    make_get(
        "getSnapshot",
        "snapshot",
        "Which version of which table makes up a branch, now or as it was.",
        SnapshotInfo,
        parameters=(
            BRANCH,
            QueryParameter(
                "at",
                "A tag, commit, version, time or any other place, instead of the branch as it is.",
            ),
        ),
    ),
    make_get(
        "getBlob",
        "blob",
        "The bytes of a blob, or a range of them.",
        None,
        parameters=(*BLOB, BRANCH, SNAPSHOT),
        answer_media=(OCTETS,),
        statuses=(206, 302, 304, 412, 416),
    ),
    RouteSpec(
        "headBlob",
        "HEAD",
        f"{GRAPH}/blob",
        "What is known of a blob without reading it.",
        parameters=(*BLOB, BRANCH, SNAPSHOT),
        answer_media=(OCTETS,),
        statuses=(302, 304, 412),
    ),
    RouteSpec(
        "putBlob",
        "PUT",
        f"{GRAPH}/blob",
        "Write a blob as one commit; with `If-Match`, only over the value that was read.",
        response=PutBlob,
        parameters=(*BLOB, BRANCH),
        body_media=OCTETS,
        is_write=True,
        takes_key=True,
        statuses=(412, 415),
    ),
    make_post(
        "query",
        "query",
        "Run a read query.",
        asks.QueryRequest,
        QueryRows,
        answer_media=ROWS,
        statuses=(504,),
    ),
    make_post(
        "explain",
        "explain",
        "The plan of a query; with `analyze`, what every operator did and took.",
        asks.ExplainRequest,
        Explanation,
        statuses=(504,),
    ),
    make_post(
        "lint",
        "lint",
        "Check queries against the schema without running any.",
        asks.LintRequest,
        LintReport,
    ),
    make_get(
        "listRows",
        "rows",
        "Every node or edge of a type, blobs included, as a stream.",
        None,
        parameters=(
            QueryParameter("entity", "Nodes or edges.", is_required=True, choices=KINDS),
            QueryParameter("type", "The type.", is_required=True),
            BRANCH,
            SNAPSHOT,
        ),
        answer_media=(ARROW_STREAM,),
    ),
)


CHANGING_ROUTES = (
    make_keyed_post(
        "mutate",
        "mutate",
        "Run a mutation as one commit.",
        asks.MutateRequest,
        MutationResult,
        is_conditional=True,
        statuses=(412,),
    ),
    make_get("list_queries", "queries", "The stored queries that can be run.", QueryList),
    make_keyed_post(
        "invoke_query",
        "queries/{name}",
        "Run a stored query; a read is answered as `query` is, a mutation as `mutate` is.",
        asks.InvokeQueryRequest,
        None,
        answer_media=ROWS,
        is_body_optional=True,
        is_conditional=True,
        statuses=(412, 504),
    ),
    make_get(
        "getSchema",
        "schema",
        "The accepted schema.",
        SchemaText,
        parameters=(BRANCH, SNAPSHOT),
    ),
    make_post(
        "planSchema",
        "schema/plan",
        "The steps to another schema; nothing is changed.",
        asks.SchemaPlanRequest,
        MigrationPlan,
    ),
    make_keyed_post(
        "applySchema",
        "schema/apply",
        "Give the graph another schema as one commit.",
        asks.SchemaApplyRequest,
        SchemaApplyResult,
        statuses=(412,),
    ),
    make_keyed_post(
        "load",
        "load",
        "Load records as one commit; `load/ndjson` takes them without wrapping.",
        asks.LoadRequest,
        LoadResult,
        statuses=(412,),
    ),
    RouteSpec(
        "loadNdjson",
        "POST",
        f"{GRAPH}/load/ndjson",
        "Load JSON lines as one commit.",
        response=LoadResult,
        parameters=(
            BRANCH,
            QueryParameter("from", "Create the branch from this one first, if it is missing."),
            QueryParameter(
                "mode",
                "How records meet what is there; `merge` by default.",
                choices=("append", "merge", "overwrite"),
            ),
            QueryParameter(
                "partial", "Whether a merge keeps what a record leaves out.", choices=YES_NO
            ),
            QueryParameter(
                "match",
                "A column by which a merge finds edges without ids, such as `from`.",
                repeats=True,
            ),
            EXPECTED_HEAD,
            QueryParameter("message", "A text kept with the commit."),
        ),
        body_media=NDJSON,
        is_write=True,
        takes_key=True,
        statuses=(412, 415),
    ),
    make_post(
        "export",
        "export",
        "Every record of a branch, as JSON lines that can be loaded again.",
        asks.ExportRequest,
        None,
        answer_media=(NDJSON,),
        is_body_optional=True,
    ),
)
BRANCH_ROUTES = (
    make_get(
        "listBranches",
        "branches",
        "The names of the branches.",
        BranchList,
        parameters=PAGES,
    ),
    make_keyed_post(
        "createBranch",
        "branches",
        "Create a branch; nothing is copied.",
        asks.BranchCreateRequest,
        CreatedBranch,
    ),
    make_keyed_post(
        "mergeBranches",
        "branches/merge",
        "Bring what a branch has into another one, as one commit.",
        asks.BranchMergeRequest,
        MergeResult,
        statuses=(412,),
    ),
    make_keyed_post(
        "renameBranch",
        "branches/rename",
        "Rename a branch; it stays the same branch, with its commits and its feed.",
        asks.BranchRenameRequest,
        CreatedBranch,
    ),
    make_delete(
        "deleteBranch",
        "branches/{branch}",
        "Delete a branch.",
        DeletedBranch,
        takes_key=True,
    ),
)


HISTORY_ROUTES = (
    make_get(
        "listCommits",
        "commits",
        "The commits of a branch, newest first.",
        CommitList,
        parameters=(
            BRANCH,
            QueryParameter("before", "Only commits older than this one, or up to this time."),
            QueryParameter("after", "Only commits newer than this one, or after this time."),
            QueryParameter("type", "Only commits that changed rows of these types.", repeats=True),
            QueryParameter("commit_kind", "Only commits made by this, as `load`.", repeats=True),
            *PAGES,
        ),
    ),
    make_get("getCommit", "commits/{commit_id}", "One commit.", Commit),
    make_get(
        "getCommitChanges",
        "commits/{commit_id}/changes",
        "What a commit changed, a page at a time.",
        CommitChanges,
        parameters=(*PAGES, *CHANGES),
        statuses=(410,),
    ),
    make_keyed_post(
        "revert",
        "revert",
        "Undo what one commit did, as a new commit.",
        asks.ApplyCommitRequest,
        ApplyResult,
        statuses=(412,),
    ),
    make_keyed_post(
        "cherryPick",
        "cherry-pick",
        "Do what one commit of any branch did on a branch as well, as a new commit.",
        asks.ApplyCommitRequest,
        ApplyResult,
        statuses=(412,),
    ),
    make_keyed_post(
        "restore",
        "restore",
        "Set a branch to what it was at a place, as a new commit.",
        asks.RestoreRequest,
        ApplyResult,
        statuses=(412,),
    ),
    make_get("listTags", "tags", "The tags, by name.", TagList, parameters=PAGES),
    make_post(
        "createTag",
        "tags",
        "Give a commit a permanent name.",
        asks.TagCreateRequest,
        Tag,
        is_write=True,
    ),
    make_delete("deleteTag", "tags/{tag}", "Delete a tag.", Tag),
    make_get(
        "diff",
        "diff",
        "How two places differ: counts by type, every change as a line, or those of one type as "
        "Arrow.",
        DiffStats,
        parameters=(
            QueryParameter("before", "The place to start from.", is_required=True),
            QueryParameter("after", "The other place; the branch as it is by default."),
            BRANCH,
            QueryParameter(
                "images", "Whether lines have whole entities before and after.", choices=YES_NO
            ),
            *CHANGES,
        ),
        answer_media=ROWS,
    ),
    make_get(
        "getEntityHistory",
        "history",
        "Every value an entity had on a branch, newest first.",
        EntityHistory,
        parameters=(
            *ENTITY,
            QueryParameter(
                "entity",
                "What it is, where a node type and an edge type share the name.",
                choices=KINDS,
            ),
            BRANCH,
        ),
    ),
)
FEED_ROUTES = (
    make_get(
        "pollChanges",
        "changes",
        "A page of the change feed of a branch.",
        FeedPage,
        parameters=(
            BRANCH,
            QueryParameter("cursor", "Go on after a page that ended with this cursor."),
            QueryParameter(
                "start", "Where to begin: `now`, `beginning`, or `after:` and a commit id."
            ),
            *reversed(PAGES),
            QueryParameter("max_commits", "At most so many commits.", is_number=True),
            *CHANGES,
        ),
        statuses=(410,),
    ),
    make_post(
        "captureChangeBaseline",
        "changes/baseline",
        "Every record of a branch, and then the cursor to follow its feed from.",
        asks.ChangeBaselineRequest,
        None,
        answer_media=(NDJSON,),
        is_body_optional=True,
    ),
    make_get(
        "listConsumers",
        "consumers",
        "The consumers of the change feeds, by name.",
        ConsumerList,
        parameters=PAGES,
    ),
    RouteSpec(
        "setConsumer",
        "PUT",
        f"{GRAPH}/consumers/{{consumer}}",
        "Record how far a consumer has read, so that cleanup keeps the rest for it.",
        asks.ConsumerSetRequest,
        Consumer,
        is_body_optional=True,
        is_write=True,
    ),
    make_delete("deleteConsumer", "consumers/{consumer}", "Delete a consumer.", Consumer),
    make_get(
        "getWrite",
        "writes/{key}",
        "What became of a write that was sent with an idempotency key.",
        RecordedWrite,
        parameters=(BRANCH,),
    ),
)


SERVER_ROUTES = (
    RouteSpec(
        "health",
        "GET",
        "/healthz",
        "Whether the process is alive; no graph is touched.",
        response=Health,
        is_open=True,
    ),
    RouteSpec(
        "ready",
        "GET",
        "/readyz",
        "Whether requests should be sent here.",
        response=Readiness,
        is_open=True,
        statuses=(503,),
    ),
    RouteSpec("openapi", "GET", "/openapi.json", "This document.", is_open=True),
    RouteSpec(
        "listGraphs",
        "GET",
        "/graphs",
        "The graphs that are served.",
        response=GraphList,
    ),
)
ROUTES: tuple[RouteSpec, ...] = (
    *SERVER_ROUTES,
    *READING_ROUTES,
    *CHANGING_ROUTES,
    *BRANCH_ROUTES,
    *HISTORY_ROUTES,
    *FEED_ROUTES,
)

BY_OPERATION = {route.operation: route for route in ROUTES}


def find_route(operation: str) -> RouteSpec:
    """The route of an operation."""
    return BY_OPERATION[operation]


def list_schemas() -> Sequence[type[msgspec.Struct]]:
    """Every type that a body has."""
    found = {route.request for route in ROUTES} | {route.response for route in ROUTES}
    bodies = [one for one in found if one is not None]
    return sorted([*bodies, ErrorBody], key=lambda one: one.__name__)

"""Every route: what it is called, what it takes and what it gives.

The server makes its routes from this table, the OpenAPI document is written from it, and a client
finds the path of an operation in it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import msgspec

from omnigraph.wire import request_bodies as asks
from omnigraph.wire import response_bodies as gives
from omnigraph.wire.http_names import ARROW_STREAM, JSON, NDJSON, OCTETS

GRAPH = "/graphs/{graph_id}"
"""Before the path of every route of a graph."""


@dataclass(frozen=True, slots=True)
class QueryParameter:
    """A parameter in the address; one that repeats may be given several times."""

    name: str
    meaning: str
    repeats: bool = False
    is_number: bool = False
    is_required: bool = False
    choices: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class RouteSpec:
    """One route."""

    operation: str
    method: str
    path: str
    summary: str
    request: type[msgspec.Struct] | None = None
    response: type[msgspec.Struct] | None = None
    parameters: tuple[QueryParameter, ...] = ()
    body_media: str = JSON
    answer_media: tuple[str, ...] = (JSON,)
    is_body_optional: bool = False
    is_write: bool = False
    """Whether it takes an idempotency key."""
    is_conditional: bool = False
    """Whether it needs the head the branch must have."""
    is_open: bool = False
    """Whether it answers without a token."""
    successor: str | None = None
    """The route to use instead of an old one."""
    statuses: tuple[int, ...] = field(default=())
    """What else it may answer, besides the success and the errors of all routes."""

    @property
    def is_of_graph(self) -> bool:
        return self.path.startswith(GRAPH + "/")


BRANCH = QueryParameter("branch", "The branch; `main` by default.")
LIMIT = QueryParameter("limit", "At most so many.", is_number=True)
PAGE_TOKEN = QueryParameter("page_token", "The `next_page_token` of the page before.")
KIND = QueryParameter("kind", "Only nodes, or only edges.", repeats=True, choices=("node", "edge"))
TYPE = QueryParameter("type", "Only entities of these types.", repeats=True)
OP = QueryParameter(
    "op",
    "Only changes of these kinds.",
    repeats=True,
    choices=("insert", "update", "delete"),
)
BLOB = (
    QueryParameter(
        "entity",
        "What it belongs to; needed only if a node type and an edge type share the name.",
        choices=("node", "edge"),
    ),
    QueryParameter("type", "The type of the entity.", is_required=True),
    QueryParameter("id", "The id of the entity.", is_required=True),
    QueryParameter("property", "The property that holds it.", is_required=True),
)
SNAPSHOT = QueryParameter("snapshot", "A commit or snapshot id, instead of a branch.")
EXPECTED_HEAD = QueryParameter("expected_head", "Only if the branch is at this commit.")
YES_NO = ("true", "false")
ROWS = (JSON, NDJSON, ARROW_STREAM)

ROUTES: tuple[RouteSpec, ...] = (
    RouteSpec(
        "health",
        "GET",
        "/healthz",
        "Whether the process is alive; no graph is touched.",
        response=gives.HealthOutput,
        is_open=True,
    ),
    RouteSpec(
        "ready",
        "GET",
        "/readyz",
        "Whether requests should be sent here.",
        response=gives.ReadyOutput,
        is_open=True,
        statuses=(503,),
    ),
    RouteSpec("openapi", "GET", "/openapi.json", "This document.", is_open=True),
    RouteSpec(
        "listGraphs",
        "GET",
        "/graphs",
        "The graphs that are served.",
        response=gives.GraphListOutput,
    ),
    RouteSpec(
        "getSnapshot",
        "GET",
        f"{GRAPH}/snapshot",
        "Which version of which table makes up a branch, now or as it was.",
        response=gives.SnapshotOutput,
        parameters=(
            BRANCH,
            QueryParameter(
                "at",
                "A tag, commit, version, time or any other place, instead of the branch as it is.",
            ),
        ),
    ),
    RouteSpec(
        "getBlob",
        "GET",
        f"{GRAPH}/blob",
        "The bytes of a blob, or a range of them.",
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
        response=gives.BlobPutOutput,
        parameters=(*BLOB, BRANCH),
        body_media=OCTETS,
        is_write=True,
        statuses=(412, 415),
    ),
    RouteSpec(
        "query",
        "POST",
        f"{GRAPH}/query",
        "Run a read query.",
        asks.QueryRequest,
        gives.ReadOutput,
        answer_media=ROWS,
        statuses=(504,),
    ),
    RouteSpec(
        "explain",
        "POST",
        f"{GRAPH}/explain",
        "The plan of a query; with `analyze`, what every operator did and took.",
        asks.ExplainRequest,
        gives.ExplainOutput,
        statuses=(504,),
    ),
    RouteSpec(
        "lint",
        "POST",
        f"{GRAPH}/lint",
        "Check queries against the schema without running any.",
        asks.LintRequest,
        gives.LintOutput,
    ),
    RouteSpec(
        "listRows",
        "GET",
        f"{GRAPH}/rows",
        "Every node or edge of a type, blobs included, as a stream.",
        parameters=(
            QueryParameter("entity", "Nodes or edges.", is_required=True, choices=("node", "edge")),
            QueryParameter("type", "The type.", is_required=True),
            BRANCH,
            SNAPSHOT,
        ),
        answer_media=(ARROW_STREAM,),
    ),
    RouteSpec(
        "read",
        "POST",
        f"{GRAPH}/read",
        "The old form of `query`.",
        asks.ReadRequest,
        gives.ReadOutput,
        successor="query",
    ),
    RouteSpec(
        "mutate",
        "POST",
        f"{GRAPH}/mutate",
        "Run a mutation as one commit.",
        asks.MutateRequest,
        gives.ChangeOutput,
        is_write=True,
    ),
    RouteSpec(
        "mutate_if_graph_commit",
        "POST",
        f"{GRAPH}/mutate/if-graph-commit",
        "The same, only if the branch is at a commit.",
        asks.MutateRequest,
        gives.ChangeOutput,
        is_write=True,
        is_conditional=True,
        statuses=(412,),
    ),
    RouteSpec(
        "change",
        "POST",
        f"{GRAPH}/change",
        "The old form of `mutate`.",
        asks.ChangeRequest,
        gives.ChangeOutput,
        is_write=True,
        successor="mutate",
    ),
    RouteSpec(
        "list_queries",
        "GET",
        f"{GRAPH}/queries",
        "The stored queries that can be run.",
        response=gives.QueryListOutput,
    ),
    RouteSpec(
        "invoke_query",
        "POST",
        f"{GRAPH}/queries/{{name}}",
        "Run a stored query; a read is answered as `query` is, a mutation as `mutate` is.",
        asks.InvokeQueryRequest,
        answer_media=ROWS,
        is_body_optional=True,
        is_write=True,
        statuses=(504,),
    ),
    RouteSpec(
        "invoke_query_if_graph_commit",
        "POST",
        f"{GRAPH}/queries/{{name}}/if-graph-commit",
        "Run a stored mutation, only if the branch is at a commit.",
        asks.InvokeQueryRequest,
        gives.ChangeOutput,
        is_body_optional=True,
        is_write=True,
        is_conditional=True,
        statuses=(412,),
    ),
    RouteSpec(
        "getSchema",
        "GET",
        f"{GRAPH}/schema",
        "The accepted schema.",
        response=gives.SchemaOutput,
        parameters=(BRANCH, SNAPSHOT),
    ),
    RouteSpec(
        "planSchema",
        "POST",
        f"{GRAPH}/schema/plan",
        "The steps to another schema; nothing is changed.",
        asks.SchemaPlanRequest,
        gives.SchemaPlanOutput,
    ),
    RouteSpec(
        "applySchema",
        "POST",
        f"{GRAPH}/schema/apply",
        "Give the graph another schema as one commit.",
        asks.SchemaApplyRequest,
        gives.SchemaApplyOutput,
        is_write=True,
        statuses=(412,),
    ),
    RouteSpec(
        "load",
        "POST",
        f"{GRAPH}/load",
        "Load records as one commit; `load/ndjson` takes them without wrapping.",
        asks.LoadRequest,
        gives.LoadOutput,
        is_write=True,
        statuses=(412,),
    ),
    RouteSpec(
        "loadNdjson",
        "POST",
        f"{GRAPH}/load/ndjson",
        "Load JSON lines as one commit.",
        response=gives.GraphBatchLoadOutput,
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
            EXPECTED_HEAD,
            QueryParameter("message", "A text kept with the commit."),
        ),
        body_media=NDJSON,
        is_write=True,
        statuses=(412, 415),
    ),
    RouteSpec(
        "ingest",
        "POST",
        f"{GRAPH}/ingest",
        "The old form of `load`.",
        asks.LoadRequest,
        gives.LoadOutput,
        is_write=True,
        successor="load",
        statuses=(412,),
    ),
    RouteSpec(
        "export",
        "POST",
        f"{GRAPH}/export",
        "Every record of a branch, as JSON lines that can be loaded again.",
        asks.ExportRequest,
        answer_media=(NDJSON,),
        is_body_optional=True,
    ),
    RouteSpec(
        "listBranches",
        "GET",
        f"{GRAPH}/branches",
        "The names of the branches.",
        response=gives.BranchListOutput,
        parameters=(LIMIT, PAGE_TOKEN),
    ),
    RouteSpec(
        "createBranch",
        "POST",
        f"{GRAPH}/branches",
        "Create a branch; nothing is copied.",
        asks.BranchCreateRequest,
        gives.BranchCreateOutput,
        is_write=True,
    ),
    RouteSpec(
        "mergeBranches",
        "POST",
        f"{GRAPH}/branches/merge",
        "Bring what a branch has into another one, as one commit.",
        asks.BranchMergeRequest,
        gives.BranchMergeOutput,
        is_write=True,
        statuses=(412,),
    ),
    RouteSpec(
        "renameBranch",
        "POST",
        f"{GRAPH}/branches/rename",
        "Rename a branch; it stays the same branch, with its commits and its feed.",
        asks.BranchRenameRequest,
        gives.BranchRenameOutput,
        is_write=True,
    ),
    RouteSpec(
        "deleteBranch",
        "DELETE",
        f"{GRAPH}/branches/{{branch}}",
        "Delete a branch.",
        response=gives.BranchDeleteOutput,
        is_write=True,
    ),
    RouteSpec(
        "listCommits",
        "GET",
        f"{GRAPH}/commits",
        "The commits of a branch, newest first.",
        response=gives.CommitListOutput,
        parameters=(
            BRANCH,
            QueryParameter("before", "Only commits older than this one, or up to this time."),
            QueryParameter("after", "Only commits newer than this one, or after this time."),
            QueryParameter("type", "Only commits that changed rows of these types.", repeats=True),
            QueryParameter("commit_kind", "Only commits made by this, as `load`.", repeats=True),
            LIMIT,
            PAGE_TOKEN,
        ),
    ),
    RouteSpec(
        "getCommit",
        "GET",
        f"{GRAPH}/commits/{{commit_id}}",
        "One commit.",
        response=gives.CommitOutput,
    ),
    RouteSpec(
        "getCommitChanges",
        "GET",
        f"{GRAPH}/commits/{{commit_id}}/changes",
        "What a commit changed, a page at a time.",
        response=gives.CommitChangesOutput,
        parameters=(LIMIT, PAGE_TOKEN, KIND, TYPE, OP),
        statuses=(410,),
    ),
    RouteSpec(
        "revert",
        "POST",
        f"{GRAPH}/revert",
        "Undo what one commit did, as a new commit.",
        asks.ApplyCommitRequest,
        gives.ApplyCommitOutput,
        is_write=True,
        statuses=(412,),
    ),
    RouteSpec(
        "cherryPick",
        "POST",
        f"{GRAPH}/cherry-pick",
        "Do what one commit of any branch did on a branch as well, as a new commit.",
        asks.ApplyCommitRequest,
        gives.ApplyCommitOutput,
        is_write=True,
        statuses=(412,),
    ),
    RouteSpec(
        "restore",
        "POST",
        f"{GRAPH}/restore",
        "Set a branch to what it was at a place, as a new commit.",
        asks.RestoreRequest,
        gives.ApplyCommitOutput,
        is_write=True,
        statuses=(412,),
    ),
    RouteSpec(
        "listTags",
        "GET",
        f"{GRAPH}/tags",
        "The tags, by name.",
        response=gives.TagListOutput,
        parameters=(LIMIT, PAGE_TOKEN),
    ),
    RouteSpec(
        "createTag",
        "POST",
        f"{GRAPH}/tags",
        "Give a commit a permanent name.",
        asks.TagCreateRequest,
        gives.TagOutput,
    ),
    RouteSpec(
        "deleteTag",
        "DELETE",
        f"{GRAPH}/tags/{{tag}}",
        "Delete a tag.",
        response=gives.TagOutput,
    ),
    RouteSpec(
        "diff",
        "GET",
        f"{GRAPH}/diff",
        "How two places differ: counts by type, every change as a line, or those of one type as "
        "Arrow.",
        response=gives.DiffOutput,
        parameters=(
            QueryParameter("before", "The place to start from.", is_required=True),
            QueryParameter("after", "The other place; the branch as it is by default."),
            BRANCH,
            QueryParameter(
                "images", "Whether lines have whole entities before and after.", choices=YES_NO
            ),
            KIND,
            TYPE,
            OP,
        ),
        answer_media=ROWS,
    ),
    RouteSpec(
        "getEntityHistory",
        "GET",
        f"{GRAPH}/history",
        "Every value an entity had on a branch, newest first.",
        response=gives.EntityHistoryOutput,
        parameters=(
            QueryParameter("type", "The type of the entity.", is_required=True),
            QueryParameter("id", "The id of the entity.", is_required=True),
            QueryParameter(
                "entity",
                "What it is, where a node type and an edge type share the name.",
                choices=("node", "edge"),
            ),
            BRANCH,
        ),
    ),
    RouteSpec(
        "pollChanges",
        "GET",
        f"{GRAPH}/changes",
        "A page of the change feed of a branch.",
        response=gives.ChangeFeedOutput,
        parameters=(
            BRANCH,
            QueryParameter("cursor", "Go on after a page that ended with this cursor."),
            QueryParameter(
                "start", "Where to begin: `now`, `beginning`, or `after:` and a commit id."
            ),
            PAGE_TOKEN,
            LIMIT,
            QueryParameter("max_commits", "At most so many commits.", is_number=True),
            KIND,
            TYPE,
            OP,
        ),
        statuses=(410,),
    ),
    RouteSpec(
        "captureChangeBaseline",
        "POST",
        f"{GRAPH}/changes/baseline",
        "Every record of a branch, and then the cursor to follow its feed from.",
        asks.ChangeBaselineRequest,
        answer_media=(NDJSON,),
        is_body_optional=True,
    ),
    RouteSpec(
        "listConsumers",
        "GET",
        f"{GRAPH}/consumers",
        "The consumers of the change feeds, by name.",
        response=gives.ConsumerListOutput,
        parameters=(LIMIT, PAGE_TOKEN),
    ),
    RouteSpec(
        "setConsumer",
        "PUT",
        f"{GRAPH}/consumers/{{consumer}}",
        "Record how far a consumer has read, so that cleanup keeps the rest for it.",
        asks.ConsumerSetRequest,
        gives.ConsumerOutput,
        is_body_optional=True,
    ),
    RouteSpec(
        "deleteConsumer",
        "DELETE",
        f"{GRAPH}/consumers/{{consumer}}",
        "Delete a consumer.",
        response=gives.ConsumerOutput,
    ),
    RouteSpec(
        "getWrite",
        "GET",
        f"{GRAPH}/writes/{{key}}",
        "What became of a write that was sent with an idempotency key.",
        response=gives.WriteOutput,
        parameters=(BRANCH,),
    ),
)

BY_OPERATION = {route.operation: route for route in ROUTES}


def find_route(operation: str) -> RouteSpec:
    """The route of an operation."""
    return BY_OPERATION[operation]


def list_schemas() -> Sequence[type[msgspec.Struct]]:
    """Every type that a body has."""
    found = {route.request for route in ROUTES} | {route.response for route in ROUTES}
    bodies = [one for one in found if one is not None]
    return sorted([*bodies, gives.ErrorBody], key=lambda one: one.__name__)

"""Routes that change a graph, its schema and its branches, and run what is stored with it."""

from __future__ import annotations

from omnigraph.wire import request_bodies as asks
from omnigraph.wire import response_bodies as gives
from omnigraph.wire.http_names import NDJSON
from omnigraph.wire.route_parameters import BRANCH, EXPECTED_HEAD, PAGES, ROWS, SNAPSHOT, YES_NO
from omnigraph.wire.route_spec import (
    GRAPH,
    QueryParameter,
    RouteSpec,
    make_delete,
    make_get,
    make_keyed_post,
    make_post,
)

CHANGING_ROUTES = (
    make_keyed_post(
        "mutate", "mutate", "Run a mutation as one commit.", asks.MutateRequest, gives.ChangeOutput
    ),
    make_keyed_post(
        "mutate_if_graph_commit",
        "mutate/if-graph-commit",
        "The same, only if the branch is at a commit.",
        asks.MutateRequest,
        gives.ChangeOutput,
        is_conditional=True,
        statuses=(412,),
    ),
    make_keyed_post(
        "change",
        "change",
        "The old form of `mutate`.",
        asks.ChangeRequest,
        gives.ChangeOutput,
        successor="mutate",
    ),
    make_get(
        "list_queries", "queries", "The stored queries that can be run.", gives.QueryListOutput
    ),
    make_keyed_post(
        "invoke_query",
        "queries/{name}",
        "Run a stored query; a read is answered as `query` is, a mutation as `mutate` is.",
        asks.InvokeQueryRequest,
        None,
        answer_media=ROWS,
        is_body_optional=True,
        statuses=(504,),
    ),
    make_keyed_post(
        "invoke_query_if_graph_commit",
        "queries/{name}/if-graph-commit",
        "Run a stored mutation, only if the branch is at a commit.",
        asks.InvokeQueryRequest,
        gives.ChangeOutput,
        is_body_optional=True,
        is_conditional=True,
        statuses=(412,),
    ),
    make_get(
        "getSchema",
        "schema",
        "The accepted schema.",
        gives.SchemaOutput,
        parameters=(BRANCH, SNAPSHOT),
    ),
    make_post(
        "planSchema",
        "schema/plan",
        "The steps to another schema; nothing is changed.",
        asks.SchemaPlanRequest,
        gives.SchemaPlanOutput,
    ),
    make_keyed_post(
        "applySchema",
        "schema/apply",
        "Give the graph another schema as one commit.",
        asks.SchemaApplyRequest,
        gives.SchemaApplyOutput,
        statuses=(412,),
    ),
    make_keyed_post(
        "load",
        "load",
        "Load records as one commit; `load/ndjson` takes them without wrapping.",
        asks.LoadRequest,
        gives.LoadOutput,
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
        statuses=(412, 415),
    ),
    make_keyed_post(
        "ingest",
        "ingest",
        "The old form of `load`.",
        asks.LoadRequest,
        gives.LoadOutput,
        successor="load",
        statuses=(412,),
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
        gives.BranchListOutput,
        parameters=PAGES,
    ),
    make_keyed_post(
        "createBranch",
        "branches",
        "Create a branch; nothing is copied.",
        asks.BranchCreateRequest,
        gives.BranchCreateOutput,
    ),
    make_keyed_post(
        "mergeBranches",
        "branches/merge",
        "Bring what a branch has into another one, as one commit.",
        asks.BranchMergeRequest,
        gives.BranchMergeOutput,
        statuses=(412,),
    ),
    make_keyed_post(
        "renameBranch",
        "branches/rename",
        "Rename a branch; it stays the same branch, with its commits and its feed.",
        asks.BranchRenameRequest,
        gives.BranchRenameOutput,
    ),
    make_delete(
        "deleteBranch",
        "branches/{branch}",
        "Delete a branch.",
        gives.BranchDeleteOutput,
        is_write=True,
    ),
)

"""Routes that read a graph as it is."""

from __future__ import annotations

from omnigraph.wire import request_bodies as asks
from omnigraph.wire import response_bodies as gives
from omnigraph.wire.http_names import ARROW_STREAM, OCTETS
from omnigraph.wire.route_parameters import BLOB, BRANCH, KINDS, ROWS, SNAPSHOT
from omnigraph.wire.route_spec import GRAPH, QueryParameter, RouteSpec, make_get, make_post

READING_ROUTES = (
    make_get(
        "getSnapshot",
        "snapshot",
        "Which version of which table makes up a branch, now or as it was.",
        gives.SnapshotOutput,
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
        response=gives.BlobPutOutput,
        parameters=(*BLOB, BRANCH),
        body_media=OCTETS,
        is_write=True,
        statuses=(412, 415),
    ),
    make_post(
        "query",
        "query",
        "Run a read query.",
        asks.QueryRequest,
        gives.ReadOutput,
        answer_media=ROWS,
        statuses=(504,),
    ),
    make_post(
        "explain",
        "explain",
        "The plan of a query; with `analyze`, what every operator did and took.",
        asks.ExplainRequest,
        gives.ExplainOutput,
        statuses=(504,),
    ),
    make_post(
        "lint",
        "lint",
        "Check queries against the schema without running any.",
        asks.LintRequest,
        gives.LintOutput,
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
    make_post(
        "read",
        "read",
        "The old form of `query`.",
        asks.ReadRequest,
        gives.ReadOutput,
        successor="query",
    ),
)

"""Routes about stored queries, which are run by name."""

from __future__ import annotations

from starlette.responses import Response

from omnigraph.errors import PolicyDenied, QueryNotFound
from omnigraph.graph.invoking import check_request
from omnigraph.identity import MAIN
from omnigraph.server.access import Action
from omnigraph.server.http_answers import answer_json, choose_media
from omnigraph.server.http_call import Call
from omnigraph.server.read_routes import run_query
from omnigraph.server.write_routes import run_mutation
from omnigraph.stored_queries import StoredQuery
from omnigraph.wire.request_bodies import InvokeQueryRequest, MutateRequest, QueryRequest


async def list_queries(call: Call) -> Response:
    """What the actor may run."""
    call.authorize(Action.READ, MAIN)
    return answer_json({"queries": await call.read(lambda: call.graph.stored_queries())})


async def invoke_query(call: Call) -> Response:
    """Run a read as `query` does, and a mutation as `mutate` does."""
    body, size = await call.read_body(InvokeQueryRequest)
    found = _find_query(call, call.request.path_params["name"])
    check_request(
        found,
        body.expect_mutation,
        is_pinned=body.snapshot is not None,
        is_conditional=call.read_condition() is not None,
    )
    if found.is_mutation:
        change = MutateRequest(
            query=found.source.text,
            name=found.name,
            params=body.params,
            branch=body.branch,
            message=body.message,
        )
        return await run_mutation(call, change, size)
    read = QueryRequest(
        query=found.source.text,
        name=found.name,
        params=body.params,
        branch=body.branch,
        snapshot=body.snapshot,
    )
    media = choose_media(call.request.headers.get("accept"), call.route.answer_media)
    return await run_query(call, read, media)


def _find_query(call: Call, name: str) -> StoredQuery:
    """A query that the actor may run; one that it may not is as one that is not there."""
    assert call.hosted is not None, "it is a route of a graph"
    try:
        call.authorize(Action.INVOKE_QUERY, query=name[:200])
    except PolicyDenied:
        raise QueryNotFound(name) from None
    found = call.hosted.queries.find(name)
    if found is None:
        raise QueryNotFound(name)
    return found

"""Routes that read a branch: queries, snapshots, the schema."""

from __future__ import annotations

from collections.abc import Iterator

from starlette.responses import Response

from omnigraph.errors import BadRequest
from omnigraph.graph.graph import GraphView
from omnigraph.server.access import Action
from omnigraph.server.http_answers import StreamAnswer, answer_json, choose_media, encode_rows
from omnigraph.server.http_call import Call
from omnigraph.server.read_limits import QueryLimits
from omnigraph.wire.http_names import COMMIT_ID, JSON, NDJSON, QUERY_NAME
from omnigraph.wire.request_bodies import QueryRequest, ReadRequest


async def get_snapshot(call: Call) -> Response:
    """What a branch is made of, or the state that a place or a snapshot id names."""
    branch, at, snapshot = (call.find(name) for name in ("branch", "at", "snapshot"))
    if snapshot is not None and (branch is not None or at is not None):
        raise BadRequest("give a branch or a snapshot, not both; a place goes with a branch")
    name = call.read_branch(branch)
    if at is None and snapshot is None:
        call.authorize(Action.READ, name)
        return answer_json(await call.read(lambda: call.graph.snapshot(name).wire()))

    def work() -> dict[str, object]:
        call.authorize_place(at, snapshot, name)
        return call.graph.at(at, snapshot=snapshot, branch=name).info().wire()

    return answer_json(await call.read(work))


async def get_schema(call: Call) -> Response:
    call.authorize(Action.READ)
    return answer_json({"schema_source": await call.read(lambda: call.graph.schema)})


async def query(call: Call) -> Response:
    body, _ = await call.read_body(QueryRequest)
    media = choose_media(call.request.headers.get("accept"), call.route.answer_media)
    return await run_query(call, body, media)


async def read(call: Call) -> Response:
    """The old form, which says nothing of the commit."""
    old, _ = await call.read_body(ReadRequest)
    body = QueryRequest(
        query=old.query_source,
        name=old.query_name,
        params=old.params,
        branch=old.branch,
        snapshot=old.snapshot,
    )
    return await run_query(call, body, JSON, names_commit=False)


async def run_query(
    call: Call, body: QueryRequest, media: str, *, names_commit: bool = True
) -> Response:
    """Rows in one document, or as they come."""
    if body.branch is not None and body.snapshot is not None:
        raise BadRequest("give a branch or a snapshot, not both")
    branch = None if body.snapshot is not None else call.read_branch(body.branch)
    if branch is not None:
        call.authorize(Action.READ, branch)
    settings = call.service.options.server
    if media != JSON:
        return await _stream_query(call, body, branch, media)
    limits = QueryLimits(settings.query_timeout_s, settings.query_rows, settings.query_bytes)

    def work() -> tuple[int, Response]:
        view = _open_view(call, body, branch)
        result = view.query(body.query, body.name, body.params, limits=limits)
        document = result.wire()
        if not names_commit:
            del document["graph_commit_id"]
        return len(result), answer_json(document)

    rows, answer = await call.read_limited(limits, work)
    call.service.metrics.count_rows(rows)
    call.log.add(rows=rows)
    return answer


async def _stream_query(call: Call, body: QueryRequest, branch: str | None, media: str) -> Response:
    settings = call.service.options.server
    limits = QueryLimits(settings.query_timeout_s)

    def start() -> tuple[bytes, dict[str, str], Iterator[bytes]]:
        view = _open_view(call, body, branch)
        result = view.query(body.query, body.name, body.params, limits=limits)
        pieces = encode_rows(result, media, call.service.metrics.count_rows)
        first = next(pieces, b"")  # mistakes in values come before the answer begins
        headers = {QUERY_NAME: result.query_name}
        if result.commit_id is not None:
            headers[COMMIT_ID] = result.commit_id
        return first, headers, pieces

    first, headers, rest = await call.read_limited(limits, start)
    limits.lift_deadline()
    content = "application/x-ndjson; charset=utf-8" if media == NDJSON else media
    return StreamAnswer(
        call.stream(first, rest),
        content,
        headers=headers,
        idle_s=settings.idle_s,
        on_end=limits.abandon,
    )


def _open_view(call: Call, body: QueryRequest, branch: str | None) -> GraphView:
    if branch is not None:
        return call.graph.at(branch=branch)
    call.authorize_snapshot(body.snapshot)
    return call.graph.at(snapshot=body.snapshot)

"""Routes that read a branch: queries, snapshots, the schema, rows of a type."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from starlette.responses import Response

from omnigraph.graph.graph import GraphView
from omnigraph.language.source import SourceText
from omnigraph.server.access import Action
from omnigraph.server.http_answers import (
    StreamAnswer,
    answer_json,
    choose_media,
    encode_arrow,
    encode_rows,
)
from omnigraph.server.http_call import Call
from omnigraph.server.read_limits import QueryLimits
from omnigraph.wire.http_names import ARROW_STREAM, COMMIT_ID, JSON, LINES, NDJSON, QUERY_NAME
from omnigraph.wire.request_bodies import ExplainRequest, LintRequest, QueryRequest, ReadRequest


async def get_snapshot(call: Call) -> Response:
    """What a branch is made of, or what another place is: with the id it can be read by."""
    branch, place = call.read_branch(call.find("branch")), call.find("at")
    if place is None:
        call.authorize(Action.READ, branch)

    def work() -> dict[str, object]:
        if place is not None:
            call.authorize_place(place, branch)
        return call.graph.at(place, branch=branch).info().wire()

    return answer_json(await call.read(work))


async def get_schema(call: Call) -> Response:
    given, snapshot = call.find("branch"), call.find("snapshot")
    if given is None and snapshot is None:
        call.authorize(Action.READ)
        return answer_json({"schema_source": await call.read(lambda: call.graph.schema)})
    branch = call.read_branch_unless(given, snapshot)
    if branch is not None:
        call.authorize(Action.READ, branch)
    source = await call.read(lambda: _open_view(call, branch, snapshot).schema)
    return answer_json({"schema_source": source})


async def list_rows(call: Call) -> Response:
    """Every row of a type, as Arrow batches."""
    snapshot = call.find("snapshot")
    branch = call.read_branch_unless(call.find("branch"), snapshot)
    choose_media(call.request.headers.get("accept"), call.route.answer_media)
    if branch is not None:
        call.authorize(Action.READ, branch)
    type_name, is_node = call.find("type") or "", call.find("entity") == "node"

    def start() -> tuple[bytes, str | None, Iterator[bytes]]:
        view = _open_view(call, branch, snapshot)
        rows = view.nodes(type_name) if is_node else view.edges(type_name)
        count = call.service.metrics.count_rows
        pieces = encode_arrow(rows.arrow_schema, rows.batches(), count)
        return next(pieces, b""), view.commit_id, pieces

    first, commit_id, rest = await call.read(start)
    headers = {} if commit_id is None else {COMMIT_ID: commit_id}
    idle_s = call.service.options.server.idle_s
    return StreamAnswer(call.stream(first, rest), ARROW_STREAM, headers=headers, idle_s=idle_s)


async def explain(call: Call) -> Response:
    """The plan of a query; with `analyze` it is run, under the limits of a query."""
    body, _ = await call.read_body(ExplainRequest)
    branch = call.read_branch_unless(body.branch, body.snapshot)
    if branch is not None:
        call.authorize(Action.READ, branch)
    settings = call.service.options.server
    limits = QueryLimits(settings.query_timeout_s, settings.query_rows, settings.query_bytes)

    def work() -> dict[str, object]:
        view = _open_view(call, branch, body.snapshot)
        if body.analyze:
            result = view.query(body.query, body.name, body.params, limits=limits)
            return {"text": "\n".join(result.profile().lines())}
        text = view.explain(body.query, body.name, body.params)
        return {"text": str(text), "plan": view.explain_json(body.query, body.name)}

    return answer_json(await call.read_limited(limits, work))


async def lint(call: Call) -> Response:
    """Every query of a text, checked against what the actor may read of the schema."""
    body, _ = await call.read_body(LintRequest)
    branch = call.read_branch_unless(body.branch, body.snapshot)
    if branch is not None:
        call.authorize(Action.READ, branch)

    def work() -> dict[str, object]:
        view = _open_view(call, branch, body.snapshot)
        report = view.lint(SourceText(body.queries, body.name))
        return replace(report, schema_source={"kind": "graph", "uri": call.graph_url}).wire()

    return answer_json(await call.read(work))


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
    branch = call.read_branch_unless(body.branch, body.snapshot)
    if branch is not None:
        call.authorize(Action.READ, branch)
    settings = call.service.options.server
    if media != JSON:
        return await _stream_query(call, body, branch, media)
    limits = QueryLimits(settings.query_timeout_s, settings.query_rows, settings.query_bytes)

    def work() -> tuple[int, Response]:
        view = _open_view(call, branch, body.snapshot)
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
        view = _open_view(call, branch, body.snapshot)
        result = view.query(body.query, body.name, body.params, limits=limits)
        pieces = encode_rows(result, media, call.service.metrics.count_rows)
        first = next(pieces, b"")  # mistakes in values come before the answer begins
        headers = {QUERY_NAME: result.query_name}
        if result.commit_id is not None:
            headers[COMMIT_ID] = result.commit_id
        return first, headers, pieces

    first, headers, rest = await call.read_limited(limits, start)
    limits.lift_deadline()
    content = LINES if media == NDJSON else media
    return StreamAnswer(
        call.stream(first, rest),
        content,
        headers=headers,
        idle_s=settings.idle_s,
        on_end=limits.abandon,
    )


def _open_view(call: Call, branch: str | None, snapshot: str | None) -> GraphView:
    if branch is not None:
        return call.graph.at(branch=branch)
    call.authorize_snapshot(snapshot)
    return call.graph.at(snapshot=snapshot)

"""Handlers that read a graph: queries, stored queries, explain, lint, rows, schema, exports."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, cast

import msgspec
from starlette.responses import Response

from omnigraph.errors import PolicyDenied, QueryNotFound
from omnigraph.graph.mutations import check_request
from omnigraph.language.source import SourceText
from omnigraph.plan.query_lint import LintReport
from omnigraph.server.http_request import Call
from omnigraph.server.http_responses import (
    StreamResponse,
    choose_media,
    encode_arrow,
    encode_rows,
)
from omnigraph.server.request_limits import CHUNK_BYTES, QueryLimits
from omnigraph.server.write_routes import run_write
from omnigraph.wire.http_protocol import ARROW_STREAM, COMMIT_ID, JSON, LINES, NDJSON, QUERY_NAME
from omnigraph.wire.read_results import Explanation, QueryList, SchemaText, SnapshotInfo
from omnigraph.wire.request_bodies import (
    ChangeBaselineRequest,
    ExplainRequest,
    ExportRequest,
    InvokeQueryRequest,
    LintRequest,
    QueryRequest,
)

if TYPE_CHECKING:
    from omnigraph.wire.write_results import MutationResult


async def get_snapshot(call: Call) -> SnapshotInfo:
    """Return the table versions of a branch or another revision, with the id to read it by."""
    branch, revision = call.read_branch(call.find("branch")), call.find("at")
    return await call.read(lambda: call.graph.at(revision, branch=branch).info())


async def get_schema(call: Call) -> SchemaText:
    given, snapshot = call.find("branch"), call.find("snapshot")
    if given is None and snapshot is None:
        return SchemaText(await call.read(lambda: call.graph.schema))
    branch = call.read_branch_unless(given, snapshot)
    source = await call.read(lambda: call.graph.at(branch=branch, snapshot=snapshot).schema)
    return SchemaText(source)


async def list_rows(call: Call) -> Response:
    """Stream every row of a type as Arrow batches."""
    snapshot = call.find("snapshot")
    branch = call.read_branch_unless(call.find("branch"), snapshot)
    choose_media(call.request.headers.get("accept"), call.route.answer_media)
    type_name, is_node = call.find("type") or "", call.find("entity") == "node"

    def start() -> tuple[bytes, str | None, Iterator[bytes]]:
        view = call.graph.at(branch=branch, snapshot=snapshot)
        rows = view.nodes(type_name) if is_node else view.edges(type_name)
        count = call.service.metrics.count_rows
        pieces = encode_arrow(rows.arrow_schema, rows.batches(), count)
        return next(pieces, b""), view.commit_id, pieces

    first, commit_id, rest = await call.read(start)
    headers = {} if commit_id is None else {COMMIT_ID: commit_id}
    idle_s = call.service.options.server.idle_s
    return StreamResponse(call.stream(first, rest), ARROW_STREAM, headers=headers, idle_s=idle_s)


async def explain(call: Call) -> Explanation:
    """Return the plan of a query; with `analyze` it is run, under the limits of a query."""
    body, _ = await call.read_body(ExplainRequest)
    branch = call.read_branch_unless(body.branch, body.snapshot)
    settings = call.service.options.server
    limits = QueryLimits(settings.query_timeout_s, settings.query_rows, settings.query_bytes)

    def work() -> Explanation:
        view = call.graph.at(branch=branch, snapshot=body.snapshot)
        if body.analyze:
            result = view.query(body.query, body.name, body.params, limits=limits)
            return Explanation("\n".join(result.profile().lines()))
        text = view.explain(body.query, body.name, body.params)
        return Explanation(str(text), view.explain_json(body.query, body.name))

    return await call.read_limited(limits, work)


async def lint(call: Call) -> LintReport:
    """Check queries against the part of the schema that the actor may read."""
    body, _ = await call.read_body(LintRequest)
    branch = call.read_branch_unless(body.branch, body.snapshot)

    def work() -> LintReport:
        view = call.graph.at(branch=branch, snapshot=body.snapshot)
        report = view.lint(SourceText(body.queries, body.name))
        origin = {"kind": "graph", "uri": call.graph_url}
        return msgspec.structs.replace(report, schema_source=origin)

    return await call.read(work)


async def query(call: Call) -> Response:
    body, _ = await call.read_body(QueryRequest)
    media = choose_media(call.request.headers.get("accept"), call.route.answer_media)
    return await run_query(call, body, media)


async def run_query(call: Call, body: QueryRequest, media: str) -> Response:
    """Run a query; return its rows in one document or as a stream."""
    branch = call.read_branch_unless(body.branch, body.snapshot)
    settings = call.service.options.server
    if media != JSON:
        return await _stream_query(call, body, branch, media)
    limits = QueryLimits(settings.query_timeout_s, settings.query_rows, settings.query_bytes)

    def work() -> tuple[int, Response]:
        view = call.graph.at(branch=branch, snapshot=body.snapshot)
        result = view.query(body.query, body.name, body.params, limits=limits)
        return len(result), call.respond(result.document())

    rows, answer = await call.read_limited(limits, work)
    call.service.metrics.count_rows(rows)
    call.log.add(rows=rows)
    return answer


async def _stream_query(call: Call, body: QueryRequest, branch: str | None, media: str) -> Response:
    settings = call.service.options.server
    limits = QueryLimits(settings.query_timeout_s)

    def start() -> tuple[bytes, dict[str, str], Iterator[bytes]]:
        view = call.graph.at(branch=branch, snapshot=body.snapshot)
        result = view.query(body.query, body.name, body.params, limits=limits)
        pieces = encode_rows(result, media, call.service.metrics.count_rows)
        first = next(pieces, b"")  # errors in values are raised before the response begins
        headers = {QUERY_NAME: result.query_name}
        if result.commit_id is not None:
            headers[COMMIT_ID] = result.commit_id
        return first, headers, pieces

    first, headers, rest = await call.read_limited(limits, start)
    limits.lift_deadline()
    content = LINES if media == NDJSON else media
    return StreamResponse(
        call.stream(first, rest),
        content,
        headers=headers,
        idle_s=settings.idle_s,
        on_end=limits.abandon,
    )


async def list_queries(call: Call) -> QueryList:
    """List the stored queries that the actor may invoke."""
    return QueryList(await call.read(call.graph.stored_queries))


async def invoke_query(call: Call) -> Response | MutationResult:
    """Run a stored query: a read like `query`, a mutation like `mutate`."""
    assert call.hosted is not None, "it is a route of a graph"
    name = call.request.path_params["name"]
    try:
        body, size = await call.read_body(InvokeQueryRequest)
    except PolicyDenied:  # as if there were none
        raise QueryNotFound(name) from None
    found = call.hosted.queries.find(name)
    if found is None:
        raise QueryNotFound(name)
    check_request(
        found,
        body.expect_mutation,
        is_pinned=body.snapshot is not None,
        is_conditional=call.expected_head is not None,
    )
    if found.is_mutation:
        given = {"name": found.name, "params": body.params, "message": body.message}
        branch = call.read_branch(body.branch)
        done = await run_write(call, "mutate", size, found.source, branch=branch, **given)
        return cast("MutationResult", done)
    read = QueryRequest(
        query=found.source.text,
        name=found.name,
        params=body.params,
        branch=body.branch,
        snapshot=body.snapshot,
    )
    media = choose_media(call.request.headers.get("accept"), call.route.answer_media)
    return await run_query(call, read, media)


async def export(call: Call) -> Response:
    """Stream every record of a branch or a snapshot as JSON lines."""
    body, _ = await call.read_body(ExportRequest)
    branch = call.read_branch_unless(body.branch, body.snapshot)

    def start() -> Iterator[bytes]:
        view = call.graph.at(branch=branch, snapshot=body.snapshot)
        return view.export_jsonl(body.type_names or None)

    return await _send_lines(call, start)


async def capture_baseline(call: Call) -> Response:
    """Stream every record of a branch; the last line has the cursor to follow its feed from."""
    body, _ = await call.read_body(ChangeBaselineRequest)
    branch = call.read_branch(body.branch)

    def start() -> Iterator[bytes]:
        baseline = call.graph.baseline(kinds=body.kind, types=body.type, ops=body.op, branch=branch)

        def blocks() -> Iterator[bytes]:
            yield from baseline.jsonl()
            yield msgspec.json.encode({"baseline": baseline.end}) + b"\n"

        return blocks()

    return await _send_lines(call, start)


async def _send_lines(call: Call, start: Callable[[], Iterator[bytes]]) -> Response:
    """Stream blocks of lines in small chunks, after the first one has been computed."""
    slots, metrics = call.service.slots, call.service.metrics
    await slots.acquire()
    metrics.begin_stream()

    def end() -> None:
        slots.release()
        metrics.end_stream()

    def begin() -> tuple[bytes, Iterator[bytes]]:
        chunks = _split_chunks(start())
        return next(chunks, b""), chunks  # errors are raised before the response begins

    try:
        first, rest = await call.read(begin)
    except BaseException:
        end()
        raise
    idle_s = call.service.options.server.idle_s
    return StreamResponse(call.stream(first, rest), LINES, idle_s=idle_s, on_end=end)


def _split_chunks(blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in blocks:
        for start in range(0, len(block), CHUNK_BYTES):
            yield block[start : start + CHUNK_BYTES]

"""Routes whose answer is a whole branch: exports and baselines."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import msgspec
from starlette.responses import Response

from omnigraph.server.access import Action
from omnigraph.server.http_answers import StreamAnswer
from omnigraph.server.http_call import Call
from omnigraph.server.stream_slots import CHUNK_BYTES
from omnigraph.wire.http_names import LINES
from omnigraph.wire.request_bodies import ChangeBaselineRequest, ExportRequest


async def export(call: Call) -> Response:
    """Every record, edges before nodes, of a branch as it is or of a snapshot."""
    body, _ = await call.read_body(ExportRequest)
    branch = call.read_branch_unless(body.branch, body.snapshot)
    if branch is not None:
        call.authorize(Action.EXPORT, branch)

    def start() -> Iterator[bytes]:
        if branch is None:
            call.authorize_snapshot(body.snapshot, Action.EXPORT)
        view = call.graph.at(branch=branch, snapshot=body.snapshot)
        return view.export_jsonl(body.type_names or None)

    return await _send_lines(call, start)


async def capture_baseline(call: Call) -> Response:
    """Every record, and in the last line where the feed goes on."""
    body, _ = await call.read_body(ChangeBaselineRequest)
    branch = call.read_branch(body.branch)
    call.authorize(Action.EXPORT, branch)

    def start() -> Iterator[bytes]:
        baseline = call.graph.baseline(kinds=body.kind, types=body.type, ops=body.op, branch=branch)

        def blocks() -> Iterator[bytes]:
            yield from baseline.jsonl()
            yield msgspec.json.encode({"baseline": baseline.wire()}) + b"\n"

        return blocks()

    return await _send_lines(call, start)


async def _send_lines(call: Call, start: Callable[[], Iterator[bytes]]) -> Response:
    """Blocks of lines in small chunks, once the first of them is there."""
    slots, metrics = call.service.slots, call.service.metrics
    await slots.take()
    metrics.begin_stream()

    def end() -> None:
        slots.release()
        metrics.end_stream()

    def begin() -> tuple[bytes, Iterator[bytes]]:
        chunks = _cut(start())
        return next(chunks, b""), chunks  # mistakes come before the answer begins

    try:
        first, rest = await call.read(begin)
    except BaseException:
        end()
        raise
    idle_s = call.service.options.server.idle_s
    return StreamAnswer(call.stream(first, rest), LINES, idle_s=idle_s, on_end=end)


def _cut(blocks: Iterator[bytes]) -> Iterator[bytes]:
    for block in blocks:
        for start in range(0, len(block), CHUNK_BYTES):
            yield block[start : start + CHUNK_BYTES]

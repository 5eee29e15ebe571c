"""Routes about branches."""

from __future__ import annotations

from bisect import bisect_right

from starlette.responses import Response

from omnigraph.errors import MergeConflicts
from omnigraph.server.access import Action
from omnigraph.server.http_answers import answer_json
from omnigraph.server.http_call import Call
from omnigraph.server.paging import decode_page, encode_page
from omnigraph.wire.request_bodies import BranchCreateRequest, BranchMergeRequest

_REQUEST_BYTES = 256
"""What a request about branches counts for among those of its actor."""
DEFAULT_BRANCHES = 10_000


async def list_branches(call: Call) -> Response:
    """The names in order; a page goes on after the last name of the one before."""
    call.authorize(Action.READ)
    limit, after = call.read_limit(DEFAULT_BRANCHES), decode_page(call.find("page_token"), 1)
    names = sorted(await call.read(call.graph.branches))
    start = bisect_right(names, after[0]) if after else 0
    page = names[start : start + limit]
    body: dict[str, object] = {"branches": page}
    if start + limit < len(names):
        body["next_page_token"] = encode_page(page[-1])
    return answer_json(body)


async def create_branch(call: Call) -> Response:
    body, _ = await call.read_body(BranchCreateRequest)
    name, source = call.read_branch(body.name), call.read_branch(body.source)
    call.authorize(Action.BRANCH_CREATE, source, name)
    with call.admit(_REQUEST_BYTES):
        made = await call.write(
            lambda: call.graph.create_branch(name, source=source, actor=call.actor)
        )
    call.note_write(name)
    return answer_json({"uri": call.graph_url, **made.wire()})


async def delete_branch(call: Call) -> Response:
    name = call.read_branch(call.request.path_params["branch"])
    call.authorize(Action.BRANCH_DELETE, None, name)
    with call.admit(_REQUEST_BYTES):
        gone = await call.write(lambda: call.graph.delete_branch(name))
    call.note_write(name)
    return answer_json({"uri": call.graph_url, **gone.wire()})


async def merge_branches(call: Call) -> Response:
    body, size = await call.read_body(BranchMergeRequest)
    source, target = call.read_branch(body.source), call.read_branch(body.target)
    key = call.read_key()
    call.authorize(Action.BRANCH_MERGE, source, target)
    if body.delete_branch:
        call.authorize(Action.BRANCH_DELETE, None, source)
    with call.admit(size):
        try:
            done = await call.write(
                lambda: call.graph.merge(
                    source,
                    target,
                    dry_run=body.dry_run,
                    resolve=body.resolve,
                    decisions=body.decisions or (),
                    delete_branch=body.delete_branch,
                    actor=call.actor,
                    message=body.message,
                    idempotency_key=key,
                )
            )
        except MergeConflicts:
            call.service.metrics.count_conflict()
            raise
    call.note_commit(done.commit, target, replayed=done.is_replayed)
    return answer_json(done.wire(), headers=call.describe_replay(is_replayed=done.is_replayed))

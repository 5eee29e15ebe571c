"""Routes that undo: new commits of a branch that are made of its history."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from starlette.responses import Response

from omnigraph.errors import MergeConflicts
from omnigraph.server.access import Action
from omnigraph.server.http_answers import answer_json
from omnigraph.server.http_call import Call
from omnigraph.wire.request_bodies import ApplyCommitRequest, RestoreRequest

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.graph.undoing import ApplyResult


async def revert(call: Call) -> Response:
    return await _apply_commit(call, lambda graph: graph.revert)


async def cherry_pick(call: Call) -> Response:
    return await _apply_commit(call, lambda graph: graph.cherry_pick)


async def _apply_commit(
    call: Call, choose_verb: Callable[[Graph], Callable[..., ApplyResult]]
) -> Response:
    body, size = await call.read_body(ApplyCommitRequest)
    branch, key = call.read_branch(body.branch), call.read_key()
    return await _change_branch(
        call,
        branch,
        size,
        lambda: choose_verb(call.graph)(
            body.commit,
            branch=branch,
            parent=body.parent,
            dry_run=body.dry_run,
            resolve=body.resolve,
            decisions=body.decisions or (),
            expected_head=body.expected_head,
            actor=call.actor,
            message=body.message,
            idempotency_key=key,
        ),
    )


async def restore(call: Call) -> Response:
    body, size = await call.read_body(RestoreRequest)
    branch, key = call.read_branch(body.branch), call.read_key()
    return await _change_branch(
        call,
        branch,
        size,
        lambda: call.graph.restore(
            body.place,
            branch=branch,
            dry_run=body.dry_run,
            expected_head=body.expected_head,
            actor=call.actor,
            message=body.message,
            idempotency_key=key,
        ),
    )


async def _change_branch(
    call: Call, branch: str, size: int, work: Callable[[], ApplyResult]
) -> Response:
    """Do it if the actor may change the branch; the graph asks whether it may read the commit."""
    call.authorize(Action.CHANGE, branch)
    with call.admit(size):
        try:
            done = await call.write(work)
        except MergeConflicts:
            call.service.metrics.count_conflict()
            raise
    call.note_commit(done.commit, branch, replayed=done.is_replayed)
    return answer_json(done.wire(), headers=call.describe_replay(is_replayed=done.is_replayed))

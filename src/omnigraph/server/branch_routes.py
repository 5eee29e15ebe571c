"""Routes about branches."""

from __future__ import annotations

from collections.abc import Mapping

from starlette.responses import Response

from omnigraph.errors import MergeConflicts
from omnigraph.server.access import Action
from omnigraph.server.http_answers import answer_json
from omnigraph.server.http_call import Call
from omnigraph.server.paging import cut_page
from omnigraph.wire.request_bodies import (
    BranchCreateRequest,
    BranchMergeRequest,
    BranchRenameRequest,
)

_REQUEST_BYTES = 256
"""What a request about branches counts for among those of its actor."""
DEFAULT_BRANCHES = 10_000


async def list_branches(call: Call) -> Response:
    """The names in order; a page goes on after the last name of the one before."""
    call.authorize(Action.READ)
    limit = call.read_limit(DEFAULT_BRANCHES)
    names = await call.read(call.graph.branches)
    page, more = cut_page(names, str, call.find("page_token"), limit)
    return answer_json({"branches": page, **more})


async def create_branch(call: Call) -> Response:
    body, _ = await call.read_body(BranchCreateRequest)
    name, source = call.read_branch(body.name), call.read_branch(body.source)
    key = call.read_key()
    call.authorize(Action.BRANCH_CREATE, source, name)
    with call.admit(_REQUEST_BYTES):
        made = await call.write(
            lambda: call.graph.create_branch(
                name, source=source, commit=body.commit, actor=call.actor, idempotency_key=key
            )
        )
    return _answer(call, name, made.wire(), is_replayed=made.is_replayed)


async def rename_branch(call: Call) -> Response:
    """Another name for a branch; it takes what deleting the one and creating the other takes."""
    body, _ = await call.read_body(BranchRenameRequest)
    name, new_name = call.read_branch(body.name), call.read_branch(body.new_name)
    key = call.read_key()
    call.authorize(Action.BRANCH_DELETE, None, name)
    call.authorize(Action.BRANCH_CREATE, name, new_name)
    with call.admit(_REQUEST_BYTES):
        made = await call.write(
            lambda: call.graph.rename_branch(name, new_name, idempotency_key=key)
        )
    document = {**made.wire(), "renamed_from": name}
    return _answer(call, new_name, document, is_replayed=made.is_replayed)


async def delete_branch(call: Call) -> Response:
    name, key = call.read_branch(call.request.path_params["branch"]), call.read_key()
    call.authorize(Action.BRANCH_DELETE, None, name)
    with call.admit(_REQUEST_BYTES):
        gone = await call.write(lambda: call.graph.delete_branch(name, idempotency_key=key))
    return _answer(call, name, gone.wire(), is_replayed=gone.is_replayed)


def _answer(
    call: Call, branch: str, document: Mapping[str, object], *, is_replayed: bool
) -> Response:
    if not is_replayed:
        call.note_write(branch)
    headers = call.describe_replay(is_replayed=is_replayed)
    return answer_json({"uri": call.graph_url, **document}, headers=headers)


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
                    expected_head=body.expected_head,
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

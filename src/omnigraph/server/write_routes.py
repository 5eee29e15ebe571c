"""Routes that write rows: mutations and loads."""

from __future__ import annotations

from starlette.responses import Response

from omnigraph.errors import BadRequest
from omnigraph.identity import MAIN
from omnigraph.server.access import Action
from omnigraph.server.http_answers import answer_json
from omnigraph.server.http_call import Call
from omnigraph.wire.http_names import NDJSON
from omnigraph.wire.request_bodies import (
    ChangeRequest,
    LoadRequest,
    MutateRequest,
    SchemaApplyRequest,
)

LOAD_BYTES = "graph_batch_request_bytes"
"""The resource a load uses up with its body."""


async def mutate(call: Call) -> Response:
    body, size = await call.read_body(MutateRequest)
    return await run_mutation(call, body, size)


async def change(call: Call) -> Response:
    """The old form, with old names beside the new ones."""
    old, size = await call.read_body(ChangeRequest)
    source = old.query if old.query_source is None else old.query_source
    if source is None or (old.query is not None and old.query_source is not None):
        raise BadRequest("the body: give query or query_source")
    if old.name is not None and old.query_name is not None:
        raise BadRequest("the body: give name or query_name")
    name = old.name if old.query_name is None else old.query_name
    body = MutateRequest(query=source, name=name, params=old.params, branch=old.branch)
    return await run_mutation(call, body, size)


async def run_mutation(call: Call, body: MutateRequest, size: int) -> Response:
    """A mutation as one commit; under a key at most once."""
    branch = call.read_branch(body.branch)
    expected, key = call.read_condition(), call.read_key()
    call.authorize(Action.CHANGE, branch)
    with call.admit(size):
        done = await call.write(
            lambda: call.graph.mutate(
                body.query,
                body.name,
                body.params,
                branch=branch,
                expected_head=expected,
                actor=call.actor,
                idempotency_key=key,
            )
        )
    call.note_commit(done.commit, branch, replayed=done.is_replayed)
    return answer_json(done.wire(), headers=call.describe_replay(is_replayed=done.is_replayed))


async def apply_schema(call: Call) -> Response:
    """Another schema for `main`, as one commit or not at all."""
    body, size = await call.read_body(SchemaApplyRequest)
    call.authorize(Action.SCHEMA_APPLY, None, MAIN)
    with call.admit(size):
        done = await call.write(
            lambda: call.graph.apply_schema(
                body.schema_source,
                allow_data_loss=body.allow_data_loss,
                dry_run=body.dry_run,
                actor=call.actor,
            )
        )
    call.note_commit(done.commit, MAIN)
    return answer_json({"uri": call.graph_url, **done.wire()})


async def load(call: Call) -> Response:
    body, size = await call.read_body(LoadRequest, call.service.options.server.load_bytes)
    data = body.data.encode()
    return await _run_load(call, data, size, body.branch, body.base, body.mode)


async def load_ndjson(call: Call) -> Response:
    """JSON lines as they are. Whoever may not load is refused before the body is read."""
    call.require_media(NDJSON)
    branch, base = _read_branches(call, call.find("branch"), call.find("from"))
    await _authorize_load(call, branch, base)
    data = await call.read_bytes(call.service.options.server.load_bytes, LOAD_BYTES)
    return await _run_load(call, data, len(data), branch, base, call.find("mode"), with_uri=False)


async def _run_load(
    call: Call,
    data: bytes,
    size: int,
    given_branch: str | None,
    given_base: str | None,
    mode: str | None,
    *,
    with_uri: bool = True,
) -> Response:
    branch, base = _read_branches(call, given_branch, given_base)
    key = call.read_key()
    call.read_condition()
    await _authorize_load(call, branch, base)
    with call.admit(size):
        done = await call.write(
            lambda: call.graph.load(
                data,
                mode or "merge",
                branch=branch,
                base=base,
                actor=call.actor,
                idempotency_key=key,
            )
        )
    call.note_commit(done.commit, branch, replayed=done.is_replayed)
    document = {"uri": call.graph_url, **done.wire()} if with_uri else done.wire()
    return answer_json(document, headers=call.describe_replay(is_replayed=done.is_replayed))


def _read_branches(call: Call, branch: str | None, base: str | None) -> tuple[str, str | None]:
    return call.read_branch(branch), None if base is None else call.read_branch(base)


async def _authorize_load(call: Call, branch: str, base: str | None) -> None:
    if base is not None and branch not in await call.read(call.unguarded.branches):
        call.authorize(Action.BRANCH_CREATE, base, branch)
    call.authorize(Action.CHANGE, branch)

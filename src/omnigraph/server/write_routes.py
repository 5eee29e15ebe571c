"""Handlers that change a graph: mutations, loads, schema changes, branches, merges, reverts."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, cast

import msgspec
from starlette.responses import Response

from omnigraph.errors import MergeConflicts, SchemaOfCluster
from omnigraph.language.source import SourceText
from omnigraph.server.http_request import Call
from omnigraph.server.http_responses import json_response, paginate, write_response
from omnigraph.wire.http_protocol import NDJSON
from omnigraph.wire.read_results import BranchList
from omnigraph.wire.request_bodies import (
    ApplyCommitRequest,
    BranchCreateRequest,
    BranchMergeRequest,
    BranchRenameRequest,
    LoadRequest,
    MutateRequest,
    RestoreRequest,
    SchemaApplyRequest,
    SchemaPlanRequest,
    name_mutation,
)
from omnigraph.wire.write_results import CreatedBranch, DeletedBranch

if TYPE_CHECKING:
    from omnigraph.graph.engines import ModeName
    from omnigraph.graph.graph import Graph
    from omnigraph.wire.merge_results import ApplyResult
    from omnigraph.wire.write_results import LoadResult


MAX_BRANCHES = 10_000
_REQUEST_BYTES = 256
"""The size that a request about branches counts as, among the writes of its actor."""
LOAD_BYTES = "graph_batch_request_bytes"
"""The name of the limit on the body of a load."""


async def mutate(call: Call) -> Response:
    body, size = await call.read_body(MutateRequest)
    return await run_mutation(call, body, size)


async def run_mutation(call: Call, body: MutateRequest, size: int) -> Response:
    """Run a mutation as one commit; at most once for an idempotency key."""
    branch = call.read_branch(body.branch)
    with call.admit(size):
        done = await call.write(
            lambda: call.graph.mutate(
                body.query,
                body.name,
                body.params,
                branch=branch,
                expected_head=call.expected_head,
                actor=call.actor,
                message=body.message,
                idempotency_key=call.key,
            )
        )
    call.log_commit(done.commit, branch, replayed=done.is_replayed)
    return write_response(done)


async def plan_schema(call: Call) -> Response:
    """Plan the migration to another schema; nothing is changed."""
    body, _ = await call.read_body(SchemaPlanRequest)
    branch = call.read_branch(body.branch)
    plan = await call.read(
        lambda: call.graph.plan_schema(
            body.schema_source,
            branch=branch,
            allow_data_loss=body.allow_data_loss,
            expressions=body.expressions,
        )
    )
    return json_response(plan)


async def apply_schema(call: Call) -> Response:
    """Apply another schema to a branch as one commit."""
    body, size = await call.read_body(SchemaApplyRequest)
    branch = call.read_branch(body.branch)
    if call.service.options.source.is_cluster and call.hosted is not None:
        raise SchemaOfCluster(call.hosted.id)
    with call.admit(size):
        done = await call.write(
            lambda: call.graph.apply_schema(
                body.schema_source,
                branch=branch,
                allow_data_loss=body.allow_data_loss,
                allow_drop_all=body.allow_drop_all,
                expressions=body.expressions,
                mutations=[
                    SourceText(text, name_mutation(number))
                    for number, text in enumerate(body.mutations)
                ],
                expected_head=body.expected_head,
                dry_run=body.dry_run,
                actor=call.actor,
                message=body.message,
                idempotency_key=call.key,
            )
        )
    call.log_commit(done.commit, branch, replayed=done.is_replayed)
    return write_response(msgspec.structs.replace(done, uri=call.graph_url))


@dataclass(frozen=True, slots=True)
class _HttpLoad:
    """The options of a load, from a body or from parameters."""

    branch: str
    base: str | None
    mode: ModeName
    partial: bool
    match: Sequence[str]
    expected_head: str | None
    message: str | None


async def load(call: Call) -> Response:
    body, size = await call.read_body(LoadRequest, call.service.options.server.load_bytes)
    branch, base = _read_branches(call, body.branch, body.base)
    mode = cast("ModeName", body.mode or "merge")  # the graph refuses an unknown mode
    wanted = _HttpLoad(
        branch, base, mode, body.partial, body.match, body.expected_head, body.message
    )
    done = await _run_load(call, wanted, body.data.encode(), size)
    return write_response(msgspec.structs.replace(done, uri=call.graph_url))


async def load_ndjson(call: Call) -> Response:
    """Load JSON lines; an actor without the right is refused before the body is read."""
    call.require_media(NDJSON)
    branch, base = _read_branches(call, call.find("branch"), call.find("from"))
    data = await call.read_bytes(call.service.options.server.load_bytes, LOAD_BYTES)
    wanted = _HttpLoad(
        branch,
        base,
        cast("ModeName", call.find("mode") or "merge"),
        call.find("partial") == "true",
        call.list("match"),
        call.find("expected_head"),
        call.find("message"),
    )
    done = await _run_load(call, wanted, data, len(data))
    return write_response(done)


async def _run_load(call: Call, wanted: _HttpLoad, data: bytes, size: int) -> LoadResult:
    branch, base = wanted.branch, wanted.base
    with call.admit(size):
        done = await call.write(
            lambda: call.graph.load(
                data,
                wanted.mode,
                branch=branch,
                base=base,
                partial=wanted.partial,
                match=wanted.match,
                expected_head=wanted.expected_head,
                actor=call.actor,
                message=wanted.message,
                engine="local",
                idempotency_key=call.key,
            )
        )
    call.log_commit(done.commit, branch, replayed=done.is_replayed)
    return done


def _read_branches(call: Call, branch: str | None, base: str | None) -> tuple[str, str | None]:
    return call.read_branch(branch), None if base is None else call.read_branch(base)


async def list_branches(call: Call) -> Response:
    """List the branch names in order, in pages."""
    limit = call.read_limit(MAX_BRANCHES)
    names = await call.read(call.graph.branches)
    page, token = paginate(names, str, call.find("page_token"), limit)
    return json_response(BranchList(branches=page, next_page_token=token))


async def create_branch(call: Call) -> Response:
    body, _ = await call.read_body(BranchCreateRequest)
    name, source = call.read_branch(body.name), call.read_branch(body.source)
    with call.admit(_REQUEST_BYTES):
        created = await call.write(
            lambda: call.graph.create_branch(
                name, source=source, commit=body.commit, actor=call.actor, idempotency_key=call.key
            )
        )
    return _branch_response(call, name, created)


async def rename_branch(call: Call) -> Response:
    """Rename a branch; requires the rights to delete it and to create one of the new name."""
    body, _ = await call.read_body(BranchRenameRequest)
    name, new_name = call.read_branch(body.name), call.read_branch(body.new_name)
    with call.admit(_REQUEST_BYTES):
        created = await call.write(
            lambda: call.graph.rename_branch(name, new_name, idempotency_key=call.key)
        )
    renamed = msgspec.structs.replace(created, renamed_from=name)
    return _branch_response(call, new_name, renamed)


async def delete_branch(call: Call) -> Response:
    name = call.read_branch(call.request.path_params["branch"])
    with call.admit(_REQUEST_BYTES):
        deleted = await call.write(lambda: call.graph.delete_branch(name, idempotency_key=call.key))
    return _branch_response(call, name, deleted)


def _branch_response(call: Call, branch: str, done: CreatedBranch | DeletedBranch) -> Response:
    if not done.is_replayed:
        call.log_write(branch)
    return write_response(msgspec.structs.replace(done, uri=call.graph_url))


async def merge_branches(call: Call) -> Response:
    body, size = await call.read_body(BranchMergeRequest)
    source, target = call.read_branch(body.source), call.read_branch(body.target)
    with call.admit(size):
        try:
            done = await call.write(
                lambda: call.graph.merge(
                    source,
                    target,
                    dry_run=body.dry_run,
                    resolve=body.resolve,
                    decisions=body.decisions or (),
                    granularity=body.granularity,
                    delete_branch=body.delete_branch,
                    expected_head=body.expected_head,
                    actor=call.actor,
                    message=body.message,
                    idempotency_key=call.key,
                )
            )
        except MergeConflicts:
            call.service.metrics.count_conflict()
            raise
    call.log_commit(done.commit, target, replayed=done.is_replayed)
    return write_response(done)


async def revert(call: Call) -> Response:
    return await _apply_commit(call, lambda graph: graph.revert)


async def cherry_pick(call: Call) -> Response:
    return await _apply_commit(call, lambda graph: graph.cherry_pick)


async def _apply_commit(
    call: Call, choose_verb: Callable[[Graph], Callable[..., ApplyResult]]
) -> Response:
    body, size = await call.read_body(ApplyCommitRequest)
    branch = call.read_branch(body.branch)
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
            granularity=body.granularity,
            expected_head=body.expected_head,
            actor=call.actor,
            message=body.message,
            idempotency_key=call.key,
        ),
    )


async def restore(call: Call) -> Response:
    body, size = await call.read_body(RestoreRequest)
    branch = call.read_branch(body.branch)
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
            idempotency_key=call.key,
        ),
    )


async def _change_branch(
    call: Call, branch: str, size: int, work: Callable[[], ApplyResult]
) -> Response:
    """Run a revert, cherry-pick or restore; the graph checks the right to read the commit."""
    with call.admit(size):
        try:
            done = await call.write(work)
        except MergeConflicts:
            call.service.metrics.count_conflict()
            raise
    call.log_commit(done.commit, branch, replayed=done.is_replayed)
    return write_response(done)

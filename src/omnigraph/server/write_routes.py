"""Handlers that change a graph: one for all plain verbs, and those of loads and schemas."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, cast

import msgspec

from omnigraph.errors import MergeConflicts, SchemaOfCluster
from omnigraph.language.source import SourceText
from omnigraph.server.http_request import Call
from omnigraph.server.http_responses import paginate
from omnigraph.wire.http_protocol import NDJSON
from omnigraph.wire.merge_results import MergeResult
from omnigraph.wire.read_results import BranchList
from omnigraph.wire.request_bodies import (
    LoadRequest,
    SchemaApplyRequest,
    SchemaPlanRequest,
    name_mutation,
)
from omnigraph.wire.write_results import CreatedBranch, DeletedBranch

if TYPE_CHECKING:
    from omnigraph.evolution.apply_result import SchemaApplyResult
    from omnigraph.evolution.migration_plan import MigrationPlan
    from omnigraph.wire.write_results import LoadResult


MAX_BRANCHES = 10_000
_NAME_BYTES = 256
"""The size that a write without a body counts as, among the writes of its actor."""
LOAD_BYTES = "graph_batch_request_bytes"
"""The name of the limit on the body of a load."""


async def run_verb(call: Call) -> Any:  # noqa: ANN401 - the route declares the type
    """Run the verb of the route; its arguments are the members of the request that are given."""
    route, size = call.route, _NAME_BYTES
    path = [name for name in call.request.path_params if name != "graph_id"]
    given = {name: call.request.path_params[name] for name in path}
    if route.request is not None:
        body, size = await call.read_body(route.request)
        members = {name: getattr(body, name) for name in body.__struct_fields__}
        given |= {name: value for name, value in members.items() if value is not None}
    for right in route.rights:
        for name in (right.branch, right.target):
            if name is not None and name in given:
                given[name] = call.read_branch(given[name])
    positional = [given.pop(name) for name in path]
    return await run_write(call, route.verb or "", size, *positional, **given)


async def run_write(
    call: Call,
    verb: str,
    size: int,
    *positional: Any,  # noqa: ANN401
    **given: Any,  # noqa: ANN401
) -> Any:  # noqa: ANN401
    """Run a verb of the graph that writes, under the key and the condition of the request."""
    if call.route.takes_key:
        given["idempotency_key"] = call.key
    if call.route.is_conditional:
        given["expected_head"] = call.expected_head
    with call.admit(size):
        try:
            done = await call.write(lambda: getattr(call.graph, verb)(*positional, **given))
        except MergeConflicts:
            call.service.metrics.count_conflict()
            raise
    _log_write(call, done)
    return done


def _log_write(call: Call, done: Any) -> None:  # noqa: ANN401
    match done:
        case MergeResult():
            call.log_commit(done.commit, done.target, replayed=done.is_replayed)
        case CreatedBranch() | DeletedBranch() if not done.is_replayed:
            call.log_write(done.name)
        case CreatedBranch() | DeletedBranch():
            return
        case _ if hasattr(done, "commit"):
            call.log_commit(done.commit, done.branch, replayed=done.is_replayed)
        case _:  # a tag or a consumer
            call.log_write(done.branch)


async def plan_schema(call: Call) -> MigrationPlan:
    """Plan the migration to another schema; nothing is changed."""
    body, _ = await call.read_body(SchemaPlanRequest)
    branch = call.read_branch(body.branch)
    return await call.read(
        lambda: call.graph.plan_schema(
            body.schema_source,
            branch=branch,
            allow_data_loss=body.allow_data_loss,
            expressions=body.expressions,
        )
    )


async def apply_schema(call: Call) -> SchemaApplyResult:
    """Apply another schema to a branch as one commit."""
    body, size = await call.read_body(SchemaApplyRequest)
    if call.service.options.source.is_cluster and call.hosted is not None:
        raise SchemaOfCluster(call.hosted.id)
    given = msgspec.structs.asdict(body)
    schema, mutations = given.pop("schema_source"), given.pop("mutations")
    given["branch"] = call.read_branch(body.branch)
    given["mutations"] = [
        SourceText(text, name_mutation(number)) for number, text in enumerate(mutations)
    ]
    return cast("SchemaApplyResult", await run_write(call, "apply_schema", size, schema, **given))


async def load(call: Call) -> LoadResult:
    """Load records from a document."""
    body, size = await call.read_body(LoadRequest, call.service.options.server.load_bytes)
    return await _run_load(call, body, body.data.encode(), size)


async def load_ndjson(call: Call) -> LoadResult:
    """Load JSON lines; the parameters are the other members of a load."""
    call.require_media(NDJSON)
    data = await call.read_bytes(call.service.options.server.load_bytes, LOAD_BYTES)
    wanted = LoadRequest(
        data="",
        branch=call.find("branch"),
        base=call.find("from"),
        mode=call.find("mode"),
        partial=call.find("partial") == "true",
        match=call.list("match"),
        expected_head=call.find("expected_head"),
        message=call.find("message"),
    )
    return await _run_load(call, wanted, data, len(data))


async def _run_load(call: Call, wanted: LoadRequest, data: bytes, size: int) -> LoadResult:
    given = msgspec.structs.asdict(wanted)
    del given["data"]
    given["mode"] = wanted.mode or "merge"  # the graph refuses an unknown mode
    given["branch"] = call.read_branch(wanted.branch)
    given["base"] = None if wanted.base is None else call.read_branch(wanted.base)
    done = await run_write(call, "load", size, data, engine="local", **given)
    return cast("LoadResult", done)


async def list_branches(call: Call) -> BranchList:
    """List the branch names in order, in pages."""
    limit = call.read_limit(MAX_BRANCHES)
    names = await call.read(call.graph.branches)
    page, token = paginate(names, str, call.find("page_token"), limit)
    return BranchList(branches=page, next_page_token=token)

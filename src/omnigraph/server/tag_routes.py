"""Routes about names for commits: tags, and consumers of the change feed."""

from __future__ import annotations

import datetime
import math

from starlette.responses import Response

from omnigraph.errors import BadRequest
from omnigraph.server.access import Action
from omnigraph.server.http_answers import answer_json
from omnigraph.server.http_call import Call
from omnigraph.server.paging import cut_page
from omnigraph.wire.request_bodies import ConsumerSetRequest, TagCreateRequest

_MOST_ENTRIES = 10_000
_REQUEST_BYTES = 256
"""What a request about a name counts for among those of its actor."""
_LONGEST_S = 10 * 365 * 24 * 3600.0


async def list_tags(call: Call) -> Response:
    call.authorize(Action.READ)
    limit = call.read_limit(_MOST_ENTRIES)
    tags = await call.read(call.graph.tags)
    page, more = cut_page(tags, lambda tag: tag.name, call.find("page_token"), limit)
    return answer_json({"tags": [tag.wire() for tag in page], **more})


async def create_tag(call: Call) -> Response:
    body, _ = await call.read_body(TagCreateRequest)
    branch = call.read_branch(body.branch)
    call.authorize(Action.CHANGE, branch)
    with call.admit(_REQUEST_BYTES):
        made = await call.write(
            lambda: call.graph.tag(body.name, body.at, branch=branch, actor=call.actor)
        )
    call.note_write(branch)
    return answer_json(made.wire())


async def delete_tag(call: Call) -> Response:
    call.authorize(Action.CHANGE)
    name = call.request.path_params["tag"]
    with call.admit(_REQUEST_BYTES):
        gone = await call.write(lambda: call.graph.delete_tag(name))
    call.note_write(gone.branch)
    return answer_json(gone.wire())


async def list_consumers(call: Call) -> Response:
    call.authorize(Action.READ)
    limit = call.read_limit(_MOST_ENTRIES)
    found = await call.read(call.graph.consumers)
    page, more = cut_page(found, lambda one: one.name, call.find("page_token"), limit)
    return answer_json({"consumers": [one.wire() for one in page], **more})


async def set_consumer(call: Call) -> Response:
    body, _ = await call.read_body(ConsumerSetRequest)
    branch, name = call.read_branch(body.branch), call.request.path_params["consumer"]
    call.authorize(Action.CHANGE, branch)
    seconds = body.lasts_seconds
    if not math.isfinite(seconds) or not 0 < seconds <= _LONGEST_S:
        raise BadRequest("lasts_seconds is more than 0 and at most ten years")
    lasts = datetime.timedelta(seconds=seconds)
    with call.admit(_REQUEST_BYTES):
        made = await call.write(
            lambda: call.graph.set_consumer(name, body.position, lasts=lasts, branch=branch)
        )
    call.note_write(branch)
    return answer_json(made.wire())


async def delete_consumer(call: Call) -> Response:
    call.authorize(Action.CHANGE)
    name = call.request.path_params["consumer"]
    with call.admit(_REQUEST_BYTES):
        gone = await call.write(lambda: call.graph.delete_consumer(name))
    call.note_write(gone.branch)
    return answer_json(gone.wire())

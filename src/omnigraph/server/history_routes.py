"""Handlers of history.

Commits and their changes, diffs, the change feed and its consumers, entity history, tags, and
keyed writes.
"""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING

import msgspec
from starlette.responses import Response

from omnigraph.errors import BadRequest, CommitNotFound, PolicyDenied
from omnigraph.history.diff import Diff, list_rows_of_diff
from omnigraph.server.access import Action
from omnigraph.server.http_request import Call
from omnigraph.server.http_responses import (
    StreamAnswer,
    answer_json,
    choose_media,
    cut_page,
    decode_page,
    encode_arrow,
    encode_page,
)
from omnigraph.wire.http_protocol import ARROW_STREAM, JSON, LINES, NDJSON
from omnigraph.wire.request_bodies import ConsumerSetRequest, TagCreateRequest

if TYPE_CHECKING:
    from omnigraph.graph.results import Commit


DEFAULT_COMMITS = 10_000
_PAGE_CHANGES = 1_000
_PAGE_COMMITS = 128
_LINES_AT_ONCE = 256


async def list_commits(call: Call) -> Response:
    """Newest first. All pages show the branch as it was for the first one."""
    branch = call.read_branch(call.find("branch"))
    call.authorize(Action.READ, branch)
    limit, token = call.read_limit(DEFAULT_COMMITS), decode_page(call.find("page_token"), 2)
    before, after = call.find("before"), call.find("after")
    types, kinds = call.list("type"), call.list("commit_kind")

    def work() -> dict[str, object]:
        commits = call.graph.commits(branch)
        rest = commits if token is None else _list_after(commits, *token)
        if before or after or types or kinds:
            chosen = call.graph.commits(
                branch, before=before, after=after, types=types, kinds=kinds
            )
            wanted = {commit.commit_id for commit in chosen}
            rest = [commit for commit in rest if commit.commit_id in wanted]
        page = rest[:limit]
        body: dict[str, object] = {"commits": [commit.wire() for commit in page]}
        if len(rest) > limit:
            head = commits[0].commit_id if token is None else token[0]
            body["next_page_token"] = encode_page(head, page[-1].commit_id)
        return body

    return answer_json(await call.read(work))


def _list_after(commits: Sequence[Commit], head: str, last: str) -> Sequence[Commit]:
    """Those that come after `last` in the list of what `head` came from."""
    known = {commit.commit_id: commit for commit in commits}
    seen: set[str] = set()
    waiting = [head]
    while waiting:
        commit = known.get(waiting.pop())  # type: ignore[call-overload]
        if commit is not None and commit.commit_id not in seen:
            seen.add(commit.commit_id)
            waiting += commit.parents
    listed = [commit for commit in commits if commit.commit_id in seen]
    for position, commit in enumerate(listed):
        if commit.commit_id == last:
            return listed[position + 1 :]
    raise BadRequest("the page token is of another list of commits")


async def get_commit(call: Call) -> Response:
    call.authorize(Action.READ)
    wanted = _read_commit_id(call)
    return answer_json(await call.read(lambda: call.graph.commit(wanted).wire()))


async def get_commit_changes(call: Call) -> Response:
    """What a commit changed; one that may not be read is as one that is not there."""
    wanted = _read_commit_id(call)
    limit = call.read_number("limit", _PAGE_CHANGES)
    commit = await call.read(lambda: call.unguarded.commit(wanted))
    try:
        call.authorize(Action.READ, commit.branch)
    except PolicyDenied:
        raise CommitNotFound(wanted) from None
    page = await call.read(
        lambda: call.graph.commit_changes(
            wanted,
            page_token=call.find("page_token"),
            kinds=call.list("kind"),
            types=call.list("type"),
            ops=call.list("op"),
            max_changes=limit,
        ).wire()
    )
    return answer_json(page)


def _read_commit_id(call: Call) -> str:
    """The id as written in the address; only whole ids, so nothing can be probed."""
    wanted: str = call.request.path_params["commit_id"]
    if len(wanted) != 26 or not wanted.isascii() or not wanted.isalnum():
        raise CommitNotFound(wanted[:80])
    return wanted.upper()


async def poll_changes(call: Call) -> Response:
    branch = call.read_branch(call.find("branch"))
    call.authorize(Action.READ, branch)
    positions = [call.find(name) for name in ("cursor", "start", "page_token")]
    given = [position for position in positions if position is not None]
    if len(given) > 1:
        raise BadRequest("give one of cursor, start and page_token")
    limit = call.read_number("limit", _PAGE_CHANGES)
    most_commits = call.read_number("max_commits", _PAGE_COMMITS)
    page = await call.read(
        lambda: call.graph.changes(
            given[0] if given else "now",
            kinds=call.list("kind"),
            types=call.list("type"),
            ops=call.list("op"),
            max_changes=limit,
            max_commits=most_commits,
            branch=branch,
        ).wire()
    )
    return answer_json(page)


async def diff(call: Call) -> Response:
    """Counts by type in one document, every change as a line, or a table of those of one type."""
    branch = call.read_branch(call.find("branch"))
    media = choose_media(call.request.headers.get("accept"), call.route.answer_media)
    places = (call.find("before"), call.find("after"))
    if media == ARROW_STREAM and not len(call.list("type")) == len(call.list("kind")) == 1:
        raise BadRequest("an Arrow stream has the changes of one type: give one type and its kind")

    def start() -> Diff:
        for place in places:
            call.authorize_place(place, branch)
        return call.graph.diff(
            places[0] or "",
            places[1],
            images=call.find("images") == "true",
            kinds=call.list("kind"),
            types=call.list("type"),
            ops=call.list("op"),
            branch=branch,
        )

    if media == JSON:
        return answer_json(await call.read(lambda: start().wire_stats()))

    def begin() -> tuple[bytes, Iterator[bytes]]:
        found = start()
        if media == NDJSON:
            pieces = _encode_changes(found)
        else:
            pieces = encode_arrow(*list_rows_of_diff(found), call.service.metrics.count_rows)
        return next(pieces, b""), pieces  # mistakes come before the answer begins

    first, rest = await call.read(begin)
    content, idle_s = LINES if media == NDJSON else media, call.service.options.server.idle_s
    return StreamAnswer(call.stream(first, rest), content, idle_s=idle_s)


def _encode_changes(found: Diff) -> Iterator[bytes]:
    changes, encoder = iter(found), msgspec.json.Encoder()
    while block := list(islice(changes, _LINES_AT_ONCE)):
        yield encoder.encode_lines([change.wire() for change in block])


async def get_entity_history(call: Call) -> Response:
    branch = call.read_branch(call.find("branch"))
    call.authorize(Action.READ, branch)
    type_name, id = call.find("type") or "", call.find("id") or ""
    found = await call.read(
        lambda: call.graph.entity_history(
            type_name, id, kind=call.find("entity"), branch=branch
        ).wire()
    )
    return answer_json(found)


async def get_write(call: Call) -> Response:
    """What became of a write of the actor: the commit it made, and what it was answered."""
    branch = call.read_branch(call.find("branch"))
    call.authorize(Action.CHANGE, branch)
    key = call.request.path_params["key"]
    found = await call.read(lambda: call.graph.find_write(key, branch=branch, actor=call.actor))
    return answer_json(found.wire())


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

"""Handlers of history: commits, diffs, the change feed and its consumers, tags, keyed writes."""

from __future__ import annotations

import datetime
import math
from collections.abc import Iterator, Sequence
from itertools import islice
from typing import TYPE_CHECKING, cast

import msgspec
from starlette.responses import Response

from omnigraph.errors import BadRequest, CommitNotFound
from omnigraph.history.diff import Diff, list_rows_of_diff
from omnigraph.server.http_request import Call
from omnigraph.server.http_responses import (
    StreamResponse,
    choose_media,
    decode_page_token,
    encode_arrow,
    encode_page_token,
    paginate,
)
from omnigraph.server.write_routes import run_write
from omnigraph.wire.commit_results import CommitList, ConsumerList, TagList
from omnigraph.wire.http_protocol import ARROW_STREAM, JSON, LINES, NDJSON
from omnigraph.wire.request_bodies import ConsumerSetRequest

if TYPE_CHECKING:
    from omnigraph.wire.change_results import CommitChanges, DiffStats, EntityHistory, FeedPage
    from omnigraph.wire.commit_results import Commit, Consumer
    from omnigraph.wire.write_results import RecordedWrite


MAX_COMMITS = 10_000
_MAX_ENTRIES = 10_000
_MAX_CONSUMER_S = 10 * 365 * 24 * 3600.0
_PAGE_CHANGES = 1_000
_PAGE_COMMITS = 128
_LINES_AT_ONCE = 256


async def list_commits(call: Call) -> CommitList:
    """List commits, newest first; every page shows the branch as it was for the first one."""
    branch = call.read_branch(call.find("branch"))
    limit, token = call.read_limit(MAX_COMMITS), decode_page_token(call.find("page_token"), 2)
    before, after = call.find("before"), call.find("after")
    types, kinds = call.list("type"), call.list("commit_kind")

    def work() -> CommitList:
        commits = call.graph.commits(branch)
        rest = commits if token is None else _list_after(commits, *token)
        if before or after or types or kinds:
            chosen = call.graph.commits(
                branch, before=before, after=after, types=types, kinds=kinds
            )
            wanted = {commit.commit_id for commit in chosen}
            rest = [commit for commit in rest if commit.commit_id in wanted]
        page = rest[:limit]
        token_after = None
        if len(rest) > limit:
            head = commits[0].commit_id if token is None else token[0]
            token_after = encode_page_token(head, page[-1].commit_id)
        return CommitList(commits=tuple(page), next_page_token=token_after)

    return await call.read(work)


def _list_after(commits: Sequence[Commit], head: str, last: str) -> Sequence[Commit]:
    """Return the ancestors of `head` that follow `last` in the list."""
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


async def get_commit(call: Call) -> Commit:
    wanted = _read_commit_id(call)
    return await call.read(lambda: call.graph.commit(wanted))


async def get_commit_changes(call: Call) -> CommitChanges:
    """Return a page of the changes of a commit; one that may not be read is reported as missing."""
    wanted = _read_commit_id(call)
    limit = call.read_number("limit", _PAGE_CHANGES)
    return await call.read(
        lambda: call.graph.commit_changes(
            wanted,
            page_token=call.find("page_token"),
            kinds=call.list("kind"),
            types=call.list("type"),
            ops=call.list("op"),
            max_changes=limit,
        )
    )


def _read_commit_id(call: Call) -> str:
    """Read the id in the path; only full ids are accepted, so that ids cannot be probed."""
    wanted: str = call.request.path_params["commit_id"]
    if len(wanted) != 26 or not wanted.isascii() or not wanted.isalnum():
        raise CommitNotFound(wanted[:80])
    return wanted.upper()


async def poll_changes(call: Call) -> FeedPage:
    branch = call.read_branch(call.find("branch"))
    positions = [call.find(name) for name in ("cursor", "start", "page_token")]
    given = [position for position in positions if position is not None]
    if len(given) > 1:
        raise BadRequest("give one of cursor, start and page_token")
    limit = call.read_number("limit", _PAGE_CHANGES)
    max_commits = call.read_number("max_commits", _PAGE_COMMITS)
    return await call.read(
        lambda: call.graph.changes(
            given[0] if given else "now",
            kinds=call.list("kind"),
            types=call.list("type"),
            ops=call.list("op"),
            max_changes=limit,
            max_commits=max_commits,
            branch=branch,
        )
    )


async def diff(call: Call) -> Response | DiffStats:
    """Compare two revisions: counts by type, changes as lines, or those of one type as Arrow."""
    branch = call.read_branch(call.find("branch"))
    media = choose_media(call.request.headers.get("accept"), call.route.answer_media)
    revisions = (call.find("before"), call.find("after"))
    if media == ARROW_STREAM and not len(call.list("type")) == len(call.list("kind")) == 1:
        raise BadRequest("an Arrow stream has the changes of one type: give one type and its kind")

    def start() -> Diff:
        return call.graph.diff(
            revisions[0] or "",
            revisions[1],
            images=call.find("images") == "true",
            kinds=call.list("kind"),
            types=call.list("type"),
            ops=call.list("op"),
            branch=branch,
        )

    if media == JSON:
        return await call.read(lambda: start().count())

    def begin() -> tuple[bytes, Iterator[bytes]]:
        found = start()
        if media == NDJSON:
            pieces = _encode_changes(found)
        else:
            pieces = encode_arrow(*list_rows_of_diff(found), call.service.metrics.count_rows)
        return next(pieces, b""), pieces  # errors are raised before the response begins

    first, rest = await call.read(begin)
    content, idle_s = LINES if media == NDJSON else media, call.service.options.server.idle_s
    return StreamResponse(call.stream(first, rest), content, idle_s=idle_s)


def _encode_changes(found: Diff) -> Iterator[bytes]:
    changes, encoder = iter(found), msgspec.json.Encoder()
    while block := list(islice(changes, _LINES_AT_ONCE)):
        yield encoder.encode_lines(block)


async def get_entity_history(call: Call) -> EntityHistory:
    branch = call.read_branch(call.find("branch"))
    type_name, id = call.find("type") or "", call.find("id") or ""
    return await call.read(
        lambda: call.graph.entity_history(type_name, id, kind=call.find("entity"), branch=branch)
    )


async def get_write(call: Call) -> RecordedWrite:
    """Return the outcome of a keyed write of the actor: its commit and its response."""
    branch = call.read_branch(call.find("branch"))
    key = call.request.path_params["key"]
    return await call.read(lambda: call.graph.find_write(key, branch=branch, actor=call.actor))


async def list_tags(call: Call) -> TagList:
    limit = call.read_limit(_MAX_ENTRIES)
    tags = await call.read(call.graph.tags)
    page, token = paginate(tags, lambda tag: tag.name, call.find("page_token"), limit)
    return TagList(tags=tuple(page), next_page_token=token)


async def list_consumers(call: Call) -> ConsumerList:
    limit = call.read_limit(_MAX_ENTRIES)
    found = await call.read(call.graph.consumers)
    page, token = paginate(found, lambda one: one.name, call.find("page_token"), limit)
    return ConsumerList(consumers=tuple(page), next_page_token=token)


async def set_consumer(call: Call) -> Consumer:
    body, size = await call.read_body(ConsumerSetRequest)
    branch, name = call.read_branch(body.branch), call.request.path_params["consumer"]
    seconds = body.lasts_seconds
    if not math.isfinite(seconds) or not 0 < seconds <= _MAX_CONSUMER_S:
        raise BadRequest("lasts_seconds is more than 0 and at most ten years")
    lasts = datetime.timedelta(seconds=seconds)
    given = {"position": body.position, "lasts": lasts, "branch": branch}
    return cast("Consumer", await run_write(call, "set_consumer", size, name, **given))

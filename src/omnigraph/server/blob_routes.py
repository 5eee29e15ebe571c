"""Handlers of blobs: ranges, conditional requests, and writing a value."""

from __future__ import annotations

import re
from base64 import b64encode
from collections.abc import Iterator
from typing import TYPE_CHECKING

from starlette.datastructures import Headers
from starlette.responses import Response

from omnigraph.errors import (
    BlobChanged,
    BlobIsNull,
    BlobRangeNotSatisfiable,
    EntityNotFound,
    PreconditionFailed,
)
from omnigraph.server.http_request import Call
from omnigraph.server.http_responses import StreamResponse
from omnigraph.wire.http_protocol import ENTITY_KIND, OCTETS, SNAPSHOT_ID
from omnigraph.wire.write_results import PutBlob

if TYPE_CHECKING:
    from omnigraph.graph.blobs import Blob
    from omnigraph.graph.graph import GraphView
    from omnigraph.wire.read_results import BlobStat
    from omnigraph.wire.write_results import MutationResult

_RANGE = re.compile(r"bytes=\s*(\d{0,18})-(\d{0,18})\s*", re.IGNORECASE)
_TAG = re.compile(r'\s*(W/)?"([^"]*)"\s*')
_MAX_ATTEMPTS = 16
"""Attempts to write a blob when concurrent commits change the branch."""


async def get_blob(call: Call) -> Response:
    return await _read_blob(call, wants_bytes=True)


async def head_blob(call: Call) -> Response:
    return await _read_blob(call, wants_bytes=False)


async def _read_blob(call: Call, *, wants_bytes: bool) -> Response:
    snapshot = call.find("snapshot")
    name = call.read_branch_unless(call.find("branch"), snapshot)

    def work() -> tuple[GraphView, Blob]:
        view = call.graph.at(branch=name, snapshot=snapshot)
        return view, _open_blob(call, view)

    view, blob = await call.read(work)
    if blob.stat.uri is not None:
        headers = {"Location": blob.stat.uri, "Cache-Control": "no-store"}
        return Response(None, 302, {**headers, **_location_headers(blob)})
    return await _managed_response(call, view, blob, wants_bytes=wants_bytes)


def _location_headers(blob: Blob) -> dict[str, str]:
    """Return the headers with the snapshot and the entity kind of a blob."""
    return {SNAPSHOT_ID: blob.stat.snapshot_id, ENTITY_KIND: blob.stat.entity_kind}


def _open_blob(
    call: Call, view: GraphView, start: int | None = None, length: int | None = None
) -> Blob:
    type_name, id, property = (call.find(name) or "" for name in ("type", "id", "property"))
    return view.read_blob(
        type_name, id, property, kind=call.find("entity"), start=start, length=length
    )


async def _managed_response(
    call: Call, view: GraphView, blob: Blob, *, wants_bytes: bool
) -> Response:
    given, etag, size = call.request.headers, blob.etag or "", blob.size or 0
    headers = {
        "Accept-Ranges": "bytes",
        "ETag": etag,
        **_location_headers(blob),
        "Content-Length": str(size),
        "Content-Type": OCTETS,
    }
    if not matches(given, "if-match", etag):
        raise BlobChanged(etag)
    if is_known(given, etag):
        return Response(None, 304, headers)
    if not wants_bytes:
        return Response(None, 200, headers)
    wanted = _choose_range(given, etag, size)
    if wanted is None:
        return _send(call, blob.chunks(), headers)
    start, end = wanted
    headers["Content-Length"] = str(end - start)
    headers["Content-Range"] = f"bytes {start}-{end - 1}/{size}"
    part = await call.read(lambda: _open_blob(call, view, start, end - start))
    return _send(call, part.chunks(), headers, 206)


def _send(
    call: Call, chunks: Iterator[bytes], headers: dict[str, str], status: int = 200
) -> Response:
    idle_s = call.service.options.server.idle_s
    pieces = call.stream(b"", chunks)
    return StreamResponse(pieces, OCTETS, headers=headers, status=status, idle_s=idle_s)


# --- conditions and ranges ------------------------------------------------------------------------


def matches(headers: Headers, name: str, etag: str) -> bool:
    """Return whether an `If-Match` condition holds; a malformed one never does."""
    given = headers.getlist(name)
    if not given:
        return True
    tags = _read_tags(", ".join(given))
    return tags is not None and (tags == ["*"] or etag in tags)


def is_known(headers: Headers, etag: str) -> bool:
    """Return whether the client has the value already; a malformed list counts as absent."""
    given = headers.getlist("if-none-match")
    if not given:
        return False
    tags = _read_tags(", ".join(given))
    return tags is not None and (tags == ["*"] or etag in (tag.removeprefix("W/") for tag in tags))


def _read_tags(text: str) -> list[str] | None:
    """Parse a list of entity tags; None if it is malformed."""
    if text.strip() == "*":
        return ["*"]
    tags, at = [], 0
    while True:
        found = _TAG.match(text, at)
        if found is None:
            return None
        tags.append(found[0].strip())
        at = found.end()
        if at == len(text):
            return tags
        if text[at] != ",":
            return None
        at += 1


def _choose_range(headers: Headers, etag: str, size: int) -> tuple[int, int] | None:
    """Return the requested byte range; None for the whole value.

    Raises:
        BlobRangeNotSatisfiable: the range is outside the value.
    """
    given, condition = headers.getlist("range"), headers.getlist("if-range")
    if len(given) != 1 or (condition and condition != [etag]):
        return None
    found = _RANGE.fullmatch(given[0].strip())
    if found is None or not (found[1] or found[2]):
        return None
    if not found[1]:
        length = int(found[2])
        if not length or not size:
            raise BlobRangeNotSatisfiable(size, size, size)
        return max(0, size - length), size
    start = int(found[1])
    end = int(found[2]) + 1 if found[2] else max(size, start + 1)
    if start >= end:
        return None
    if start >= size:
        raise BlobRangeNotSatisfiable(start, end, size)
    return start, min(end, size)


# --- writing --------------------------------------------------------------------------------------


async def put_blob(call: Call) -> PutBlob:
    """Write a value as one commit, provided the conditions of the request hold.

    The response discloses the value's metadata, so the right to read is required as well.
    """
    branch = call.read_branch(call.find("branch"))
    call.require_media(OCTETS)
    data = await call.read_bytes(call.service.options.server.load_bytes, "blob_bytes")
    with call.admit(len(data)):
        stat, done = await call.write(lambda: _write_blob(call, branch, data))
    assert done.commit is not None, "a blob that was written is in a commit"
    call.log_commit(done.commit, branch, replayed=done.is_replayed)
    return PutBlob(blob=stat, commit=done.commit, is_replayed=done.is_replayed)


def _write_blob(call: Call, branch: str, data: bytes) -> tuple[BlobStat, MutationResult]:
    type_name, id, property = (call.find(name) or "" for name in ("type", "id", "property"))
    is_conditional = any(name in call.request.headers for name in ("if-match", "if-none-match"))
    value = f"base64:{b64encode(data).decode()}"
    for remaining in reversed(range(_MAX_ATTEMPTS)):
        view = call.graph.at(branch=branch)
        _check_conditions(call, view)  # the names are declared ones from here on
        try:
            done = call.graph.mutate(
                f"query put_blob($id: String, $value: Blob) {{ "
                f"update {type_name} set {{ {property}: $value }} where id = $id }}",
                params={"id": id, "value": value},
                branch=branch,
                expected_head=view.commit_id if is_conditional else None,
                actor=call.actor,
                idempotency_key=call.key,
            )
        except PreconditionFailed:
            if not remaining:
                raise
            continue  # something else changed; perhaps not this value
        if done.commit is None:
            raise EntityNotFound(type_name, id)  # deleted meanwhile
        stat = _open_blob(call, call.graph.at(commit=done.commit.commit_id)).stat
        return stat, done
    raise AssertionError("the last attempt returns or raises")


def _check_conditions(call: Call, view: GraphView) -> None:
    """Check that the cell exists and its value meets the conditions of the request."""
    try:
        etag = _open_blob(call, view).etag
    except BlobIsNull:
        etag = None
    headers = call.request.headers
    if etag is None:
        if "if-match" in headers:
            raise BlobChanged(None)
    elif not matches(headers, "if-match", etag) or is_known(headers, etag):
        raise BlobChanged(etag)

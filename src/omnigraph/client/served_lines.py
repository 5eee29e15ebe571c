"""Answers as JSON lines: exports, and baselines with the cursor in their last line."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import msgspec

from omnigraph.client.http_connection import ClientRequest, ServerConnection
from omnigraph.errors import BadRequest, UnexpectedAnswer
from omnigraph.history.baseline import Baseline
from omnigraph.identity import CommitId
from omnigraph.typed_reading import decode_into
from omnigraph.wire.http_names import NDJSON
from omnigraph.wire.request_bodies import ChangeBaselineRequest, ExportRequest

if TYPE_CHECKING:
    import urllib3


class _Handshake(msgspec.Struct, frozen=True):
    """Where a copy was made, and where the feed goes on."""

    snapshot_commit_id: str
    resume_cursor: str


class _LastLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    baseline: _Handshake


def export_lines(connection: ServerConnection, request: ExportRequest) -> Iterator[bytes]:
    """The records as blocks of whole lines; what cannot be exported is told before the first."""
    return start_lines(connection, ClientRequest("export", body=request, accept=NDJSON))


def start_lines(connection: ServerConnection, request: ClientRequest) -> Iterator[bytes]:
    """An answer as blocks of whole lines; what is wrong with the request is told before."""
    return _read_whole_lines(connection, connection.start(request))


def _read_whole_lines(
    connection: ServerConnection, response: urllib3.BaseHTTPResponse
) -> Iterator[bytes]:
    held = b""
    for piece in connection.pieces(response):
        lines, end, held = (held + piece).rpartition(b"\n")
        if end:
            yield lines + end
    if held:
        raise UnexpectedAnswer(connection.address.url, 200, "the last line has no end")


def decode_lines(blocks: Iterator[bytes]) -> Iterator[dict[str, object]]:
    for block in blocks:
        for line in block.splitlines():
            yield msgspec.json.decode(line)


class ServedBaseline(Baseline):
    """A copy of a branch that a server sends; it can be read once.

    The commit it was made at comes with the cursor, after the last record.
    """

    def __init__(self, connection: ServerConnection, request: ChangeBaselineRequest) -> None:
        self._connection = connection
        asked = ClientRequest("captureChangeBaseline", body=request, accept=NDJSON)
        self._blocks = start_lines(connection, asked)
        self._is_begun = False
        self._handshake: _Handshake | None = None

    def __repr__(self) -> str:
        return f"ServedBaseline({self._connection.address.url!r})"

    @property
    def snapshot_commit_id(self) -> CommitId:
        return CommitId(self._require_end().snapshot_commit_id)

    @property
    def resume_cursor(self) -> str:
        """Where the feed continues after this copy."""
        return self._require_end().resume_cursor

    def _require_end(self) -> _Handshake:
        if self._handshake is None:
            raise BadRequest(
                "the cursor is available once every record of the baseline has been read"
            )
        return self._handshake

    def jsonl(self) -> Iterator[bytes]:
        """The records as blocks of JSON lines; the newest line is held back until another comes."""
        if self._is_begun:
            raise BadRequest("the records have already been read; take another baseline")
        self._is_begun = True
        newest = b""
        for block in self._blocks:
            rest, end, newest_of_block = (newest + block)[:-1].rpartition(b"\n")
            newest = newest_of_block + b"\n"
            if end:
                yield rest + end
        try:
            self._handshake = decode_into(newest, _LastLine).baseline
        except msgspec.DecodeError as error:
            url = self._connection.address.url
            raise UnexpectedAnswer(url, 200, "the copy of the branch has no end") from error

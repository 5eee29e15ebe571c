"""Results of a served graph that are streamed or fetched on demand.

Query results, rows of a type, exports, baselines, blobs and diffs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, NoReturn

import msgspec
import pyarrow as pa
from urllib3.exceptions import HTTPError

from omnigraph.client.http_connection import ClientRequest, ConnectionLost, ServerConnection
from omnigraph.client.response_decoding import read_change
from omnigraph.client.served_object import ServedObject, refuse_verb
from omnigraph.errors import BadRequest, BlobIntegrity, TypeNotFound, UnexpectedAnswer
from omnigraph.graph.blobs import (
    Blob,
    BlobSelector,
    BlobStat,
    BlobStorage,
    ByteRange,
    check_range,
    fit_range,
)
from omnigraph.graph.query_result import QueryResult
from omnigraph.graph.results import SnapshotInfo, TableInfo
from omnigraph.graph.row_forms import TypeRows
from omnigraph.history.change_feed import Baseline
from omnigraph.history.diff import Diff, TypeStats
from omnigraph.history.entity_changes import ChangeFilter, EntityChange
from omnigraph.identity import CommitId, EntityKind, make_table_key
from omnigraph.typed_reading import decode_into
from omnigraph.wire.http_protocol import (
    ARROW_STREAM,
    ENTITY_KIND,
    JSON,
    NDJSON,
    OCTETS,
    SNAPSHOT_ID,
)
from omnigraph.wire.request_bodies import ChangeBaselineRequest, ExportRequest
from omnigraph.wire.response_bodies import DiffOutput

if TYPE_CHECKING:
    import urllib3


class StreamedRows:
    """Batches as they come; the connection is held until the last one is read."""

    def __init__(self, response: urllib3.BaseHTTPResponse, url: str) -> None:
        self._response, self._url = response, url
        with _telling_loss(url):
            self._reader = pa.ipc.open_stream(pa.PythonFile(response, "r"))

    @property
    def schema(self) -> pa.Schema:
        return self._reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                with _telling_loss(self._url):
                    try:
                        batch = self._reader.read_next_batch()
                    except StopIteration:
                        # The end of the rows; that of the answer must follow.
                        self._response.read()
                        return
                yield batch
        finally:
            self._response.close()

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), self.schema)

    def close(self) -> None:
        """Read no further."""
        self._response.close()


@contextmanager
def _telling_loss(url: str) -> Iterator[None]:
    """Tell of a stream that is cut off as of a lost connection."""
    try:
        yield
    except (HTTPError, OSError, pa.ArrowInvalid) as error:
        raise ConnectionLost(url, f"the rows ended too early ({error})") from error


class ServedQueryResult(QueryResult):
    """A result whose rows come from a server."""

    def __init__(
        self,
        query_name: str,
        rows: StreamedRows,
        target: Mapping[str, str | None],
        commit_id: str | None,
    ) -> None:
        self._query_name = query_name
        self._take_rows(rows, target, commit_id)

    @property
    def query_name(self) -> str:
        return self._query_name

    def profile(self) -> NoReturn:
        refuse_verb("profile")


class ServedTypeRows(TypeRows):
    """The nodes or edges of a type in one state of a served graph; each reading asks the server."""

    def __init__(
        self, connection: ServerConnection, info: SnapshotInfo, kind: EntityKind, type_name: str
    ) -> None:
        self._connection, self._snapshot_id = connection, info.snapshot_id
        self._request = ClientRequest(
            "listRows",
            parameters=(("entity", kind), ("type", type_name), ("snapshot", name_state(info))),
            accept=ARROW_STREAM,
        )
        found = _find_table(info, kind, type_name)
        if found is None:
            self._start().close()  # says what is wrong with the name
            raise TypeNotFound(type_name, f"the schema has no type '{type_name}'")
        self._table = found

    def __repr__(self) -> str:
        return f"ServedTypeRows({self._table.table_key!r}, {self._snapshot_id!r})"

    def __len__(self) -> int:
        return self._table.row_count

    def _start(self) -> StreamedRows:
        response = self._connection.start(self._request)
        return StreamedRows(response, self._connection.address.base)

    def to_arrow(self) -> pa.Table:
        """Every row in memory, blobs included."""
        return self._start().to_arrow()

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns with their Arrow types."""
        rows = self._start()
        rows.close()
        return rows.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same rows in batches, without holding them all."""
        return self._start().batches()

    def to_spark(self, *given: object, **named: object) -> NoReturn:  # noqa: ARG002 - refused
        refuse_verb("to_spark")


def _find_table(info: SnapshotInfo, kind: EntityKind, type_name: str) -> TableInfo | None:
    """The table of a type; the name of an edge may be written in another case."""
    tables = {one.table_key: one for one in info.tables}
    key = make_table_key(kind, type_name)
    if kind is EntityKind.NODE or key in tables:
        return tables.get(key)
    return {one.lower(): table for one, table in tables.items()}.get(key.lower())


def name_state(info: SnapshotInfo) -> str:
    """What names a state, and its branch too, whoever made its newest commit."""
    return f"manifest:{info.graph_branch}:v{info.graph_manifest_version}"


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


Parameters = tuple[tuple[str, str], ...]


class ServedBlob(Blob):
    """A blob whose bytes a server sends."""

    def __init__(
        self,
        stat: BlobStat,
        connection: ServerConnection,
        cell: Parameters,
        wanted: ByteRange | None,
    ) -> None:
        self.stat, self.range = stat, wanted
        self._connection, self._cell = connection, cell

    def _read_range(self, start: int, end: int) -> bytes:
        request = ClientRequest(
            "getBlob",
            parameters=self._cell,
            headers={"Range": f"bytes={start}-{end - 1}", "If-Match": self.etag or "*"},
            accept=OCTETS,
        )
        answer = self._connection.ask(request)
        expected = f"bytes {start}-{end - 1}/{self.size}"
        if answer.status != 206 or answer.headers.get("Content-Range") != expected:
            raise UnexpectedAnswer(
                self._connection.address.url, answer.status, f"{expected} was asked for"
            )
        if len(answer.data) != end - start:
            raise BlobIntegrity(f"{self!r} ends at byte {start + len(answer.data)}")
        return answer.data


def read_blob(
    connection: ServerConnection,
    selector: BlobSelector,
    where: Parameters,
    start: int | None,
    length: int | None,
) -> ServedBlob:
    """The blob of one cell, or a range of it; nothing of it is read yet."""
    check_range(start, length)
    kind = () if selector.kind is None else (("entity", selector.kind),)
    cell = (
        *kind,
        ("type", selector.type_name),
        ("id", selector.entity_id),
        ("property", selector.property),
        *where,
    )
    stat = _read_stat(connection, selector, cell)
    return ServedBlob(stat, connection, cell, fit_range(stat, start, length))


def _read_stat(connection: ServerConnection, selector: BlobSelector, cell: Parameters) -> BlobStat:
    request = ClientRequest("headBlob", parameters=cell, accept=OCTETS)
    try:
        answer = connection.ask(request)
    except UnexpectedAnswer:
        # A failed HEAD has no body, and so no reason; GET has.
        answer = connection.ask(ClientRequest("getBlob", parameters=cell, accept=OCTETS))
    headers = answer.headers
    uri = headers.get("Location") if answer.status == 302 else None
    return BlobStat(
        entity_kind=headers[ENTITY_KIND],
        type_name=selector.type_name,
        entity_id=selector.entity_id,
        property=selector.property,
        storage=BlobStorage.EXTERNAL if uri else BlobStorage.MANAGED,
        size=None if uri else int(headers["Content-Length"]),
        etag=None if uri else headers["ETag"],
        uri=uri,
        snapshot_id=headers[SNAPSHOT_ID],
    )


class ServedDiff(Diff, ServedObject):
    """What is different in one state of a served graph from another; asked for when it is read."""

    def __init__(
        self,
        connection: ServerConnection,
        sides: tuple[SnapshotInfo, SnapshotInfo],
        *,
        images: bool,
        wanted: ChangeFilter,
    ) -> None:
        self._connection, self._sides = connection, sides
        self.images, self._wanted = images, wanted
        known = {table.table_key.partition(":")[2] for info in sides for table in info.tables}
        if not wanted.types <= known:
            _ = self.stats  # the server says what is wrong with the name

    @property
    def _snapshot_ids(self) -> tuple[str, str]:
        before, after = self._sides
        return before.snapshot_id, after.snapshot_id

    def _ask(self, accept: str, kinds: frozenset[str], types: frozenset[str]) -> ClientRequest:
        before, after = (name_state(info) for info in self._sides)
        places: Parameters = (("before", before), ("after", after))
        images: Parameters = (("images", "true"),) if self.images else ()
        filters = (("kind", kinds), ("type", types), ("op", self._wanted.ops))
        chosen = tuple((name, one) for name, values in filters for one in sorted(values))
        return ClientRequest("diff", parameters=(*places, *images, *chosen), accept=accept)

    def __iter__(self) -> Iterator[EntityChange]:
        """Every change: nodes before edges, types and entities by name and id."""
        request = self._ask(NDJSON, self._wanted.kinds, self._wanted.types)
        for line in decode_lines(start_lines(self._connection, request)):
            yield read_change(line)

    def batches(self) -> NoReturn:
        refuse_verb("batches")

    @cached_property
    def stats(self) -> Mapping[str, TypeStats]:
        """How many entities of each type came, changed and went; types without any are left out."""
        request = self._ask(JSON, self._wanted.kinds, self._wanted.types)
        found = self._connection.ask_for(request, DiffOutput).stats
        return {
            one.type_name: TypeStats(
                EntityKind(one.kind), one.type_name, one.inserted, one.updated, one.deleted
            )
            for one in found
        }

    @property
    def is_empty(self) -> bool:
        return not self.stats

    def to_arrow(self) -> Mapping[str, pa.Table]:
        """The changes of each type as a table: `id`, `op` and, with images, both rows."""
        return {one.type_name: self._read_table(one) for one in self.stats.values()}

    def _read_table(self, one: TypeStats) -> pa.Table:
        request = self._ask(ARROW_STREAM, frozenset({one.kind}), frozenset({one.type_name}))
        response = self._connection.start(request)
        return StreamedRows(response, self._connection.address.base).to_arrow()

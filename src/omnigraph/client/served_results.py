"""Results of a served graph that are streamed or fetched on demand: rows, blobs, diffs, exports."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any, NoReturn

import msgspec
import pyarrow as pa
from urllib3.exceptions import HTTPError

from omnigraph.client.http_connection import ClientRequest, ConnectionLost, ServerConnection
from omnigraph.client.served_object import ServedObject, refuse_verb
from omnigraph.errors import BadRequest, BlobIntegrity, TypeNotFound, UnexpectedAnswer
from omnigraph.graph.blobs import Blob, BlobSelector, ByteRange, check_range, fit_range
from omnigraph.graph.conversion.row_formats import TypeRows
from omnigraph.graph.queries import QueryResult
from omnigraph.history.change_feed import Baseline
from omnigraph.history.diff import Diff
from omnigraph.history.entity_changes import ChangeFilter
from omnigraph.identity import CommitId, EntityKind, make_table_key
from omnigraph.operations import operation_table as routes
from omnigraph.struct_decoding import convert_into, decode_into
from omnigraph.wire.change_results import BaselineEnd, DiffStats, EntityChange, TypeStats
from omnigraph.wire.http_protocol import (
    ARROW_STREAM,
    ENTITY_KIND,
    JSON,
    NDJSON,
    OCTETS,
    SNAPSHOT_ID,
)
from omnigraph.wire.read_results import BlobStat, BlobStorage, SnapshotInfo, TableInfo
from omnigraph.wire.request_bodies import ChangeBaselineRequest, ExportRequest

if TYPE_CHECKING:
    import urllib3


class StreamedRows:
    """Batches as they arrive; the connection is in use until the last one is read."""

    def __init__(self, response: urllib3.BaseHTTPResponse, url: str) -> None:
        self._response, self._url = response, url
        with _translate_loss(url):
            self._reader = pa.ipc.open_stream(pa.PythonFile(response, "r"))

    @property
    def schema(self) -> pa.Schema:
        return self._reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                with _translate_loss(self._url):
                    try:
                        batch = self._reader.read_next_batch()
                    except StopIteration:
                        # After the end of the rows, the end of the response must follow.
                        self._response.read()
                        return
                yield batch
        finally:
            self._response.close()

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), self.schema)

    def close(self) -> None:
        """Close the connection; unread rows are lost."""
        self._response.close()


@contextmanager
def _translate_loss(url: str) -> Iterator[None]:
    """Raise a truncated stream as a lost connection."""
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
    """The nodes or edges of a type in one state of a served graph; each read is a request."""

    def __init__(
        self, connection: ServerConnection, info: SnapshotInfo, kind: EntityKind, type_name: str
    ) -> None:
        self._connection, self._snapshot_id = connection, info.snapshot_id
        self._request = ClientRequest(
            routes.LIST_ROWS,
            parameters=(("entity", kind), ("type", type_name), ("snapshot", format_state(info))),
            accept=ARROW_STREAM,
        )
        found = _find_table(info, kind, type_name)
        if found is None:
            self._start().close()  # raises the server's error about the name
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
        """Iterate over the rows in batches, without loading them all."""
        return self._start().batches()

    def to_spark(self, *given: object, **named: object) -> NoReturn:  # noqa: ARG002 - refused
        refuse_verb("to_spark")


def _find_table(info: SnapshotInfo, kind: EntityKind, type_name: str) -> TableInfo | None:
    """Find the table of a type; the name of an edge type is case-insensitive."""
    tables = {one.table_key: one for one in info.tables}
    key = make_table_key(kind, type_name)
    if kind is EntityKind.NODE or key in tables:
        return tables.get(key)
    return {one.lower(): table for one, table in tables.items()}.get(key.lower())


def format_state(info: SnapshotInfo) -> str:
    """Return the revision of a state, which names its branch too."""
    return f"manifest:{info.graph_branch}:v{info.graph_manifest_version}"


class _LastLine(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    baseline: BaselineEnd


def export_lines(connection: ServerConnection, request: ExportRequest) -> Iterator[bytes]:
    """Start an export; yield blocks of whole lines."""
    return start_lines(connection, ClientRequest(routes.EXPORT, body=request, accept=NDJSON))


def start_lines(connection: ServerConnection, request: ClientRequest[Any]) -> Iterator[bytes]:
    """Send a request; yield its response as blocks of whole lines. Errors are raised at once."""
    return _read_whole_lines(connection, connection.start(request))


def _read_whole_lines(
    connection: ServerConnection, response: urllib3.BaseHTTPResponse
) -> Iterator[bytes]:
    partial = b""
    for piece in connection.pieces(response):
        lines, end, partial = (partial + piece).rpartition(b"\n")
        if end:
            yield lines + end
    if partial:
        raise UnexpectedAnswer(connection.address.url, 200, "the last line has no end")


def decode_lines(blocks: Iterator[bytes]) -> Iterator[dict[str, object]]:
    for block in blocks:
        for line in block.splitlines():
            yield msgspec.json.decode(line)


class ServedBaseline(Baseline):
    """A baseline streamed by a server; it can be read once.

    Its commit and its cursor arrive after the last record.
    """

    def __init__(self, connection: ServerConnection, request: ChangeBaselineRequest) -> None:
        self._connection = connection
        asked = ClientRequest(routes.CAPTURE_CHANGE_BASELINE, body=request, accept=NDJSON)
        self._blocks = start_lines(connection, asked)
        self._is_begun = False
        self._handshake: BaselineEnd | None = None

    def __repr__(self) -> str:
        return f"ServedBaseline({self._connection.address.url!r})"

    @property
    def snapshot_commit_id(self) -> CommitId:
        return self._require_end().snapshot_commit_id

    @property
    def resume_cursor(self) -> str:
        """The cursor to follow the feed from."""
        return self._require_end().resume_cursor

    def _require_end(self) -> BaselineEnd:
        if self._handshake is None:
            raise BadRequest(
                "the cursor is available once every record of the baseline has been read"
            )
        return self._handshake

    def jsonl(self) -> Iterator[bytes]:
        """Yield the records as blocks of JSON lines, without the last line."""
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
    """A blob of a served graph, fetched by range requests."""

    def __init__(
        self,
        stat: BlobStat,
        connection: ServerConnection,
        cell: Parameters,
        wanted: ByteRange | None,
    ) -> None:
        self.stat, self.range = stat, wanted
        self._connection, self._cell = connection, cell

    def read_range(self, start: int, end: int) -> bytes:
        request = ClientRequest(
            routes.GET_BLOB,
            parameters=self._cell,
            headers={"Range": f"bytes={start}-{end - 1}", "If-Match": self.etag or "*"},
            accept=OCTETS,
        )
        answer = self._connection.send(request)
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
    """Return the blob of one cell, or a range of it; no bytes are read yet."""
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
    request = ClientRequest(routes.HEAD_BLOB, parameters=cell, accept=OCTETS)
    try:
        answer = connection.send(request)
    except UnexpectedAnswer:
        # The response to a failed HEAD has no body; that to GET has the error.
        answer = connection.send(ClientRequest(routes.GET_BLOB, parameters=cell, accept=OCTETS))
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
    """The differences between two states of a served graph, fetched when they are read."""

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
            _ = self.stats  # raises the server's error about the name

    @property
    def snapshot_ids(self) -> tuple[str, str]:
        before, after = self._sides
        return before.snapshot_id, after.snapshot_id

    def _ask(
        self, accept: str, kinds: frozenset[str], types: frozenset[str]
    ) -> ClientRequest[DiffStats]:
        before, after = (format_state(info) for info in self._sides)
        revisions: Parameters = (("before", before), ("after", after))
        images: Parameters = (("images", "true"),) if self.images else ()
        filters = (("kind", kinds), ("type", types), ("op", self._wanted.ops))
        chosen = tuple((name, one) for name, values in filters for one in sorted(values))
        return ClientRequest(routes.DIFF, parameters=(*revisions, *images, *chosen), accept=accept)

    def __iter__(self) -> Iterator[EntityChange]:
        """Iterate over the changes: nodes before edges, by type name and id."""
        request = self._ask(NDJSON, self._wanted.kinds, self._wanted.types)
        for line in decode_lines(start_lines(self._connection, request)):
            yield convert_into(line, EntityChange)

    def batches(self) -> NoReturn:
        refuse_verb("batches")

    @cached_property
    def stats(self) -> Mapping[str, TypeStats]:
        """Count inserted, updated and deleted entities by type; unchanged types are omitted."""
        request = self._ask(JSON, self._wanted.kinds, self._wanted.types)
        found = self._connection.ask(request).stats
        return {one.type_name: one for one in found}

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

"""A blob behind a server: what is known of it at once, its bytes range by range."""

from __future__ import annotations

from omnigraph.client.http_connection import ClientRequest, ServerConnection
from omnigraph.errors import BlobIntegrity, UnexpectedAnswer
from omnigraph.graph.blobs import (
    Blob,
    BlobSelector,
    BlobStat,
    BlobStorage,
    ByteRange,
    check_range,
    fit_range,
)
from omnigraph.wire.http_names import ENTITY_KIND, OCTETS, SNAPSHOT_ID

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

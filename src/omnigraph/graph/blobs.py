"""Read one blob of one entity: its metadata, its bytes, or a range of them.

A query returns no blob values: a blob is addressed by type, id and property, and read from one
immutable view. No byte is read before it is requested, and then one chunk at a time, so a blob of
any size needs the memory of one chunk.
"""

from __future__ import annotations

import hashlib
import io
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.errors import (
    BadRequest,
    BlobIntegrity,
    BlobIsNull,
    BlobRangeNotSatisfiable,
    EntityNotFound,
    ExternalBlobSource,
)
from omnigraph.graph.branch_snapshots import CatalogSnapshot
from omnigraph.storage.tables import ROW_ID, Table, read_blob_range
from omnigraph.wire.read_results import BlobStat as BlobStat
from omnigraph.wire.read_results import BlobStorage as BlobStorage

PIECE_BYTES = 4 << 20
"""Size of one read of a blob."""
_LARGEST_OFFSET = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class BlobSelector:
    """The address of one blob. `kind` is needed only where a node and an edge type share a name."""

    type_name: str
    entity_id: str
    property: str
    kind: str | None = None


@dataclass(frozen=True, slots=True)
class ByteRange:
    """The bytes from `start` (inclusive) to `end` (exclusive)."""

    start: int
    end: int

    @property
    def length(self) -> int:
        return self.end - self.start


class Blob:
    """A blob, or a range of one. `read`, `chunks` and `open` return its bytes, repeatedly.

    >>> blob = graph.read_blob("Person", "Ada", "photo", start=1, length=2)
    >>> blob.read(), blob.size, blob.content_range
    (b'ix', 6, 'bytes 1-2/6')

    `bytes(blob)` is the same as `blob.read()`. The view it was found in stays as it is, whatever
    is written meanwhile.
    """

    def __init__(self, stat: BlobStat, table: Table, row_id: int, wanted: ByteRange | None) -> None:
        self.stat, self.range = stat, wanted
        """`range` is the requested range, clipped to the size; None for an external blob."""
        self._table, self._row_id = table, row_id

    @property
    def size(self) -> int | None:
        """The size of the whole value in bytes."""
        return self.stat.size

    @property
    def etag(self) -> str | None:
        return self.stat.etag

    @property
    def content_range(self) -> str | None:
        """The range as HTTP writes it, `bytes 0-99/1000`; None for the whole value."""
        if self.range is None or self.range.length == self.size:
            return None
        return f"bytes {self.range.start}-{self.range.end - 1}/{self.size}"

    def __len__(self) -> int:
        """Return the number of bytes that `read` returns."""
        return self._require_readable().length

    def __bytes__(self) -> bytes:
        return self.read()

    def __repr__(self) -> str:
        where = f"{self.stat.type_name} {self.stat.entity_id!r} {self.stat.property}"
        return f"Blob({where}, {self.stat.storage}, size={self.size})"

    def read(self) -> bytes:
        """Return all bytes of the range."""
        return b"".join(self.chunks())

    def chunks(self, size: int = PIECE_BYTES) -> Iterator[bytes]:
        """Yield the bytes of the range in order, at most `size` at a time.

        >>> list(graph.read_blob("Person", "Ada", "photo").chunks(4))
        [b'pixe', b'ls']
        """
        if size < 1:
            raise BadRequest("a piece of a blob has at least one byte")
        wanted = self._require_readable()
        for start in range(wanted.start, wanted.end, size):
            yield self.read_range(start, min(start + size, wanted.end))

    def open(self) -> io.BufferedReader:
        """Open the range as a seekable binary file.

        >>> with graph.read_blob("Person", "Ada", "photo").open() as photo:
        ...     _ = photo.seek(3)
        ...     photo.read()
        b'els'
        """
        wanted = self._require_readable()
        return io.BufferedReader(_BlobFile(self, wanted), PIECE_BYTES)

    def _require_readable(self) -> ByteRange:
        if self.range is None:
            assert self.stat.uri is not None, "only an external blob has no range"
            raise ExternalBlobSource(
                self.stat.uri, "bytes kept elsewhere are never fetched; `stat` gives their address"
            )
        return self.range

    def read_range(self, start: int, end: int) -> bytes:
        """The bytes from one position of the value to another, whatever the range of the blob.

        >>> graph.read_blob("Person", "Ada", "photo").read_range(2, 5)
        b'xel'
        """
        found = read_blob_range(self._table, self.stat.property, self._row_id, start, end - start)
        if len(found) != end - start:
            raise BlobIntegrity(f"{self!r} ends at byte {start + len(found)}")
        return found


class _BlobFile(io.RawIOBase):
    def __init__(self, blob: Blob, wanted: ByteRange) -> None:
        self._blob, self._range, self._at = blob, wanted, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        origin = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._range.length}[whence]
        if origin + offset < 0:
            raise ValueError("before the start of the blob")
        self._at = origin + offset
        return self._at

    def readinto(self, buffer: bytearray | memoryview) -> int:  # type: ignore[override]
        start = min(self._range.start + self._at, self._range.end)
        end = min(start + len(buffer), self._range.end)
        if start < end:
            buffer[: end - start] = self._blob.read_range(start, end)
        self._at += end - start
        return end - start


def check_range(start: int | None, length: int | None) -> None:
    """Raise for a range that no blob could satisfy; reads nothing."""
    for name, value in (("start", start), ("length", length)):
        if value is not None and not 0 <= value <= _LARGEST_OFFSET:
            raise BadRequest(f"the {name} of a blob range is a number from 0 to 2^63 - 1")
    if length == 0:
        raise BadRequest("the length of a blob range is at least 1")
    if (start or 0) + (length or 0) > _LARGEST_OFFSET:
        raise BadRequest("the end of a blob range is at most 2^63 - 1")


def read_blob(
    view: CatalogSnapshot,
    selector: BlobSelector,
    start: int | None = None,
    length: int | None = None,
) -> Blob:
    """Return the blob of one entity, or `length` bytes of it from `start`.

    Raises:
        BadRequest: there is no such type or property, it is not a blob, or the range is invalid.
        EntityNotFound: no entity of the type has this id.
        BlobIsNull: the entity has no value there.
        BlobRangeNotSatisfiable: the range starts after the end of the value.
    """
    check_range(start, length)
    type_ = _find_entity_type(view.catalog, selector)
    _require_blob(type_, selector.property)
    table = view.snapshot.table(type_.table_key)
    found = table.lookup("id", pa.array([selector.entity_id], pa.string()), [ROW_ID])
    if not found.num_rows:
        raise EntityNotFound(type_.table_key, selector.entity_id)
    row_id = int(found.column(ROW_ID)[0].as_py())
    described = table.take_row_ids([row_id], [selector.property]).column(0)[0].as_py()
    if described is None:
        raise BlobIsNull(type_.table_key, selector.entity_id, selector.property)
    stat = describe_blob(
        view, type_, selector, described, _make_etag(view, type_, selector, row_id)
    )
    return Blob(stat, table, row_id, fit_range(stat, start, length))


def describe_blob(
    view: CatalogSnapshot,
    type_: NodeType | EdgeType,
    selector: BlobSelector,
    described: Mapping[str, object],
    etag: str,
) -> BlobStat:
    """Return the metadata in the descriptor of a stored blob."""
    uri, size = str(described["blob_uri"] or ""), int(str(described["size"] or 0))
    if uri and (described["position"] or size):
        raise BlobIntegrity(f"{type_.table_key} '{selector.entity_id}' refers to a part of {uri}")
    return BlobStat(
        entity_kind=str(type_.kind),
        type_name=type_.name,
        entity_id=selector.entity_id,
        property=selector.property,
        storage=BlobStorage.EXTERNAL if uri else BlobStorage.MANAGED,
        size=None if uri else size,
        etag=None if uri else etag,
        uri=uri or None,
        snapshot_id=view.snapshot.id,
    )


def fit_range(stat: BlobStat, start: int | None, length: int | None) -> ByteRange | None:
    """Clip the requested range to the size of the blob; None for an external blob."""
    if stat.size is None:
        return None
    first = start or 0
    end = stat.size if length is None else first + length
    if first > 0 and first >= stat.size:
        raise BlobRangeNotSatisfiable(first, end, stat.size)
    return ByteRange(first, min(end, stat.size))


def _find_entity_type(catalog: Catalog, selector: BlobSelector) -> NodeType | EdgeType:
    if selector.kind not in (None, "node", "edge"):
        raise BadRequest(f"an entity is a node or an edge, not '{selector.kind}'")
    node = None if selector.kind == "edge" else catalog.nodes.get(selector.type_name)
    edge = None if selector.kind == "node" else catalog.edges.get(selector.type_name)
    if node is not None and edge is not None:
        raise BadRequest(f"'{selector.type_name}' is a node type and an edge type; say which")
    found = node or edge
    if found is None:
        kind = f"{selector.kind} type" if selector.kind else "type"
        raise BadRequest(f"no such {kind} '{selector.type_name}'")
    return found


def _require_blob(type_: NodeType | EdgeType, name: str) -> None:
    property_ = type_.property(name)
    if property_ is None:
        raise BadRequest(f"{type_.name} has no property '{name}'")
    if not property_.type.is_blob:
        raise BadRequest(f"{type_.name}.{name} is not a Blob; read it with a query")


def _make_etag(
    view: CatalogSnapshot, type_: NodeType | EdgeType, selector: BlobSelector, row_id: int
) -> str:
    """Strong: it differs wherever the bytes may differ. Versions of a table never come back."""
    entry = view.snapshot.entry(type_.table_key)
    table_version = (view.catalog.identity_domain, entry.path, entry.owner_branch, entry.version)
    facts = (*table_version, row_id, selector.property)
    digest = hashlib.sha256("\0".join(map(str, facts)).encode()).hexdigest()
    return f'"{digest[:32]}"'

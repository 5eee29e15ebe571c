"""Where the files of a branch are that it shares with the branch it was made from.

The substrate records the absolute address of the parent in every version of a branch, and has no
way to change it. A table that was moved or copied would read the files of its old place, and
removing versions there would take them for files that no branch needs. But a branch of ours shares
files with its own table only: the address must be that of the table, or of another branch of it,
wherever the table is now. So an address is read by its end alone.

A version is a protobuf message, and a file holds it between a transaction and a footer. Nothing
of it is understood here but its outermost fields; whatever else is met is refused.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import dataclass

import lance

from omnigraph.errors import ManifestCorrupt
from omnigraph.storage.tables.lance_session import open_shared_session
from omnigraph.storage.tables.location import TableLocation

_BASE_FIELD, _PATH_FIELD = 18, 4
_BYTES = 2
_TREE = re.compile(r"/tree/[0-9A-HJKMNP-TV-Z]{26}$")

_LENGTH = struct.Struct("<I")
_FOOTER = struct.Struct("<QHH4s")
_MAGIC = b"LANC"


def open_at_home(location: TableLocation, native: lance.LanceDataset) -> lance.LanceDataset:
    """The same version, reading shared files where the table is now.

    Raises:
        ManifestCorrupt: it shares files with something that is no part of the table.
    """
    bases = native.base_paths()
    if all(_find_home(base.path, location.uri) == base.path for base in bases.values()):
        return native
    manifest = relocate_manifest(native._ds.serialized_manifest(), location.uri)
    return lance.LanceDataset(
        location.native_uri,
        version=native.version,
        storage_options=location.native_options,
        serialized_manifest=manifest,
        session=open_shared_session(location),
    )


def relocate_version(data: bytes, table: str) -> bytes:
    """The file of a version, for a table that is at the address `table` now."""
    footer_at = len(data) - _FOOTER.size
    try:
        start, _, _, magic = _FOOTER.unpack_from(data, footer_at)
        (length,) = _LENGTH.unpack_from(data, start)
    except (struct.error, OverflowError) as error:
        raise ManifestCorrupt(f"a version of {table} has no footer") from error
    body = start + _LENGTH.size
    if magic != _MAGIC or body + length != footer_at:
        raise ManifestCorrupt(f"a version of {table} is laid out in an unknown way")
    manifest = relocate_manifest(data[body:footer_at], table)
    return data[:start] + _LENGTH.pack(len(manifest)) + manifest + data[footer_at:]


def relocate_manifest(manifest: bytes, table: str) -> bytes:
    """The message of a version, likewise."""
    parts = []
    for field in _parse_fields(manifest, table):
        if field.number == _BASE_FIELD and field.content is not None:
            parts.append(_encode_field(_BASE_FIELD, _relocate_base(field.content, table)))
        else:
            parts.append(field.raw)
    return b"".join(parts)


def _relocate_base(base: bytes, table: str) -> bytes:
    parts = []
    for field in _parse_fields(base, table):
        if field.number == _PATH_FIELD and field.content is not None:
            path = _find_home(field.content.decode(errors="replace"), table)
            parts.append(_encode_field(_PATH_FIELD, path.encode()))
        else:
            parts.append(field.raw)
    return b"".join(parts)


def _find_home(path: str, table: str) -> str:
    """The address now of what was the table, or a branch of it, at an address once."""
    tree = _TREE.search(path)
    root = path if tree is None else path[: tree.start()]
    if root.rpartition("/")[2] != table.rpartition("/")[2]:
        raise ManifestCorrupt(f"{table} refers to files at {path}, which is not part of it")
    return table if tree is None else table + tree[0]


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a message of the substrate."""

    number: int
    raw: bytes
    content: bytes | None
    """What it holds, if that is a text or a message."""


def _parse_fields(message: bytes, table: str) -> Iterator[_Field]:
    """The outermost fields of a message, in their order."""
    at = 0
    try:
        while at < len(message):
            start = at
            tag, at = _decode_varint(message, at)
            content = None
            match tag & 7:
                case 0:
                    _, at = _decode_varint(message, at)
                case 1:
                    at += 8
                case 5:
                    at += 4
                case 2:
                    length, at = _decode_varint(message, at)
                    content, at = message[at : at + length], at + length
                case _:
                    raise IndexError(at)
            if at > len(message):
                raise IndexError(at)
            yield _Field(tag >> 3, message[start:at], content)
    except IndexError as error:
        raise ManifestCorrupt(f"a version of {table} is laid out in an unknown way") from error


def _decode_varint(data: bytes, at: int) -> tuple[int, int]:
    number = shift = 0
    while True:
        number |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 1 << 7:
            return number, at
        shift += 7


def _encode_field(number: int, content: bytes) -> bytes:
    return _number(number << 3 | _BYTES) + _number(len(content)) + content


def _number(number: int) -> bytes:
    parts = bytearray()
    while number >= 1 << 7:
        parts.append(number & 0x7F | 0x80)
        number >>= 7
    parts.append(number)
    return bytes(parts)

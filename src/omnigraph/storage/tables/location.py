"""Locate a table: its root, its branch, the base paths it shares files with, the Lance session."""

from __future__ import annotations

import os
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from urllib.parse import unquote, urlsplit

import lance
from lance import Session  # type: ignore[attr-defined]  # public, though not declared so

from omnigraph.errors import ManifestCorrupt
from omnigraph.storage.tables.checksums import ChecksumLogs

_ULID = re.compile(r"[0-9A-HJKMNP-TV-Z]{26}")


def is_flat_name(branch: str) -> bool:
    """Return whether a name is one path component: nested branch names break their siblings."""
    return _ULID.fullmatch(branch) is not None


def require_flat_name(branch: str) -> None:
    """Raise unless this can be the name of a Lance branch: it becomes part of a path."""
    if not is_flat_name(branch):
        raise ManifestCorrupt(f"a physical branch name must be a ULID, not {branch!r}")


PhysicalTable = tuple[str, str | None]
"""A physical table: the path of a table, or of the manifest, and its Lance branch."""


@dataclass(frozen=True, slots=True)
class Generation:
    """One of the graphs created at an address over time."""

    graph: str
    """The address, shared by all tables of the graph."""
    name: str


@dataclass(frozen=True, slots=True)
class TableLocation:
    """The address of a table, or of one branch of it; None is the main branch.

    Two tables may be created at one address over time. The generation of their graph distinguishes
    them in every cache; None is the current one. `storage_options` may hold credentials, so it is
    neither shown nor compared.
    """

    uri: str
    branch: str | None = None
    storage_options: Mapping[str, str] | None = field(default=None, repr=False, compare=False)
    generation: Generation | None = field(default=None, repr=False)
    graph_folder: str | None = field(default=None, repr=False, compare=False)
    """The folder of the graph the table belongs to; None where it is on an object store."""
    is_verified: bool = field(default=False, repr=False, compare=False)
    """Whether files are compared with their checksums before they are first read."""
    checksum_logs: ChecksumLogs | None = field(default=None, repr=False, compare=False)
    """Checksum logs read so far, shared by a reader of many branches; None reads them again."""
    native_uri: str = field(init=False, repr=False, compare=False)
    """The address to open. A branch opened by its own address can be pickled and pinned."""
    local_folder: str | None = field(init=False, repr=False, compare=False)
    """The folder its files are in; None where they are on an object store."""

    def __post_init__(self) -> None:
        uri = native_uri = self.uri.rstrip("/")
        if self.branch is not None:
            require_flat_name(self.branch)
            native_uri = f"{uri}/tree/{self.branch}"
        # Computed once: a small commit uses it fifty times.
        object.__setattr__(self, "uri", uri)
        object.__setattr__(self, "native_uri", native_uri)
        object.__setattr__(self, "local_folder", _find_local_folder(native_uri))

    def __str__(self) -> str:
        return self.native_uri

    @property
    def cache_key(self) -> tuple[str, str]:
        """Return the key of cache entries of this table."""
        return self.native_uri, "" if self.generation is None else self.generation.name

    @property
    def native_options(self) -> dict[str, str] | None:
        return dict(self.storage_options) if self.storage_options else None

    def on_branch(self, branch: str | None) -> TableLocation:
        """Return the location of another branch of the table."""
        return replace(self, branch=branch)

    def of_generation(self, generation: Generation) -> TableLocation:
        """Return the location with the generation of its graph."""
        return replace(self, generation=generation)


def _find_local_folder(uri: str) -> str | None:
    scheme, separator, rest = uri.partition("://")
    if not separator:
        return uri
    return unquote(urlsplit(f"file://{rest}").path) if scheme == "file" else None


INDEX_CACHE_BYTES = 1 << 30
METADATA_CACHE_BYTES = 20 << 20
"""Capacity for the files of about two thousand fragments.

Each commit leaves some 45 kB of a version that is rarely read again, so a long-running process
fills the cache to this size.
"""


class _Held:
    """A session, with the graphs whose tables it has read by address.

    Lance caches by address, version and fragment id, and would confuse two tables created at one
    address over time. Each is therefore read through a session of its own; that is rare, and the
    other tables of the process are simply read again.
    """

    __slots__ = ("generations", "session")

    def __init__(self) -> None:
        self.session = Session(
            index_cache_size_bytes=INDEX_CACHE_BYTES,
            metadata_cache_size_bytes=METADATA_CACHE_BYTES,
        )
        self.generations: dict[str, str] = {}


# Keyed by process id: a forked child must not touch the session of its parent, whose threads it
# does not have. `setdefault` is atomic, so there is no lock that a fork could leave locked.
_held_by_process: dict[int, _Held] = {}


def open_shared_session(location: TableLocation | None = None) -> Session:
    """Return the session of this process, with no cached data of earlier tables at this address."""
    process = os.getpid()
    held = _held_by_process.get(process) or _held_by_process.setdefault(process, _Held())
    if location is None or location.generation is None:
        return held.session
    graph, generation = location.generation.graph, location.generation.name
    if held.generations.setdefault(graph, generation) != generation:
        held = _Held()
        held.generations[graph] = generation
        _held_by_process[process] = held
    return held.session


_BASE_FIELD, _PATH_FIELD = 18, 4
_BYTES = 2
_TREE = re.compile(r"/tree/[0-9A-HJKMNP-TV-Z]{26}$")

_LENGTH = struct.Struct("<I")
_FOOTER = struct.Struct("<QHH4s")
_MAGIC = b"LANC"


def open_at_home(location: TableLocation, native: lance.LanceDataset) -> lance.LanceDataset:
    """Reopen the version so that shared files are read below the current address of the table.

    Raises:
        ManifestCorrupt: it refers to files outside the table.
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
    for entry in _parse_fields(manifest, table):
        if entry.number == _BASE_FIELD and entry.content is not None:
            parts.append(_encode_field(_BASE_FIELD, _relocate_base(entry.content, table)))
        else:
            parts.append(entry.raw)
    return b"".join(parts)


def _relocate_base(base: bytes, table: str) -> bytes:
    parts = []
    for entry in _parse_fields(base, table):
        if entry.number == _PATH_FIELD and entry.content is not None:
            path = _find_home(entry.content.decode(errors="replace"), table)
            parts.append(_encode_field(_PATH_FIELD, path.encode()))
        else:
            parts.append(entry.raw)
    return b"".join(parts)


def _find_home(path: str, table: str) -> str:
    """Map a recorded address of the table, or of a branch, to the current one."""
    tree = _TREE.search(path)
    root = path if tree is None else path[: tree.start()]
    if root.rpartition("/")[2] != table.rpartition("/")[2]:
        raise ManifestCorrupt(f"{table} refers to files at {path}, which is not part of it")
    return table if tree is None else table + tree[0]


@dataclass(frozen=True, slots=True)
class _Field:
    """One field of a message of Lance."""

    number: int
    raw: bytes
    content: bytes | None
    """The text or message it contains."""


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

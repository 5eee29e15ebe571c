"""Translate the errors of Lance, mark its schemas, and count its reads."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass

import lance
import pyarrow as pa
from lance.commit import CommitConflictError

from omnigraph.errors import OmniError, RetryableCommitConflict, StorageFailure, StorageKind
from omnigraph.storage.objects.object_store import Translating


@dataclass(frozen=True, slots=True)
class IoCounters:
    """Reads of this process so far. Listings of local folders and writes are not counted."""

    reads: int
    bytes_read: int

    def __sub__(self, earlier: IoCounters) -> IoCounters:
        return IoCounters(self.reads - earlier.reads, self.bytes_read - earlier.bytes_read)


def read_io_counters() -> IoCounters:
    return IoCounters(int(lance.iops_counter()), int(lance.bytes_read_counter()))


PRIMARY_KEY = b"lance-schema:unenforced-primary-key"


def mark_primary_key(schema: pa.Schema, field: str) -> pa.Schema:
    """Return the schema with `field` marked as the primary key, and so not null.

    The mark is permanent. Lance does not enforce it: uniqueness is checked by writers.
    """
    index = schema.get_field_index(field)
    assert index >= 0, f"no field {field!r} in {schema.names}"
    old = schema.field(index)
    marked = old.with_nullable(False).with_metadata({**(old.metadata or {}), PRIMARY_KEY: b"true"})
    return schema.set(index, marked)


@dataclass(frozen=True, slots=True)
class Columns:
    """The columns of a table: read once, and shared by all versions that change only rows."""

    schema: pa.Schema
    ids: Mapping[str, int]
    """Top-level columns with their field ids."""
    all_ids: tuple[int, ...]
    """The ids of every field, nested ones included, in order."""


def read_columns(native: lance.LanceDataset) -> Columns:
    fields = native.lance_schema.fields()
    all_ids: list[int] = []
    waiting = list(fields)
    while waiting:
        field = waiting.pop()
        all_ids.append(field.id())
        waiting.extend(field.children())
    ids = {field.name(): int(field.id()) for field in fields}
    return Columns(native.schema, ids, tuple(sorted(all_ids)))


_CONFLICT = re.compile(
    "retryable commit conflict|commit conflict for version|incompatible transaction"
    "|too many concurrent writers",
    re.IGNORECASE,
)
_PREEMPTED = re.compile("preempted by concurrent transaction", re.IGNORECASE)
_DISK_FULL = re.compile("no space left|quota exceeded", re.IGNORECASE)
_MISSING = re.compile("not found", re.IGNORECASE)
_HINTS: tuple[tuple[StorageKind, re.Pattern[str]], ...] = (
    (
        StorageKind.TRANSIENT,
        re.compile(
            "timed? ?out|connection (reset|refused|closed|error)|broken pipe|slow ?down"
            "|temporarily unavailable|error sending request|server error|too many requests",
            re.IGNORECASE,
        ),
    ),
    (
        StorageKind.CONFIGURATION,
        re.compile(
            r"permission denied|access ?denied|forbidden|unauthori[sz]ed|credential"
            r"|read-only file ?system|no space left|not supported|unsupported|not yet implemented"
            r"|no object store provider|invalid (url|uri)|no such bucket|operation not permitted"
            r"|not a directory|os error (1|13|20|28|30)\b",
            re.IGNORECASE,
        ),
    ),
    (
        StorageKind.PRECONDITION,
        re.compile("already exists|ref conflict|precondition", re.IGNORECASE),
    ),
    (
        StorageKind.PERMANENT,
        re.compile(
            "corrupt|bad magic|magic number|checksum|failed to decode|unexpected (eof|end)"
            "|end of file|invalid protobuf|not found",
            re.IGNORECASE,
        ),
    ),
)
_KIND_OF_TYPE: tuple[tuple[StorageKind, tuple[type[BaseException], ...]], ...] = (
    (StorageKind.TRANSIENT, (TimeoutError, ConnectionError)),
    (StorageKind.CONFIGURATION, (PermissionError, NotImplementedError)),
    (StorageKind.PRECONDITION, (CommitConflictError, FileExistsError)),
    (StorageKind.PERMANENT, (pa.ArrowInvalid, UnicodeError)),
)


def is_conflict(error: BaseException) -> bool:
    """Return whether another writer committed first. Compaction reports it as a plain OSError."""
    return isinstance(error, CommitConflictError) or (
        isinstance(error, OSError) and bool(_CONFLICT.search(str(error)))
    )


def is_preempted(error: BaseException) -> bool:
    """Return whether another writer committed first, detected before anything was written.

    A conflict detected while writing the version may be with this very commit, if a response was
    lost.
    """
    return is_conflict(error) and bool(_PREEMPTED.search(str(error)))


def is_unreadable_rewrite(error: TypeError) -> bool:
    """Return whether Lance failed to parse its own record of a compaction."""
    return "RewrittenIndex" in str(error)


def classify_storage_error(error: BaseException) -> StorageKind:
    for kind, types in _KIND_OF_TYPE:
        if isinstance(error, types):
            return kind
    text = str(error)
    for kind, pattern in _HINTS:
        if pattern.search(text):
            return kind
    return StorageKind.UNKNOWN


def translate(error: BaseException, doing: str) -> OmniError:
    """Translate an error of Lance that occurred while `doing` something."""
    if is_conflict(error):
        return RetryableCommitConflict(
            f"{doing}: another writer was first ({_get_first_line(error)})"
        )
    line = _get_first_line(error)
    return StorageFailure(
        classify_storage_error(error),
        f"{doing}: {line}",
        is_disk_full=_DISK_FULL.search(line) is not None,
        is_file_missing=_MISSING.search(line) is not None,
    )


def translate_errors(doing: str) -> _LanceErrorTranslation:
    """Translate exceptions of Lance raised in the block."""
    return _LanceErrorTranslation(doing)


class _LanceErrorTranslation(Translating):
    __slots__ = ("_doing",)

    def __init__(self, doing: str) -> None:
        self._doing = doing

    def translation(self, error: BaseException) -> BaseException | None:
        return find_translation(error, self._doing)


def find_translation(error: BaseException, doing: str) -> OmniError | None:
    """Return the translation of an exception; None if it is to be raised unchanged."""
    if isinstance(error, OmniError):
        return None
    if isinstance(error, Exception):
        return translate(error, doing)
    # A Rust panic arrives as a BaseException of a module that cannot be imported.
    if type(error).__name__ != "PanicException":
        return None
    return StorageFailure(StorageKind.PERMANENT, f"{doing}: {_get_first_line(error)}")


def _get_first_line(error: BaseException) -> str:
    """Return the first line of an error, without the source locations Lance appends."""
    text = str(error).strip().split("\n", 1)[0]
    return re.sub(r", /[^,\s]+\.rs:\d+:\d+", "", text) or type(error).__name__

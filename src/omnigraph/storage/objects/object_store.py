"""The protocol of a store of control objects, addresses of graph roots, and its errors.

Exceptions of the operating system and of the S3 client are translated here, to `StorageFailure`, or
to `OutcomeUnknown` where a write may or may not have taken effect.
"""

from __future__ import annotations

import errno
import os
import re
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from types import TracebackType
from typing import Protocol
from urllib.parse import unquote, urlsplit

from omnigraph.errors import BadRequest, StorageFailure, StorageKind

_SCHEME = re.compile(r"([A-Za-z][A-Za-z0-9+.-]*)://")
_BUCKET = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{1,254}")


@dataclass(frozen=True, slots=True)
class LocalAddress:
    """The address of a folder."""

    path: Path

    @property
    def identity(self) -> str:
        return resolve_local_identity(self.path)


@dataclass(frozen=True, slots=True)
class S3Address:
    """The address of a bucket, or of a prefix in one."""

    bucket: str
    prefix: str

    @property
    def uri(self) -> str:
        return f"s3://{self.bucket}/{self.prefix}" if self.prefix else f"s3://{self.bucket}"

    @property
    def identity(self) -> str:
        return self.uri


Address = LocalAddress | S3Address


def resolve_local_identity(path: Path) -> str:
    """Return the absolute path, with symbolic links resolved as far as the path exists."""
    return os.path.realpath(path)


def parse_address(uri: str) -> Address:
    """Parse the address of a graph root.

    Raises:
        BadRequest: the address is not a path, `file://` or `s3://`. The message does not repeat it
        in full, since it may contain credentials.
    """
    if not uri.strip():
        raise BadRequest("the address of a graph cannot be empty")
    scheme = _SCHEME.match(uri)
    match scheme.group(1).lower() if scheme else None:
        case None:
            return LocalAddress(Path(uri).expanduser().absolute())
        case "file":
            return _parse_file(uri)
        case "s3":
            return _parse_s3(uri)
        case "http" | "https" as web:
            raise BadRequest(
                f"{web}:// names a server, and this works on storage directly: give a path, "
                "a file:// or an s3:// address, or name the server with --server"
            )
        case other:
            raise BadRequest(f"{other}:// is not supported: give a path, file:// or s3://")


def _parse_file(uri: str) -> LocalAddress:
    parts = urlsplit(uri)
    if parts.netloc not in ("", "localhost"):
        raise BadRequest("a file:// address needs an absolute path, as in file:///data/graph")
    if not parts.path or parts.query or parts.fragment:
        raise BadRequest("a file:// address consists of a path only")
    return LocalAddress(Path(unquote(parts.path)))


def _parse_s3(uri: str) -> S3Address:
    bucket, _, key = uri[len("s3://") :].partition("/")
    if "@" in bucket:
        raise BadRequest("an s3:// address must not contain credentials; set AWS_ACCESS_KEY_ID")
    if not _BUCKET.fullmatch(bucket):
        raise BadRequest("an s3:// address needs a bucket, as in s3://bucket/graph")
    segments = [segment for segment in key.split("/") if segment]
    if {".", ".."} & set(segments) or any(c in key for c in "?#\\"):
        raise BadRequest("an s3:// address must not contain '.', '..', '?', '#' or '\\'")
    return S3Address(bucket, "/".join(segments))


_TRANSIENT = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTUNREACH,
        errno.EINTR,
        errno.EMFILE,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.ENFILE,
        errno.ENOMEM,
        errno.EPIPE,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)
_CONFIGURATION = frozenset(
    {
        errno.EACCES,
        errno.EDQUOT,
        errno.EFBIG,
        errno.EINVAL,
        errno.EISDIR,
        errno.ELOOP,
        errno.EMLINK,
        errno.ENAMETOOLONG,
        errno.ENOLCK,
        errno.ENOSPC,
        errno.ENOSYS,
        errno.ENOTDIR,
        errno.ENOTSUP,
        errno.EOPNOTSUPP,
        errno.EPERM,
        errno.EROFS,
        errno.EXDEV,
    }
)
_DISK_FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
_PRECONDITION = frozenset({errno.EEXIST, errno.ENOTEMPTY})
_PERMANENT = frozenset({errno.EIO, errno.EILSEQ, errno.EBADMSG})


def classify_os_error(error: OSError) -> StorageKind:
    code = error.errno
    if isinstance(error, TimeoutError | ConnectionError) or code in _TRANSIENT:
        return StorageKind.TRANSIENT
    if code == errno.ENOENT:
        return StorageKind.NOT_FOUND
    if code in _CONFIGURATION:
        return StorageKind.CONFIGURATION
    if code in _PRECONDITION:
        return StorageKind.PRECONDITION
    return StorageKind.PERMANENT if code in _PERMANENT else StorageKind.UNKNOWN


def make_os_failure(error: OSError, action: str, uri: str) -> StorageFailure:
    """Make the failure of an `action` ("read", "write", …) at `uri`."""
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return StorageFailure(
        classify_os_error(error),
        f"cannot {action} {uri}: {reason}",
        is_disk_full=error.errno in _DISK_FULL,
    )


def translate_os_errors(action: str, uri: str) -> _OsErrorTranslation:
    """Translate errors of the operating system raised in the block."""
    return _OsErrorTranslation(action, uri)


class Translating(ABC):
    """A context manager that translates the errors raised in its block.

    Not a generator: a small commit enters some forty, and a generator costs three times as much.
    """

    __slots__ = ()

    @abstractmethod
    def translation(self, error: BaseException) -> BaseException | None:
        """Return the error to raise instead; None to raise it unchanged."""

    def __enter__(self) -> None:
        """Enter the block."""
        return

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        failure = None if error is None else self.translation(error)
        if failure is not None:
            raise failure from failure.__cause__ or error


class _OsErrorTranslation(Translating):
    __slots__ = ("_action", "_uri")

    def __init__(self, action: str, uri: str) -> None:
        self._action, self._uri = action, uri

    def translation(self, error: BaseException) -> BaseException | None:
        return (
            make_os_failure(error, self._action, self._uri) if isinstance(error, OSError) else None
        )


def make_missing_object(uri: str) -> StorageFailure:
    return StorageFailure(StorageKind.NOT_FOUND, f"cannot read {uri}: no such object")


_STATUS = re.compile(r"status code: (\d{3})")
_CODE = re.compile(r"<Code>(\w{1,60})</Code>")
_CONNECTION = re.compile(r"HttpError \{\s*kind: (\w+)")

_KIND_BY_CLASS = {
    "AlreadyExistsError": StorageKind.PRECONDITION,
    "PreconditionError": StorageKind.PRECONDITION,
    "NotModifiedError": StorageKind.PRECONDITION,
    "PermissionDeniedError": StorageKind.CONFIGURATION,
    "UnauthenticatedError": StorageKind.CONFIGURATION,
    "NotSupportedError": StorageKind.CONFIGURATION,
    "InvalidPathError": StorageKind.CONFIGURATION,
    "UnknownConfigurationKeyError": StorageKind.CONFIGURATION,
}
_CONFIGURATION_CODES = frozenset(
    {
        "AccessDenied",
        "AllAccessDisabled",
        "AuthorizationHeaderMalformed",
        "ExpiredToken",
        "InvalidAccessKeyId",
        "InvalidBucketName",
        "InvalidToken",
        "NoSuchBucket",
        "NotImplemented",
        "PermanentRedirect",
        "QuotaExceeded",
        "RequestTimeTooSkewed",
        "SignatureDoesNotMatch",
    }
)
_TRANSIENT_STATUS = frozenset({408, 409, 425, 429})


def make_s3_failure(error: Exception, action: str, uri: str) -> StorageFailure:
    """Make the failure of an `action` at `uri` from an exception of the S3 client."""
    text = str(error)
    status, code = _search_number(_STATUS, text), _search(_CODE, text)
    connection = _search(_CONNECTION, text)
    kind = _classify_s3_error(error, status, code, connection)
    return StorageFailure(
        kind, f"cannot {action} {uri}: {_describe_reason(error, status, code, connection)}"
    )


def _classify_s3_error(
    error: Exception, status: int | None, code: str | None, connection: str | None
) -> StorageKind:
    # The message of the client alone distinguishes a missing bucket, a lost connection and a busy
    # server. A missing bucket is not a missing object.
    if code in _CONFIGURATION_CODES:
        return StorageKind.CONFIGURATION
    if isinstance(error, FileNotFoundError):
        return StorageKind.NOT_FOUND
    by_class = _KIND_BY_CLASS.get(type(error).__name__)
    if by_class is not None:
        return by_class
    if status == 501:
        return StorageKind.CONFIGURATION
    if status is not None:
        is_transient = status >= 500 or status in _TRANSIENT_STATUS
        return StorageKind.TRANSIENT if is_transient else StorageKind.UNKNOWN
    if connection is not None:
        return StorageKind.PERMANENT if connection == "Decode" else StorageKind.TRANSIENT
    return classify_os_error(error) if isinstance(error, OSError) else StorageKind.UNKNOWN


def _describe_reason(
    error: Exception, status: int | None, code: str | None, connection: str | None
) -> str:
    if status is not None:
        return f"the server answered {status}" + (f" {code}" if code else "")
    if connection is not None:
        return f"no answer from the server ({connection.lower()} failed)"
    return type(error).__name__


def _search(pattern: re.Pattern[str], text: str) -> str | None:
    found = pattern.search(text)
    return found.group(1) if found else None


def _search_number(pattern: re.Pattern[str], text: str) -> int | None:
    found = _search(pattern, text)
    return int(found) if found else None


CHUNK_BYTES = 8 << 20
"""Size of the parts in which a large object is read."""


class StoreKind(StrEnum):
    LOCAL = "local"
    S3 = "s3"


@dataclass(frozen=True, slots=True)
class Versioned:
    """The bytes of an object, and the tag that identifies them in a conditional replacement.

    On disk and on S3 the tag identifies the *content*: equal bytes have equal tags. An object that
    is replaced by `put_if_match` must therefore contain a nonce fresh for every write, or a writer
    may mistake a newer state for the one it read.
    """

    data: bytes
    tag: str


class ObjectStore(Protocol):
    """Objects below one root, by relative path.

    A reader sees an object whole or not at all. An unreadable object is an error, never "absent":
    only the store can say that an object does not exist. Paths are built by
    `omnigraph.storage.layout`; the prefix `""` is the root.
    """

    @property
    def kind(self) -> StoreKind: ...

    @property
    def uri(self) -> str:
        """The root in the form that Lance accepts."""
        ...

    @property
    def identity(self) -> str:
        """One text for every spelling of this root, to key locks within a process."""
        ...

    @property
    def storage_options(self) -> Mapping[str, str]:
        """Options with which Lance reaches the root. Contains secrets: never log or store it."""
        ...

    def uri_of(self, path: str) -> str:
        """Return the address of `path` in the form that Lance accepts."""
        ...

    def get(self, path: str) -> bytes:
        """Return an object. Raises `StorageFailure(NOT_FOUND)` if it does not exist."""
        ...

    def find(self, path: str) -> bytes | None: ...

    def get_versioned(self, path: str) -> Versioned:
        """Return an object and its tag. Raises `StorageFailure(NOT_FOUND)` if it does not exist."""
        ...

    def find_versioned(self, path: str) -> Versioned | None: ...

    def chunks(self, path: str) -> Iterator[bytes]:
        """Read an object in chunks of at most `CHUNK_BYTES`, for potentially large ones.

        Raises `StorageFailure(NOT_FOUND)` if it does not exist.
        """
        ...

    def put(self, path: str, data: bytes, *, durably: bool = True) -> None:
        """Write an object, replacing an existing one; durable on return.

        Unless `durably`, it is visible at once, but a power failure may restore the previous
        content or damage it: for derived data only.
        """
        ...

    def put_chunks(self, path: str, chunks: Iterable[bytes]) -> None:
        """Write a large object in chunks; an error of the iterator leaves nothing written."""
        ...

    def put_if_absent(self, path: str, data: bytes) -> bool:
        """Create an object; False if it exists. Of concurrent callers exactly one gets True.

        Raises:
            OutcomeUnknown: the connection was lost, and the object may be of this call.
        """
        ...

    def put_if_match(self, path: str, data: bytes, tag: str) -> bool:
        """Replace an object if it still has `tag`; False if it changed or does not exist.

        Raises:
            OutcomeUnknown: the connection was lost, and the replacement may have taken effect.
        """
        ...

    def exists(self, path: str) -> bool:
        """Return whether there is an object at `path`, or any below it."""
        ...

    def list(self, prefix: str) -> tuple[str, ...]:
        """List the names of the objects directly below `prefix`, sorted; possibly none."""
        ...

    def list_prefixes(self, prefix: str) -> tuple[str, ...]:
        """Names directly below `prefix` that have objects below them, sorted."""
        ...

    def delete(self, path: str, *, durably: bool = True) -> None:
        """Remove an object, if it exists.

        Unless `durably`, a power failure may restore it. Any later durable write in the same folder
        makes the removal durable as well.
        """
        ...

    def delete_all(self, paths: Sequence[str]) -> None:
        """Remove the objects at these paths, where there are any. Not atomic; safe to repeat."""
        ...

    def delete_prefix(self, path: str) -> None:
        """Remove every object below `path`. Not atomic; safe to repeat."""
        ...


def require_path(path: str) -> str:
    """Return `path`; raise if it could lead out of the root."""
    parts = path.split("/")
    if not all(parts) or "." in parts or ".." in parts:
        raise StorageFailure(StorageKind.PERMANENT, f"not a path below a root: {path!r}")
    return path


def require_prefix(prefix: str) -> str:
    return require_path(prefix) if prefix else ""


# --- observation of writes ------------------------------------------------------------------------


class DurableWriteObserver(Protocol):
    """Notified of every durable write, before the attempt and after it took effect."""

    def before(self, action: str, path: str) -> None: ...

    def after(self, action: str, path: str) -> None: ...


_observer: DurableWriteObserver | None = None


def get_observer() -> DurableWriteObserver | None:
    """Return the observer of durable writes in this process, if one is installed."""
    return _observer


def install_observer(chosen: DurableWriteObserver | None) -> None:
    """Notify `chosen` of every durable write of stores opened from now on."""
    global _observer
    _observer = chosen


def report_write(action: str, path: str) -> AbstractContextManager[None]:
    """Report one durable write, which takes effect unless the block raises."""
    return _NOBODY if _observer is None else _tell(_observer, action, path)


_NOBODY = nullcontext()


@contextmanager
def _tell(watching: DurableWriteObserver, action: str, path: str) -> Iterator[None]:
    watching.before(action, path)
    yield
    watching.after(action, path)

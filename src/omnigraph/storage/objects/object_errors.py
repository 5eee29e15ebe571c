"""Foreign exceptions to `StorageFailure`, once for the operating system and once for S3.

Messages name the address and a reason in our words. They never repeat what a server answered:
answers to a refused request echo keys and signatures.
"""

from __future__ import annotations

import errno
import os
import re
from abc import ABC, abstractmethod
from types import TracebackType

from omnigraph.errors import StorageFailure, StorageKind

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
    """The failure of doing `action` ("read", "write", …) at `uri`."""
    reason = os.strerror(error.errno) if error.errno else type(error).__name__
    return StorageFailure(
        classify_os_error(error),
        f"cannot {action} {uri}: {reason}",
        is_disk_full=error.errno in _DISK_FULL,
    )


def translate_os_errors(action: str, uri: str) -> _OsErrorTranslation:
    """Errors of the operating system raised inside become ours."""
    return _OsErrorTranslation(action, uri)


class Translating(ABC):
    """A block out of which other errors come than were raised inside.

    No generator: a small commit enters some forty of them, and a generator costs thrice as much.
    """

    __slots__ = ()

    @abstractmethod
    def translation(self, error: BaseException) -> BaseException | None:
        """What to raise instead; None for the error as it is."""

    def __enter__(self) -> None:
        """Nothing is needed before."""
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
    """The failure of doing `action` at `uri`, from an exception of the S3 client."""
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
    # The client tells a missing bucket, a lost connection and a busy server apart in its text
    # only. A missing bucket must not pass for a missing object: the graph is not "not there yet".
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

"""Errors of storage, providers and servers: an operator must act; the outcome may be unknown."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from enum import StrEnum

from omnigraph.errors.omni_error import JsonValue, OmniError, StorageError


class StorageKind(StrEnum):
    """The kind of failure that Lance reported; none of them permits a blind retry."""

    TRANSIENT = "transient"
    CONFIGURATION = "configuration"
    NOT_FOUND = "not_found"
    PRECONDITION = "precondition"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


class StorageFailure(StorageError):
    """A store or a table could not be read or written; `kind` says why.

    `is_disk_full` is set if there was no space to write, `is_file_missing` if a file that a table
    refers to does not exist.
    """

    code = "storage_failure"

    def __init__(
        self,
        kind: StorageKind,
        message: str,
        *,
        is_disk_full: bool = False,
        is_file_missing: bool = False,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.is_disk_full, self.is_file_missing = is_disk_full, is_file_missing

    def details(self) -> Mapping[str, JsonValue]:
        return {"storage_kind": str(self.kind)}


class OutcomeUnknown(StorageError):
    code = "outcome_unknown"

    def __init__(self, what: str, source: str) -> None:
        super().__init__(
            f"{what}: the outcome is unknown ({source}); inspect the graph before trying again"
        )
        self.what, self.source = what, source


class RecoveryRequired(StorageError):
    code = "recovery_required"
    http_status = 503

    def __init__(self, operation_id: str, reason: str) -> None:
        super().__init__(f"operation {operation_id} must be recovered first: {reason}")
        self.operation_id, self.reason = operation_id, reason

    def details(self) -> Mapping[str, JsonValue]:
        return {"recovery_required": {"operation_id": self.operation_id}}


class InitializationCommitted(StorageError):
    code = "initialization_committed"

    def __init__(self, uri: str, source: str) -> None:
        super().__init__(f"the graph at {uri} was created, but then: {source}; open it")
        self.uri, self.source = uri, source


class InitializationIndeterminate(StorageError):
    code = "initialization_indeterminate"

    def __init__(self, uri: str, source: str, probe: str) -> None:
        super().__init__(
            f"it is unknown whether the graph at {uri} was created ({source}; probe: {probe}); "
            "nothing was deleted, inspect it before trying again"
        )
        self.uri, self.source, self.probe = uri, source, probe


class ManifestCorrupt(StorageError):
    code = "manifest_corrupt"


class LinkInGraph(StorageError):
    """A symbolic link inside a graph, through which nothing is written or deleted."""

    code = "link_in_graph"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is a symbolic link, and nothing inside a graph is written or deleted through "
            "links; replace it with the files it points to, if the graph is yours"
        )
        self.path = path


class FilesMissing(StorageError):
    """Files of a branch or a retained commit are missing."""

    code = "files_missing"

    def __init__(self, files: Sequence[str]) -> None:
        shown = ", ".join(files[:3]) + (f" and {len(files) - 3} more" if len(files) > 3 else "")
        super().__init__(
            f"{len(files)} files that a branch or a retained commit shows are missing: {shown}; "
            "nothing was removed. Bring them back from a backup, or retain fewer commits"
        )
        self.files = tuple(files)

    def details(self) -> Mapping[str, JsonValue]:
        return {"files_missing": list(self.files)}


class ExternalBlobSource(StorageError):
    code = "external_blob_source"
    http_status = 424

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(f"external blob '{uri}' cannot be read: {reason}")
        self.uri, self.reason = uri, reason

    def details(self) -> Mapping[str, JsonValue]:
        return {"external_blob_source": {"uri": self.uri, "reason": self.reason}}


class BlobIntegrity(StorageError):
    code = "blob_integrity"


class EmbeddingFailed(StorageError):
    code = "embedding_failed"


class ServerError(OmniError):
    """A server that the client cannot use."""

    code = "server"


class ServerUnreachable(ServerError):
    """No connection to a server, or one that was lost before the response was complete."""

    code = "server_unreachable"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"cannot talk to the server at {url}: {reason}")
        self.url, self.reason = url, reason


class UnexpectedAnswer(ServerError):
    """A response that no OmniGraph server sends; perhaps one of a proxy."""

    code = "unexpected_answer"

    def __init__(self, url: str, status: int, reason: str) -> None:
        super().__init__(f"{url} answered {status}, not as an OmniGraph server does: {reason}")
        self.url, self.status, self.reason = url, status, reason

"""How an error travels: its status, its body, and the headers that go with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph import errors

HIDDEN = (
    errors.StorageError,
    errors.GraphNotFound,
    errors.HistoricalVersionReclaimed,
    errors.AlreadyInitialized,
    errors.InitializationClaimed,
    errors.CloneUnfinished,
    errors.SchemaContractMismatch,
    errors.UncoveredDrift,
    errors.WriterBusy,
    errors.StampRefused,
    errors.MissingPackage,
    errors.InputTooLarge,
)
"""Errors whose words may name folders, buckets, files or processes of the server."""

STREAM_SLOTS = "stream_export_transport_bytes"
"""The resource that is used up while too many exports are being sent."""

SHOWN = (errors.ExternalBlobSource, errors.EmbeddingFailed)
"""Errors among them that name nothing of the server."""

_PUBLIC_WORDS: Mapping[type[errors.OmniError], str] = {
    errors.OutcomeUnknown: (
        "it is unknown whether the write was made; look it up by its idempotency key, or at the "
        "head of the branch, before sending it again"
    ),
    errors.RecoveryRequired: "an interrupted write must be recovered first",
    errors.HistoricalVersionReclaimed: "this state was removed by cleanup and cannot be read",
    errors.WriterBusy: "another writer holds the graph; try again",
    errors.UncoveredDrift: "a table was changed by something else; the operator must repair it",
    errors.GraphNotFound: "the graph no longer exists",
}


@dataclass(frozen=True, slots=True)
class ErrorAnswer:
    """What a client gets."""

    status: int
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)


def describe_error(error: BaseException, request_id: str) -> ErrorAnswer:
    """The answer to a request that failed.

    Whatever could name a place of the server, and everything nobody thought of, is replaced by
    words that do not; the log has the rest under the id of the request.
    """
    if not isinstance(error, errors.OmniError):
        return ErrorAnswer(500, _make_internal_body("internal", "internal", request_id))
    headers = _choose_headers(error)
    if isinstance(error, HIDDEN) and not isinstance(error, SHOWN):
        body = _hide(error, request_id)
    else:
        body = {**error.wire(), "request_id": request_id}
    return ErrorAnswer(error.http_status, body, headers)


def _hide(error: errors.OmniError, request_id: str) -> dict[str, object]:
    words = next((said for kind, said in _PUBLIC_WORDS.items() if isinstance(error, kind)), None)
    body = _make_internal_body(error.code, error.wire_code, request_id)
    if words is not None:
        body["error"] = words
    if isinstance(error, errors.HistoricalVersionReclaimed) and error.commit_id is not None:
        named = f"the state of commit {error.commit_id}"
        body["error"] = f"{named} was removed by cleanup and cannot be read"
    if isinstance(error, errors.RecoveryRequired):
        body.update(error.details())
    return body


def _make_internal_body(kind: str, code: str, request_id: str) -> dict[str, object]:
    words = f"internal error; the server log has the reason under request {request_id}"
    return {"error": words, "code": code, "kind": kind, "request_id": request_id}


def _choose_headers(error: errors.OmniError) -> dict[str, str]:
    match error:
        case errors.NotAuthenticated():
            return {"WWW-Authenticate": "Bearer"}
        case errors.MethodNotAllowed():
            return {"Allow": ", ".join(error.allowed)}
        case errors.TooManyRequests():
            return {"Retry-After": str(error.retry_after_s)}
        case errors.ResourceLimitExceeded() if error.resource == STREAM_SLOTS:
            return {"Retry-After": "1"}
        case errors.BlobRangeNotSatisfiable():
            return {"Content-Range": f"bytes */{error.length}"}
        case errors.BlobChanged() if error.etag is not None:
            return {"ETag": error.etag}
        case _:
            return {}

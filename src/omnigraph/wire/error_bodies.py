"""Errors on the wire: encode an error as status, body and headers, and rebuild it from a body.

A client raises the class of the error's code, with the message and the attributes the server
sent. An unknown code becomes the category that its status stands for.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any

from omnigraph import errors
from omnigraph.errors import (
    ClusterDiagnostic,
    Diagnostic,
    MergeConflict,
    OmniError,
    RowProblem,
    Violation,
)
from omnigraph.struct_decoding import convert_into

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
"""Errors whose message may name folders, buckets, files or processes of the server."""

STREAM_SLOTS = "stream_export_transport_bytes"
"""The name of the limit on concurrent exports."""

SHOWN = (errors.ExternalBlobSource, errors.EmbeddingFailed)
"""Subclasses of `HIDDEN` errors whose message names nothing of the server."""

_PUBLIC_MESSAGES: Mapping[type[errors.OmniError], str] = {
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
    """The response to a failed request: status, body and headers."""

    status: int
    body: Mapping[str, object]
    headers: Mapping[str, str] = field(default_factory=dict)


def describe_error(error: BaseException, request_id: str) -> ErrorAnswer:
    """Encode an error as a response.

    A message that could name a path of the server, and that of an unexpected exception, is
    replaced by a generic one; the log has the original under the request id.
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
    words = next((said for kind, said in _PUBLIC_MESSAGES.items() if isinstance(error, kind)), None)
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


Body = Mapping[str, Any]

_BY_STATUS: Mapping[int, type[OmniError]] = {
    400: errors.BadRequest,
    401: errors.NotAuthenticated,
    403: errors.DeniedError,
    404: errors.NotFoundError,
    409: errors.ConflictError,
    410: errors.NotFoundError,
    412: errors.ConflictError,
    413: errors.LimitError,
    429: errors.LimitError,
    504: errors.LimitError,
}
"""The error class for a code that only newer servers have, by status."""


def is_error_body(body: object) -> bool:
    """Return whether a body is an error body of an omnigraph server."""
    return isinstance(body, Mapping) and all(
        isinstance(body.get(name), str) for name in ("error", "kind")
    )


def rebuild_error(body: Body, status: int) -> OmniError:
    """Rebuild the error of a body."""
    code = str(body["kind"])
    kind = list_error_classes().get(code)
    if kind is None:
        return _make(_BY_STATUS.get(status, OmniError), str(body["error"]), {})
    return _make(kind, str(body["error"]), _FACTS.get(code, _read_facts)(body))


@cache
def list_error_classes() -> Mapping[str, type[OmniError]]:
    """Map codes to error classes; of classes that share a code, to the one that is raised."""
    found: dict[str, type[OmniError]] = {}
    for kind in _walk(OmniError):
        if kind.__module__.startswith(errors.__name__):
            found.setdefault(kind.code, kind)
    return {**found, errors.BadRequest.code: errors.BadRequest}


def _walk(kind: type[OmniError]) -> Iterator[type[OmniError]]:
    yield kind
    for one in kind.__subclasses__():
        yield from _walk(one)


def _make(kind: type[OmniError], message: str, facts: Mapping[str, object]) -> OmniError:
    """Create an error without its constructor: the message is already complete."""
    error = kind.__new__(kind)
    OmniError.__init__(error, message)
    is_partial = not facts or kind.details is not OmniError.details
    absent = dict.fromkeys(inspect.signature(kind).parameters) if is_partial else {}
    for name, value in {**absent, **facts}.items():
        if name != "message":
            setattr(error, name, value)
    return error


def _read_facts(body: Body) -> dict[str, object]:
    facts = body.get(str(body["kind"]))
    if not isinstance(facts, Mapping):
        return {}
    return {name: _freeze(value) for name, value in facts.items()}


def _freeze(value: object) -> object:
    return tuple(_freeze(one) for one in value) if isinstance(value, list) else value


def _read_member(member: str, **renamed: str) -> Callable[[Body], dict[str, object]]:
    """Return a reader of the attributes in a member; some have another name there."""

    def read(body: Body) -> dict[str, object]:
        facts = body.get(member) or {}
        return {renamed.get(name, name): _freeze(value) for name, value in facts.items()}

    return read


def join_type_key(body: Body) -> str:
    """Join the table key from its two members."""
    return f"{body['entity_kind']}:{body['type_name']}"


def _read_compile_error(body: Body) -> dict[str, object]:
    return {"diagnostics": convert_into(body["diagnostics"], tuple[Diagnostic, ...])}


def _read_cluster_error(body: Body) -> dict[str, object]:
    found = convert_into(body["diagnostics"], tuple[ClusterDiagnostic, ...])
    return {"diagnostics": found, "result": None}


def _read_rows_rejected(body: Body) -> dict[str, object]:
    rejected = body["rows_rejected"]
    problems = convert_into(rejected["rows"], tuple[RowProblem, ...])
    return {"problems": problems, "total": rejected["total"]}


def _read_constraint_violated(body: Body) -> dict[str, object]:
    violations = convert_into(body["violations"], tuple[Violation, ...])
    return {
        "violations": violations,
        "total": body["violation_count"],
        "position": body.get("position"),
    }


def _read_key_conflict(body: Body) -> dict[str, object]:
    facts = body["key_conflict"]
    positions = {name: facts.get(name) for name in ("line", "file", "first_line", "first_file")}
    return {"table_key": join_type_key(facts), "id": facts.get("entity_id"), **positions}


def _read_merge_conflicts(body: Body) -> dict[str, object]:
    conflicts = convert_into(body["merge_conflicts"], tuple[MergeConflict, ...])
    return {"doing": body.get("doing"), "conflicts": conflicts}


def _read_broken_queries(body: Body) -> dict[str, object]:
    return {"broken": tuple((one["query"], one["message"]) for one in body["broken_queries"])}


def _read_refused_diff(body: Body) -> dict[str, object]:
    facts = body["change_diff_refusal"]
    found = {"commit_id": facts["graph_commit_id"]}
    return found | ({"type_name": facts["type_name"]} if "type_name" in facts else {})


def _read_denial(body: Body) -> dict[str, object]:
    return {"hidden": (), **_read_facts(body)}


def _read_deadline(body: Body) -> dict[str, object]:
    return {"limit_s": body["deadline"]["limit_ms"] / 1000}


_FACTS: Mapping[str, Callable[[Body], dict[str, object]]] = {
    "cluster": _read_cluster_error,
    "compile_error": _read_compile_error,
    "rows_rejected": _read_rows_rejected,
    "constraint_violated": _read_constraint_violated,
    "unsupported_schema_change": _read_member("unsupported_change"),
    "expected_version_mismatch": _read_member("manifest_conflict"),
    "read_set_changed": _read_member("read_set_conflict"),
    "key_conflict": _read_key_conflict,
    "precondition_failed": _read_member("precondition_failure"),
    "merge_conflicts": _read_merge_conflicts,
    "idempotency_key_reused": _read_member("idempotency_conflict", graph_commit_id="commit_id"),
    "schema_breaks_queries": _read_broken_queries,
    "parentless_commit": _read_refused_diff,
    "schema_boundary": _read_refused_diff,
    "policy_denied": _read_denial,
    "deadline_exceeded": _read_deadline,
}

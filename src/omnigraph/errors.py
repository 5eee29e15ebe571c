"""Every error the system raises, on one page.

Sorted by what the caller can do next:

    OmniError
    ├── InputError              fix the text, the data or the request
    │   ├── CompileError            a schema or query file, with every mistake found in it
    │   ├── BadRequest              a request that cannot be carried out as asked
    │   ├── ParameterError          a query parameter missing, unknown or of the wrong type
    │   ├── RowsRejected            input rows that do not fit the schema, with their lines
    │   ├── ConstraintViolated      a write that would break a rule of the schema
    │   ├── UnsupportedSchemaChange a migration the planner refuses
    │   ├── StampRefused            a graph written by another format version
    │   ├── ExternalBlobPolicy      an external blob address that is not allowed
    │   ├── BlobRangeNotSatisfiable a byte range outside the value
    │   ├── MissingPackage          something only an optional package can do
    │   ├── ChangeCursorRejected    a change cursor that is damaged or belongs elsewhere
    │   ├── NotServed               something that cannot be done through a server
    │   └── MethodNotAllowed, NotAcceptable, UnsupportedMediaType, RequestTooSlow   over HTTP
    ├── NotFoundError           name something else
    │   ├── BranchNotFound, CommitNotFound, QueryNotFound, TypeNotFound, EntityNotFound
    │   ├── TagNotFound, ConsumerNotFound
    │   ├── BlobIsNull              an entity without a value where a blob was asked for
    │   ├── GraphNotFound           no graph at this address
    │   ├── RouteNotFound           nothing a server answers at this path
    │   ├── WriteNotFound           no write with this idempotency key
    │   └── HistoricalVersionReclaimed, ChangeFeedGap   history that cleanup removed
    ├── ConflictError           read again, then redo it
    │   ├── ExpectedVersionMismatch, ReadSetChanged, RowLevelCasContention
    │   ├── KeyConflict             an id that must be new already exists
    │   ├── PreconditionFailed      the caller's expected head is not the head
    │   ├── RetryableCommitConflict the storage layer lost a race without any effect
    │   ├── WriterBusy              another writer holds the graph
    │   ├── UncoveredDrift          a table moved outside the graph's own commits
    │   ├── AlreadyExists, AlreadyInitialized, InitializationClaimed
    │   ├── CloneUnfinished         a folder that will be a graph when a clone is finished
    │   ├── SchemaContractMismatch  stored schema, its record and the manifest disagree
    │   ├── SchemaBreaksQueries     a schema that stored queries could not run with
    │   ├── SchemaChangeBlocked     branches or tags that a change of the schema would break
    │   ├── MergeConflicts, MergeBaseUnavailable
    │   ├── IdempotencyKeyReused    the key of another request
    │   ├── BlobChanged             the blob is not the one the caller has seen
    │   └── CommitHasNoParent, ChangeSchemaBoundary
    ├── DeniedError             ask for the right
    │   ├── NotAuthenticated        no valid token
    │   └── PolicyDenied            a policy does not allow it to this actor
    ├── LimitError              ask for less
    │   ├── InputTooLarge
    │   ├── ResourceLimitExceeded
    │   ├── TooManyRequests         too much at once; try again later
    │   └── DeadlineExceeded        a query that took longer than it may
    ├── ServerError             look at the address, the network and the server
    │   ├── ServerUnreachable       no connection, or one that was lost
    │   └── UnexpectedAnswer        an answer that is not one of an OmniGraph server
    └── StorageError            call the operator; the outcome may be unknown
        ├── StorageFailure          the substrate failed, with a kind
        ├── OutcomeUnknown          it may or may not have happened: look, never retry blindly
        ├── RecoveryRequired        an interrupted write must be settled first
        ├── InitializationCommitted, InitializationIndeterminate
        ├── ManifestCorrupt         an invariant of the manifest does not hold
        ├── LinkInGraph             a symbolic link where the graph would write or delete
        ├── FilesMissing            a retained commit shows rows whose files are gone
        ├── ExternalBlobSource, BlobIntegrity
        └── EmbeddingFailed         the embedding provider did not answer properly

`code` is stable; wording is free. Every fact of an error is an attribute, and `wire()` is the
one mapping to the JSON error body, `http_status` to HTTP and `exit_code` to the shell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import ClassVar

JsonValue = object


class Severity(StrEnum):
    ERROR = "error"
    WARNING = "warning"
    INFO = "info"


@dataclass(frozen=True, slots=True)
class Diagnostic:
    """One mistake in a text, self-contained: it can be shown without the text at hand.

    `line` and `column` count from 1, in characters; `start` and `end` are character offsets.
    `line_text` is the line, or the part of a very long line around the mistake, and `caret` the
    place of the mistake in it.
    """

    code: str
    message: str
    source: str
    line: int
    column: int
    start: int
    end: int
    line_text: str
    caret: int
    stage: str = "parse"
    hint: str | None = None
    severity: Severity = Severity.ERROR

    def headline(self) -> str:
        return f"{self.stage} {self.severity}: {self.message}"

    def render(self) -> str:
        """Draw the mistake under its line of text.

        type error: T4: no edge type matches 'flies'
          --> q.gq:2:12
           |   match { $a flies $b }
           |              ^^^^^
           = help: did you mean `likes`?
        """
        width = max(1, min(self.end - self.start, len(self.line_text) - self.caret))
        lines = [
            self.headline(),
            f"  --> {self.source}:{self.line}:{self.column}",
            f"   | {self.line_text}",
            f"   | {' ' * self.caret}{'^' * width}",
        ]
        if self.hint:
            lines.append(f"   = help: {self.hint}")
        return "\n".join(lines)

    def wire(self) -> dict[str, JsonValue]:
        body: dict[str, JsonValue] = {
            "code": self.code,
            "stage": self.stage,
            "severity": str(self.severity),
            "message": self.message,
            "source": self.source,
            "line": self.line,
            "column": self.column,
            "span": {"start": self.start, "end": self.end},
            "line_text": self.line_text,
            "caret": self.caret,
        }
        if self.hint:
            body["hint"] = self.hint
        return body


class OmniError(Exception):
    """The base of every error raised on purpose."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    wire_code: ClassVar[str | None] = "internal"
    """The closed set of the wire: newer meanings ride on detail fields with no code."""
    exit_code: ClassVar[int] = 1

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def details(self) -> Mapping[str, JsonValue]:
        """The detail fields of the wire body, in addition to `error` and `code`.

        By default the facts of the error, as one member that is called like its code.
        """
        facts = {
            name: value
            for name, value in vars(self).items()
            if name != "message" and not name.startswith("_")
        }
        return {self.code: facts} if any(fact is not None for fact in facts.values()) else {}

    def wire(self) -> dict[str, JsonValue]:
        """The JSON error body shared by the CLI and the server."""
        body: dict[str, JsonValue] = {"error": self.message}
        if self.wire_code is not None:
            body["code"] = self.wire_code
        body["kind"] = self.code
        body.update(self.details())
        return body


# --- fix the text, the data or the request -----------------------------------------------------


class InputError(OmniError):
    code = "bad_request"
    http_status = 400
    wire_code: ClassVar[str | None] = "bad_request"


class CompileError(InputError):
    """A schema or query text with mistakes; all of them, in the order of the text."""

    code = "compile_error"

    def __init__(self, diagnostics: Sequence[Diagnostic]) -> None:
        assert diagnostics, "a compile error needs at least one diagnostic"
        self.diagnostics = tuple(sorted(diagnostics, key=lambda d: (d.source, d.start)))
        first, more = self.diagnostics[0], len(self.diagnostics) - 1
        position = f"{first.source}:{first.line}:{first.column}"
        rest = f" (and {more} more)" if more else ""
        super().__init__(f"{first.headline()} at {position}{rest}")

    def render(self) -> str:
        return "\n\n".join(d.render() for d in self.diagnostics)

    def details(self) -> Mapping[str, JsonValue]:
        return {"diagnostics": [d.wire() for d in self.diagnostics]}


class BadRequest(InputError):
    """A request that is understood and cannot be carried out as asked."""


class ParameterError(InputError):
    code = "parameter_error"

    def __init__(self, parameter: str, problem: str) -> None:
        super().__init__(f"param '{parameter}': {problem}")
        self.parameter, self.problem = parameter, problem

    def details(self) -> Mapping[str, JsonValue]:
        return {"parameter_error": {"parameter": self.parameter, "problem": self.problem}}


@dataclass(frozen=True, slots=True)
class RowProblem:
    """What is wrong with one input row, and where it is."""

    reason: str
    code: str
    file: str | None = None
    line: int | None = None
    type_key: str | None = None
    id: str | None = None
    property: str | None = None

    def __str__(self) -> str:
        place = f"{self.file}:" if self.file else ""
        where = f"{place}line {self.line}: " if self.line is not None else ""
        what = f"{self.type_key} " if self.type_key else ""
        which = f"'{self.id}': " if self.id is not None else ""
        return f"{where}{what}{which}{self.reason}"

    def wire(self) -> dict[str, JsonValue]:
        return {
            "reason": self.reason,
            "code": self.code,
            "file": self.file,
            "line": self.line,
            "type_key": self.type_key,
            "id": self.id,
            "property": self.property,
        }


class RowsRejected(InputError):
    """Input rows that do not fit: the first ones with their lines, and how many in all."""

    code = "rows_rejected"

    def __init__(self, problems: Sequence[RowProblem], total: int) -> None:
        assert problems, "rejecting rows needs at least one problem"
        self.problems, self.total = tuple(problems), total
        rest = f" (and {total - 1} more)" if total > 1 else ""
        super().__init__(f"{problems[0]}{rest}")

    def details(self) -> Mapping[str, JsonValue]:
        return {"rows_rejected": {"total": self.total, "rows": [p.wire() for p in self.problems]}}


class ViolationKind(StrEnum):
    """The words used for broken rules, here and in merge conflicts."""

    VALUE = "value_constraint_violation"
    UNIQUE = "unique_violation"
    ORPHAN_EDGE = "orphan_edge"
    CARDINALITY = "cardinality_violation"


@dataclass(frozen=True, slots=True)
class Violation:
    """One broken rule: which rule, on which type and row, and where the row came from."""

    kind: ViolationKind
    type_key: str
    message: str
    _: KW_ONLY
    id: str | None = None
    file: str | None = None
    line: int | None = None
    position: int | None = None
    """Where the row is in the input of a load, as long as file and line are not known."""
    source: str | None = None
    """The node whose edges were counted, where the rule is about their number."""

    def wire(self) -> dict[str, JsonValue]:
        entity_kind, _, type_name = self.type_key.partition(":")
        return {
            "kind": str(self.kind),
            "entity_kind": entity_kind,
            "type_name": type_name,
            "entity_id": self.id,
            "message": self.message,
            "file": self.file,
            "line": self.line,
        }


class ConstraintViolated(InputError):
    """A write that would break rules of the schema; the first violation is the message."""

    code = "constraint_violated"

    def __init__(self, violations: Sequence[Violation], total: int | None = None) -> None:
        assert violations, "a constraint error needs at least one violation"
        self.violations = tuple(violations)
        self.total = len(self.violations) if total is None else total
        first, rest = violations[0], f" (and {self.total - 1} more)" if self.total > 1 else ""
        where = f"line {first.line}: " if first.line is not None else ""
        super().__init__(f"{where}{first.message}{rest}")

    def details(self) -> Mapping[str, JsonValue]:
        return {"violations": [v.wire() for v in self.violations], "violation_count": self.total}


class UnsupportedSchemaChange(InputError):
    code = "unsupported_schema_change"

    def __init__(
        self, entity: str, reason: str, lint_code: str | None = None, place: str | None = None
    ) -> None:
        said = f"[{lint_code}] {reason}" if lint_code else reason
        super().__init__(f"{said} ({entity} at {place})" if place else said)
        self.entity, self.reason, self.lint_code = entity, reason, lint_code
        self.place = place
        """Where the declaration stands: file, line and column."""

    def details(self) -> Mapping[str, JsonValue]:
        change = {"entity": self.entity, "reason": self.reason, "lint_code": self.lint_code}
        if self.place is not None:
            change["place"] = self.place
        return {"unsupported_change": change}


class StampRefused(InputError):
    """A graph whose storage format this build must not read."""

    code = "stamp_refused"

    def __init__(self, message: str, found: str | None, expected: int) -> None:
        super().__init__(message)
        self.found, self.expected = found, expected

    def details(self) -> Mapping[str, JsonValue]:
        return {"stamp": {"found": self.found, "expected": self.expected}}


class ExternalBlobPolicy(InputError):
    code = "external_blob_policy"

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(f"external blob '{uri}' is not allowed: {reason}")
        self.uri, self.reason = uri, reason


class BlobRangeNotSatisfiable(InputError):
    code = "blob_range"
    http_status = 416

    def __init__(self, start: int, end: int, length: int) -> None:
        super().__init__(f"range [{start}, {end}) does not fit a value of {length} bytes")
        self.start, self.end, self.length = start, end, length

    def details(self) -> Mapping[str, JsonValue]:
        return {"blob_range": {"start": self.start, "end": self.end, "length": self.length}}


class MissingPackage(InputError):
    """Something only a package can do that is not installed."""

    code = "missing_package"

    def __init__(self, package: str, what: str, install: str | None = None) -> None:
        help_ = "" if install is None else f"; install it with `{install}`"
        super().__init__(f"{what} needs the package '{package}', which is not installed{help_}")
        self.package, self.what, self.install = package, what, install


class ChangeCursorRejected(InputError):
    code = "change_cursor_rejected"

    def __init__(self, reason: str) -> None:
        super().__init__(f"change cursor rejected: {reason}")
        self.reason = reason


class NotServed(InputError):
    """Something that can be done with a graph in storage, and not through a server."""

    code = "not_served"

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what} is not available on a served graph; {instead}")
        self.what, self.instead = what, instead


class MethodNotAllowed(InputError):
    code = "method_not_allowed"
    http_status = 405
    wire_code: ClassVar[str | None] = "method_not_allowed"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{method} is not allowed here; allowed: {', '.join(allowed)}")
        self.method, self.allowed = method, tuple(allowed)


class NotAcceptable(InputError):
    """None of the formats a client accepts is one the server has for this answer."""

    code = "not_acceptable"
    http_status = 406

    def __init__(self, accept: str, offered: Sequence[str]) -> None:
        super().__init__(f"cannot answer as '{accept}'; available: {', '.join(offered)}")
        self.accept, self.offered = accept, tuple(offered)


class UnsupportedMediaType(InputError):
    code = "unsupported_media_type"
    http_status = 415

    def __init__(self, given: str | None, expected: str) -> None:
        super().__init__(f"the content type must be {expected}, not {given or 'missing'}")
        self.given, self.expected = given, expected


class RequestTooSlow(InputError):
    """A body that did not arrive in time."""

    code = "request_too_slow"
    http_status = 408

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"the body did not arrive within {limit_s:g} s")
        self.limit_s = limit_s


# --- name something else -----------------------------------------------------------------------


class NotFoundError(OmniError):
    code = "not_found"
    http_status = 404
    wire_code: ClassVar[str | None] = "not_found"


class BranchNotFound(NotFoundError):
    code = "branch_not_found"

    def __init__(self, branch: str, help: str | None = None) -> None:
        super().__init__(f"branch '{branch}' not found{f'; {help}' if help else ''}")
        self.branch = branch


class CommitNotFound(NotFoundError):
    code = "commit_not_found"

    def __init__(self, commit_id: str) -> None:
        super().__init__(f"commit '{commit_id}' not found")
        self.commit_id = commit_id


class TagNotFound(NotFoundError):
    code = "tag_not_found"

    def __init__(self, tag: str) -> None:
        super().__init__(f"tag '{tag}' not found")
        self.tag = tag


class ConsumerNotFound(NotFoundError):
    code = "consumer_not_found"

    def __init__(self, consumer: str) -> None:
        super().__init__(f"consumer '{consumer}' not found")
        self.consumer = consumer


class QueryNotFound(NotFoundError):
    code = "query_not_found"

    def __init__(self, name: str, known: Sequence[str] = ()) -> None:
        choice = f"; the file has: {', '.join(known)}" if known else ""
        super().__init__(f"query '{name}' not found{choice}")
        self.name, self.known = name, tuple(known)


class TypeNotFound(NotFoundError):
    """A type the schema does not declare, or that a snapshot does not hold."""

    code = "type_not_found"

    def __init__(self, type_name: str, message: str | None = None) -> None:
        super().__init__(message or f"type '{type_name}' not found")
        self.type_name = type_name


class EntityNotFound(NotFoundError):
    code = "entity_not_found"

    def __init__(self, type_key: str, id: str) -> None:
        super().__init__(f"{type_key} has no entity '{id}'")
        self.type_key, self.id = type_key, id


class BlobIsNull(NotFoundError):
    """An entity without a value where a blob was asked for; an empty blob is a value."""

    code = "blob_is_null"

    def __init__(self, type_key: str, id: str, property: str) -> None:
        super().__init__(f"{type_key} '{id}' has no {property}")
        self.type_key, self.id, self.property = type_key, id, property


class GraphNotFound(NotFoundError):
    code = "graph_not_found"

    def __init__(self, uri: str) -> None:
        super().__init__(f"no graph at {uri}; create one with `omnigraph init`")
        self.uri = uri


class RouteNotFound(NotFoundError):
    code = "route_not_found"

    def __init__(self, path: str) -> None:
        super().__init__(f"there is nothing at {path}")
        self.path = path


class WriteNotFound(NotFoundError):
    """No commit was made under this idempotency key; the write may be sent again."""

    code = "write_not_found"

    def __init__(self, key: str) -> None:
        super().__init__(f"no commit was made under the idempotency key '{key}'")
        self.key = key


class HistoricalVersionReclaimed(NotFoundError):
    """A version that `cleanup` removed."""

    code = "version_reclaimed"
    http_status = 410
    wire_code = None

    def __init__(self, version: int, what: str) -> None:
        super().__init__(f"version {version} of {what} was removed by cleanup")
        self.version, self.what = version, what


class ChangeFeedGap(NotFoundError):
    code = "change_feed_gap"
    http_status = 410
    wire_code = None

    def __init__(
        self,
        cursor: str | None,
        first_unreadable_commit_id: str,
        advice: str = "start again from a baseline",
    ) -> None:
        super().__init__(
            f"the change feed has a gap: commit {first_unreadable_commit_id} can no longer be "
            f"read; {advice}"
        )
        self.cursor, self.first_unreadable_commit_id = cursor, first_unreadable_commit_id

    def details(self) -> Mapping[str, JsonValue]:
        gap = {"first_unreadable_commit_id": self.first_unreadable_commit_id}
        return {"change_feed_gap": gap | ({"cursor": self.cursor} if self.cursor else {})}


# --- read again, then redo it ------------------------------------------------------------------


class ConflictError(OmniError):
    code = "conflict"
    http_status = 409
    wire_code: ClassVar[str | None] = "conflict"


class ExpectedVersionMismatch(ConflictError):
    code = "expected_version_mismatch"

    def __init__(self, table_key: str, expected: int, actual: int) -> None:
        super().__init__(
            f"stale view of {table_key}: expected version {expected}, found {actual}; "
            "refresh and retry"
        )
        self.table_key, self.expected, self.actual = table_key, expected, actual

    def details(self) -> Mapping[str, JsonValue]:
        entity_kind, _, type_name = self.table_key.partition(":")
        return {
            "manifest_conflict": {
                "table_key": self.table_key,
                "expected": self.expected,
                "actual": self.actual,
            },
            "published_dataset_version_conflict": {
                "entity_kind": entity_kind,
                "type_name": type_name,
                "expected_published_dataset_version": self.expected,
                "actual_published_dataset_version": self.actual,
            },
        }


class ReadSetChanged(ConflictError):
    """What the operation was prepared on is no longer there; nothing was changed."""

    code = "read_set_changed"

    def __init__(self, member: str, expected: str | None, actual: str | None) -> None:
        super().__init__(
            f"{member} changed from {expected or 'nothing'} to {actual or 'nothing'} "
            "while the operation was being prepared; read it again and retry"
        )
        self.member, self.expected, self.actual = member, expected, actual

    def details(self) -> Mapping[str, JsonValue]:
        change = {"member": self.member, "expected": self.expected, "actual": self.actual}
        return {"read_set_conflict": change}


class RowLevelCasContention(ConflictError):
    code = "cas_contention"

    def __init__(self, attempts: int) -> None:
        super().__init__(f"another writer published first, {attempts} times in a row; retry")
        self.attempts = attempts


class KeyConflict(ConflictError):
    code = "key_conflict"

    def __init__(self, table_key: str, id: str | None, line: int | None = None) -> None:
        where = f"line {line}: " if line is not None else ""
        entity = f" '{id}'" if id is not None else ""
        super().__init__(f"{where}{table_key}{entity} already has this id")
        self.table_key, self.id, self.line = table_key, id, line

    def details(self) -> Mapping[str, JsonValue]:
        entity_kind, _, type_name = self.table_key.partition(":")
        return {
            "key_conflict": {
                "entity_kind": entity_kind,
                "type_name": type_name,
                "entity_id": self.id,
                **({} if self.line is None else {"line": self.line}),
            }
        }


class PreconditionFailed(ConflictError):
    code = "precondition_failed"
    http_status = 412
    wire_code = None
    exit_code = 4

    def __init__(self, branch: str, expected: str, actual: str | None) -> None:
        super().__init__(
            f"branch '{branch}' is at commit {actual or 'none'}, not at the expected {expected}"
        )
        self.branch, self.expected, self.actual = branch, expected, actual

    def details(self) -> Mapping[str, JsonValue]:
        facts = {"branch": self.branch, "expected": self.expected, "actual": self.actual}
        return {"precondition_failure": facts}


@dataclass(frozen=True, slots=True)
class MergeConflict:
    """One reason why two states cannot be merged, with the entity as the three sides have it.

    `kind` is `divergent_insert`, `divergent_update` or `delete_vs_update` where the sides
    contradict each other, and a `ViolationKind` where together they would break a rule.
    """

    kind: str
    type_key: str
    message: str
    id: str | None = None
    base: Mapping[str, JsonValue] | None = None
    source: Mapping[str, JsonValue] | None = None
    target: Mapping[str, JsonValue] | None = None

    def wire(self) -> dict[str, JsonValue]:
        entity_kind, _, type_name = self.type_key.partition(":")
        sides = {"base": self.base, "source": self.source, "target": self.target}
        return {
            "entity_kind": entity_kind,
            "type_name": type_name,
            "entity_id": self.id,
            "kind": self.kind,
            "message": self.message,
            **{side: None if row is None else dict(row) for side, row in sides.items()},
        }


class MergeConflicts(ConflictError):
    """Two states contradict each other, or would break rules together; nothing was changed.

    Raised by merges, reverts and cherry-picks.
    """

    code = "merge_conflicts"

    def __init__(self, doing: str, conflicts: Sequence[MergeConflict]) -> None:
        assert conflicts, "a merge without conflicts is no error"
        self.doing, self.conflicts = doing, tuple(conflicts)
        first = "; ".join(conflict.message for conflict in conflicts[:3])
        rest = f"; +{len(conflicts) - 3} more" if len(conflicts) > 3 else ""
        count = "1 conflict" if len(conflicts) == 1 else f"{len(conflicts)} conflicts"
        super().__init__(
            f"{doing} has {count}: {first}{rest}. Nothing was changed; "
            "a dry run lists them; resolve rules and decisions settle them"
        )

    def details(self) -> Mapping[str, JsonValue]:
        conflicts = [conflict.wire() for conflict in self.conflicts]
        return {"doing": self.doing, "merge_conflicts": conflicts}


class MergeBaseUnavailable(ConflictError):
    """A state from which changes are told was cleaned away: a merge base, or a commit to undo."""

    code = "merge_base_unavailable"

    def __init__(self, commit_id: str) -> None:
        super().__init__(
            f"the state at commit {commit_id}, from which changes would be told, was reclaimed by "
            "cleanup; keep more commits or tag those you need, and load exported records instead"
        )
        self.commit_id = commit_id


class IdempotencyKeyReused(ConflictError):
    """An idempotency key that another request was made with."""

    code = "idempotency_key_reused"

    def __init__(self, key: str, commit_id: str) -> None:
        super().__init__(
            f"the idempotency key '{key}' belongs to another request, which made commit "
            f"{commit_id}; use a new key for a new request"
        )
        self.key, self.commit_id = key, commit_id

    def details(self) -> Mapping[str, JsonValue]:
        return {"idempotency_conflict": {"key": self.key, "graph_commit_id": self.commit_id}}


class BlobChanged(ConflictError):
    """A blob is not the one that a conditional request was made for."""

    code = "blob_changed"
    http_status = 412

    def __init__(self, etag: str | None) -> None:
        now = f"its ETag is {etag}" if etag else "it has no value"
        super().__init__(f"the blob is not the expected one: {now}; read it again")
        self.etag = etag


class RetryableCommitConflict(ConflictError):
    code = "retryable_commit_conflict"


class WriterBusy(ConflictError):
    code = "writer_busy"

    def __init__(self, holder: str, waited_s: float) -> None:
        super().__init__(f"another writer holds the graph ({holder}); waited {waited_s:g} s")
        self.holder, self.waited_s = holder, waited_s


class UncoveredDrift(ConflictError):
    """A table is ahead of the manifest and no pending intent explains it."""

    code = "uncovered_drift"

    def __init__(self, table_key: str, manifest_version: int, lance_head_version: int) -> None:
        super().__init__(
            f"{table_key} is at version {lance_head_version} while the graph is at "
            f"{manifest_version}, and no pending write explains it; run `omnigraph repair`"
        )
        self.table_key = table_key
        self.manifest_version, self.lance_head_version = manifest_version, lance_head_version


class AlreadyExists(ConflictError):
    code = "already_exists"


class AlreadyInitialized(ConflictError):
    code = "already_initialized"

    def __init__(self, uri: str, found: str) -> None:
        super().__init__(f"{uri} already holds a graph ({found} exists)")
        self.uri, self.found = uri, found


class InitializationClaimed(ConflictError):
    code = "initialization_claimed"

    def __init__(self, uri: str, attempt_id: str) -> None:
        super().__init__(
            f"another initialization of {uri} holds the claim {attempt_id}; if that process is "
            "gone for good, remove __init_claim.json and try again"
        )
        self.uri, self.attempt_id = uri, attempt_id


class CloneUnfinished(ConflictError):
    code = "clone_unfinished"

    def __init__(self, uri: str, source: str) -> None:
        super().__init__(
            f"{uri} holds a part of a clone of {source}, which is under way or was interrupted; "
            "if nothing is copying any more, run the clone again with --force"
        )
        self.uri, self.source = uri, source


class SchemaContractMismatch(ConflictError):
    code = "schema_contract_mismatch"


class SchemaBreaksQueries(ConflictError):
    """A change of the schema that stored queries could not run with; nothing was changed."""

    code = "schema_breaks_queries"

    def __init__(self, broken: Sequence[tuple[str, str]]) -> None:
        assert broken, "a schema that breaks nothing is no error"
        first, more = broken[0], len(broken) - 1
        rest = f" (and {more} more)" if more else ""
        super().__init__(
            f"the schema would break the stored query '{first[0]}'{rest}: {first[1]}; "
            "change the query first, or remove it"
        )
        self.broken = tuple(broken)

    def details(self) -> Mapping[str, JsonValue]:
        return {"broken_queries": [{"query": name, "message": text} for name, text in self.broken]}


class SchemaChangeBlocked(ConflictError):
    """A change of the schema that other branches could not follow, or that tags speak against."""

    code = "schema_change_blocked"

    def __init__(
        self, steps: Sequence[str], branches: Sequence[str] = (), tags: Sequence[str] = ()
    ) -> None:
        names = [f"branch '{name}'" for name in branches] + [f"tag '{name}'" for name in tags]
        super().__init__(
            f"cannot {steps[0]} while there is {', '.join(names)}; "
            f"{'merge or delete the branches' if branches else 'delete the tags'} first"
        )
        self.steps, self.branches, self.tags = tuple(steps), tuple(branches), tuple(tags)

    def details(self) -> Mapping[str, JsonValue]:
        blocked = {"steps": list(self.steps), "branches": list(self.branches)}
        return {"schema_change_blocked": {**blocked, "tags": list(self.tags)}}


class CommitHasNoParent(ConflictError):
    code = "parentless_commit"

    def __init__(self, commit_id: str) -> None:
        super().__init__(f"commit {commit_id} has no parent to compare with")
        self.commit_id = commit_id

    def details(self) -> Mapping[str, JsonValue]:
        refusal = {"reason": "parentless_commit", "graph_commit_id": self.commit_id}
        return {"change_diff_refusal": refusal}


class ChangeSchemaBoundary(ConflictError):
    code = "schema_boundary"

    def __init__(self, commit_id: str, type_name: str, advice: str | None = None) -> None:
        text = f"the schema of {type_name} changed at commit {commit_id}"
        super().__init__(text if advice is None else f"{text}; {advice}")
        self.commit_id, self.type_name = commit_id, type_name

    def details(self) -> Mapping[str, JsonValue]:
        return {
            "change_diff_refusal": {
                "reason": "schema_boundary",
                "graph_commit_id": self.commit_id,
                "type_name": self.type_name,
            }
        }


# --- ask for the right -------------------------------------------------------------------------


class DeniedError(OmniError):
    code = "forbidden"
    http_status = 403
    wire_code: ClassVar[str | None] = "forbidden"


class NotAuthenticated(DeniedError):
    """A request without a token, or with one that is unknown or expired."""

    code = "unauthorized"
    http_status = 401
    wire_code: ClassVar[str | None] = "unauthorized"


class PolicyDenied(DeniedError):
    """A policy does not allow it: the action, or a type or property that it would read."""

    code = "policy_denied"

    def __init__(
        self,
        message: str,
        *,
        actor: str | None,
        action: str,
        branch: str | None = None,
        target_branch: str | None = None,
        query: str | None = None,
        hidden: Sequence[str] = (),
    ) -> None:
        super().__init__(message)
        self.actor, self.action = actor, action
        self.branch, self.target_branch, self.query = branch, target_branch, query
        self.hidden = tuple(hidden)
        """The types and properties that the actor may not see."""

    def details(self) -> Mapping[str, JsonValue]:
        optional = {
            "branch": self.branch,
            "target_branch": self.target_branch,
            "query": self.query,
            "hidden": list(self.hidden) or None,
        }
        facts = {name: value for name, value in optional.items() if value is not None}
        return {"policy_denied": {"action": str(self.action), "actor": self.actor, **facts}}


# --- ask for less ------------------------------------------------------------------------------


class LimitError(OmniError):
    code = "limit"
    http_status = 413
    wire_code: ClassVar[str | None] = "bad_request"


class ResourceLimitExceeded(LimitError):
    code = "resource_limit"

    def __init__(self, resource: str, limit: int, actual: int) -> None:
        super().__init__(f"{resource}: {actual} exceeds the limit of {limit}")
        self.resource, self.limit, self.actual = resource, limit, actual

    def details(self) -> Mapping[str, JsonValue]:
        limit = {"resource": self.resource, "limit": self.limit, "actual": self.actual}
        return {"resource_limit": limit}


class TooManyRequests(LimitError):
    """More requests at once than are admitted; nothing was done."""

    code = "too_many_requests"
    http_status = 429
    wire_code: ClassVar[str | None] = "too_many_requests"

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(f"{message}; try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class DeadlineExceeded(LimitError):
    """A query that took longer than it may; nothing was changed."""

    code = "deadline_exceeded"
    http_status = 504
    wire_code = None

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"the query took longer than {limit_s:g} s and was ended")
        self.limit_s = limit_s

    def details(self) -> Mapping[str, JsonValue]:
        return {"deadline": {"limit_ms": int(self.limit_s * 1000)}}


class InputTooLarge(LimitError):
    """A compressed file expands to more than a limit allows; `setting` raises the limit."""

    code = "input_too_large"

    def __init__(self, file: str, reason: str, setting: str) -> None:
        super().__init__(f"{file} {reason}; {setting} raises the limit, and 0 removes it")
        self.file, self.setting = file, setting


# --- look at the address, the network and the server -------------------------------------------


class ServerError(OmniError):
    """A server that a client cannot talk to."""

    code = "server"


class ServerUnreachable(ServerError):
    """No connection to a server, or one that was lost before the answer was complete."""

    code = "server_unreachable"

    def __init__(self, url: str, reason: str) -> None:
        super().__init__(f"cannot talk to the server at {url}: {reason}")
        self.url, self.reason = url, reason


class UnexpectedAnswer(ServerError):
    """An answer no OmniGraph server gives; perhaps one of something in between."""

    code = "unexpected_answer"

    def __init__(self, url: str, status: int, reason: str) -> None:
        super().__init__(f"{url} answered {status}, not as an OmniGraph server does: {reason}")
        self.url, self.status, self.reason = url, status, reason


# --- call the operator -------------------------------------------------------------------------


class StorageError(OmniError):
    code = "storage"


class StorageKind(StrEnum):
    """What sort of failure the substrate reported; none of them permits a blind replay."""

    TRANSIENT = "transient"
    CONFIGURATION = "configuration"
    NOT_FOUND = "not_found"
    PRECONDITION = "precondition"
    PERMANENT = "permanent"
    UNKNOWN = "unknown"


class StorageFailure(StorageError):
    code = "storage_failure"

    def __init__(self, kind: StorageKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind

    @property
    def is_disk_full(self) -> bool:
        """Whether there was no room; the substrate has no other way to tell than its words."""
        words = self.message.lower()
        return "no space left" in words or "quota exceeded" in words

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
    wire_code = None

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
    """Nothing is written or deleted through a link inside a graph: it may lead anywhere."""

    code = "link_in_graph"

    def __init__(self, path: str) -> None:
        super().__init__(
            f"{path} is a symbolic link, and nothing inside a graph is written or deleted through "
            "links; replace it with the files it points to, if the graph is yours"
        )
        self.path = path


class FilesMissing(StorageError):
    """Files that a branch or a retained commit shows are not there."""

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
    wire_code = None

    def __init__(self, uri: str, reason: str) -> None:
        super().__init__(f"external blob '{uri}' cannot be read: {reason}")
        self.uri, self.reason = uri, reason

    def details(self) -> Mapping[str, JsonValue]:
        return {"external_blob_source": {"uri": self.uri, "reason": self.reason}}


class BlobIntegrity(StorageError):
    code = "blob_integrity"


class EmbeddingFailed(StorageError):
    code = "embedding_failed"

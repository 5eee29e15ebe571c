"""Errors of the request itself: correct it, obtain the right, or request less."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from omnigraph.errors.omni_error import (
    DeniedError,
    Diagnostic,
    InputError,
    JsonValue,
    LimitError,
    RowProblem,
    Severity,
    Violation,
    render_position,
)
from omnigraph.result import Result


class CompileError(InputError):
    """A schema or query text with errors; all of them, in the order of the text."""

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
    """A valid request that cannot be executed."""


class BadOptions(BadRequest):
    """Options of a call that are invalid, or contradict each other or the input."""

    code = "bad_options"
    exit_code = 2


class ParameterError(InputError):
    code = "parameter_error"

    def __init__(self, parameter: str, problem: str) -> None:
        super().__init__(f"param '{parameter}': {problem}")
        self.parameter, self.problem = parameter, problem

    def details(self) -> Mapping[str, JsonValue]:
        return {"parameter_error": {"parameter": self.parameter, "problem": self.problem}}


class RowsRejected(InputError):
    """Invalid input rows: the first ones with their lines, and the number of all."""

    code = "rows_rejected"

    def __init__(self, problems: Sequence[RowProblem], total: int) -> None:
        assert problems, "rejecting rows needs at least one problem"
        self.problems, self.total = tuple(problems), total
        rest = f" (and {total - 1} more)" if total > 1 else ""
        super().__init__(f"{problems[0]}{rest}")

    def details(self) -> Mapping[str, JsonValue]:
        return {"rows_rejected": {"total": self.total, "rows": [p.wire() for p in self.problems]}}


class ConstraintViolated(InputError):
    """A write that would break rules of the schema; the message is that of the first violation.

    With a `position`, stored rows break a rule of another schema, which declares it there.
    """

    code = "constraint_violated"

    def __init__(
        self, violations: Sequence[Violation], total: int | None = None, position: str | None = None
    ) -> None:
        assert violations, "a constraint error needs at least one violation"
        self.violations = tuple(violations)
        self.total = len(self.violations) if total is None else total
        self.position = position
        """The file, line and column of the declaration that the first violation breaks."""
        first, rest = violations[0], f" (and {self.total - 1} more)" if self.total > 1 else ""
        advice = f"; {position} demands it: change these rows first" if position else ""
        where = render_position(first.file, first.line)
        super().__init__(f"{where}{first.message}{rest}{advice}")

    def details(self) -> Mapping[str, JsonValue]:
        listed = [violation.wire() for violation in self.violations]
        declared = {} if self.position is None else {"position": self.position}
        return {"violations": listed, "violation_count": self.total, **declared}


class UnsupportedSchemaChange(InputError):
    code = "unsupported_schema_change"

    def __init__(
        self, entity: str, reason: str, lint_code: str | None = None, position: str | None = None
    ) -> None:
        said = f"[{lint_code}] {reason}" if lint_code else reason
        super().__init__(f"{said} ({entity} at {position})" if position else said)
        self.entity, self.reason, self.lint_code = entity, reason, lint_code
        self.position = position
        """The file, line and column of the declaration."""

    def details(self) -> Mapping[str, JsonValue]:
        change = {"entity": self.entity, "reason": self.reason, "lint_code": self.lint_code}
        if self.position is not None:
            change["position"] = self.position
        return {"unsupported_change": change}


class BadExpression(BadRequest):
    """An expression that yields no value of the property for existing rows."""

    code = "bad_expression"

    def __init__(
        self, property: str, expression: str, reason: str, position: str | None = None
    ) -> None:
        where = f" ({position})" if position else ""
        super().__init__(f"cannot compute {property}{where} as {expression!r}: {reason}")
        self.property, self.expression, self.reason = property, expression, reason
        self.position = position
        """The file, line and column of the declaration of the property."""


class SchemaDropsEverything(InputError):
    """A schema without any type of the graph, such as a wrong or an empty file."""

    code = "schema_drops_everything"

    def __init__(self, types: Sequence[str], rows: int, position: str) -> None:
        super().__init__(
            f"{position} has none of the types of the graph: applying it would drop "
            f"{', '.join(types)} with {rows} rows. A type that has another name needs "
            "@rename_from; to drop them all, give allow_drop_all (--allow-drop-all)"
        )
        self.types, self.rows, self.position = tuple(types), rows, position


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
    """A feature whose optional package is not installed."""

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
    """An operation that a graph in storage supports, and a served one does not."""

    code = "not_served"

    def __init__(self, what: str, instead: str) -> None:
        super().__init__(f"{what} is not available on a served graph; {instead}")
        self.what, self.instead = what, instead


class MethodNotAllowed(InputError):
    code = "method_not_allowed"
    http_status = 405
    wire_code: ClassVar[str] = "method_not_allowed"

    def __init__(self, method: str, allowed: Sequence[str]) -> None:
        super().__init__(f"{method} is not allowed here; allowed: {', '.join(allowed)}")
        self.method, self.allowed = method, tuple(allowed)


class NotAcceptable(InputError):
    """A response format that the client accepts is not available."""

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
    """A request body that did not arrive in time."""

    code = "request_too_slow"
    http_status = 408

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"the body did not arrive within {limit_s:g} s")
        self.limit_s = limit_s


class ClusterDiagnostic(Result, frozen=True):
    """One finding about a cluster: `path` names a position in a file, a control file or a resource.

    >>> str(ClusterDiagnostic("state_missing", Severity.ERROR, "state.json", "there is no ledger"))
    'ERROR  state_missing state.json: there is no ledger'
    """

    code: str
    severity: Severity
    path: str
    message: str

    @property
    def is_error(self) -> bool:
        return self.severity is Severity.ERROR

    def __str__(self) -> str:
        word = "ERROR" if self.is_error else "WARN"
        return f"{word:<5}  {self.code} {self.path}: {self.message}"


class ClusterError(InputError):
    """A cluster that cannot be read, planned or changed, with all errors found."""

    code = "cluster"

    def __init__(
        self, diagnostics: Sequence[ClusterDiagnostic], result: object | None = None
    ) -> None:
        errors = [one for one in diagnostics if one.is_error]
        assert errors, "warnings alone are no error"
        rest = f" (+{len(errors) - 1} more)" if len(errors) > 1 else ""
        super().__init__(f"{errors[0].path}: {errors[0].message} [{errors[0].code}]{rest}")
        self.diagnostics = tuple(diagnostics)
        self.result = result
        """The result in spite of the error: the plan with its mistakes, the partial apply."""

    @property
    def codes(self) -> tuple[str, ...]:
        return tuple(one.code for one in self.diagnostics)

    def details(self) -> Mapping[str, JsonValue]:
        return {"diagnostics": [one.wire() for one in self.diagnostics]}


class NotAuthenticated(DeniedError):
    """A request without a token, or with one that is unknown or expired."""

    code = "unauthorized"
    http_status = 401
    wire_code: ClassVar[str] = "unauthorized"


class PolicyDenied(DeniedError):
    """An action, or a type or property it would read, that a policy denies."""

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
        """The types and properties that are hidden from the actor."""

    def details(self) -> Mapping[str, JsonValue]:
        optional = {
            "branch": self.branch,
            "target_branch": self.target_branch,
            "query": self.query,
            "hidden": list(self.hidden) or None,
        }
        facts = {name: value for name, value in optional.items() if value is not None}
        return {"policy_denied": {"action": str(self.action), "actor": self.actor, **facts}}


class ResourceLimitExceeded(LimitError):
    code = "resource_limit"

    def __init__(self, resource: str, limit: int, actual: int) -> None:
        super().__init__(f"{resource}: {actual} exceeds the limit of {limit}")
        self.resource, self.limit, self.actual = resource, limit, actual

    def details(self) -> Mapping[str, JsonValue]:
        limit = {"resource": self.resource, "limit": self.limit, "actual": self.actual}
        return {"resource_limit": limit}


class TooManyRequests(LimitError):
    """More concurrent requests than are admitted; nothing was done."""

    code = "too_many_requests"
    http_status = 429
    wire_code: ClassVar[str] = "too_many_requests"

    def __init__(self, message: str, retry_after_s: int) -> None:
        super().__init__(f"{message}; try again in {retry_after_s} s")
        self.retry_after_s = retry_after_s


class ServerBusy(TooManyRequests):
    """More concurrent requests of all actors than the server accepts; nothing was done."""

    code = "server_busy"
    http_status = 503
    wire_code: ClassVar[str] = "too_many_requests"


class DeadlineExceeded(LimitError):
    """A query that exceeded its deadline; nothing was changed."""

    code = "deadline_exceeded"
    http_status = 504

    def __init__(self, limit_s: float) -> None:
        super().__init__(f"the query took longer than {limit_s:g} s and was ended")
        self.limit_s = limit_s

    def details(self) -> Mapping[str, JsonValue]:
        return {"deadline": {"limit_ms": int(self.limit_s * 1000)}}


class InputTooLarge(LimitError):
    """A compressed file that expands beyond a limit; `setting` is its variable."""

    code = "input_too_large"

    def __init__(self, file: str, reason: str, setting: str) -> None:
        super().__init__(f"{file} {reason}; {setting} raises the limit, and 0 removes it")
        self.file, self.setting = file, setting

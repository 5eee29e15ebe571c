"""Errors to mend by fixing the text, the data or the request."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import ClassVar

from omnigraph.errors.error_details import Diagnostic, RowProblem, Violation, render_place
from omnigraph.errors.omni_error import InputError, JsonValue


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


class BadOptions(BadRequest):
    """Options of a call that mean nothing, or that contradict each other or the input."""

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
    """Input rows that do not fit: the first ones with their lines, and how many in all."""

    code = "rows_rejected"

    def __init__(self, problems: Sequence[RowProblem], total: int) -> None:
        assert problems, "rejecting rows needs at least one problem"
        self.problems, self.total = tuple(problems), total
        rest = f" (and {total - 1} more)" if total > 1 else ""
        super().__init__(f"{problems[0]}{rest}")

    def details(self) -> Mapping[str, JsonValue]:
        return {"rows_rejected": {"total": self.total, "rows": [p.wire() for p in self.problems]}}


class ConstraintViolated(InputError):
    """A write that would break rules of the schema; the first violation is the message.

    With a `place`, rows that are there break what another schema demands, and it demands it there.
    """

    code = "constraint_violated"

    def __init__(
        self, violations: Sequence[Violation], total: int | None = None, place: str | None = None
    ) -> None:
        assert violations, "a constraint error needs at least one violation"
        self.violations = tuple(violations)
        self.total = len(self.violations) if total is None else total
        self.place = place
        """Where the schema demands what the first violation breaks: file, line and column."""
        first, rest = violations[0], f" (and {self.total - 1} more)" if self.total > 1 else ""
        advice = f"; {place} demands it: change these rows first" if place else ""
        where = render_place(first.file, first.line)
        super().__init__(f"{where}{first.message}{rest}{advice}")

    def details(self) -> Mapping[str, JsonValue]:
        listed = [violation.wire() for violation in self.violations]
        place = {} if self.place is None else {"place": self.place}
        return {"violations": listed, "violation_count": self.total, **place}


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


class BadExpression(BadRequest):
    """An expression that gives existing rows no values for a property of another schema."""

    code = "bad_expression"

    def __init__(
        self, property: str, expression: str, reason: str, place: str | None = None
    ) -> None:
        where = f" ({place})" if place else ""
        super().__init__(f"cannot compute {property}{where} as {expression!r}: {reason}")
        self.property, self.expression, self.reason = property, expression, reason
        self.place = place
        """Where the schema declares the property: file, line and column."""


class SchemaDropsEverything(InputError):
    """A schema that has none of the types of the graph, as a wrong or an empty file has."""

    code = "schema_drops_everything"

    def __init__(self, types: Sequence[str], rows: int, place: str) -> None:
        super().__init__(
            f"{place} has none of the types of the graph: applying it would drop "
            f"{', '.join(types)} with {rows} rows. A type that has another name needs "
            "@rename_from; to drop them all, give allow_drop_all (--allow-drop-all)"
        )
        self.types, self.rows, self.place = tuple(types), rows, place


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
    wire_code: ClassVar[str] = "method_not_allowed"

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

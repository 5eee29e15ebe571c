"""The base of every error, its kinds by what the caller can do next, and the details reported."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import KW_ONLY, dataclass
from enum import StrEnum
from typing import ClassVar

JsonValue = object


class OmniError(Exception):
    """The base of every error raised on purpose."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    wire_code: ClassVar[str] = "internal"
    """The closed set of the wire: newer meanings ride on detail fields with no code."""
    exit_code: ClassVar[int] = 1

    __module__ = "omnigraph.errors"
    """Where users import errors from, and so what tracebacks name."""

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith("omnigraph.errors."):
            cls.__module__ = "omnigraph.errors"

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
        body: dict[str, JsonValue] = {
            "error": self.message,
            "code": self.wire_code,
            "kind": self.code,
        }
        body.update(self.details())
        return body


class InputError(OmniError):
    code = "bad_request"
    http_status = 400
    wire_code: ClassVar[str] = "bad_request"


class NotFoundError(OmniError):
    code = "not_found"
    http_status = 404
    wire_code: ClassVar[str] = "not_found"


class ConflictError(OmniError):
    code = "conflict"
    http_status = 409
    wire_code: ClassVar[str] = "conflict"


class DeniedError(OmniError):
    code = "forbidden"
    http_status = 403
    wire_code: ClassVar[str] = "forbidden"


class LimitError(OmniError):
    code = "limit"
    http_status = 413
    wire_code: ClassVar[str] = "bad_request"


class StorageError(OmniError):
    code = "storage"


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


def render_place(file: str | None, line: int | None) -> str:
    """Return the origin of a row as a prefix of a message; empty if unknown."""
    if line is None:
        return ""
    return f"{file}:line {line}: " if file else f"line {line}: "


def render_both_places(first_file: str | None, first_line: int, file: str | None, line: int) -> str:
    """Return the origins of two rows: `a.csv line 2 and b.csv line 7`."""
    first = f"{first_file} line {first_line}" if first_file else f"line {first_line}"
    second = f"{file} line {line}" if file and file != first_file else f"line {line}"
    return f"{first} and {second}"


@dataclass(frozen=True, slots=True)
class RowProblem:
    """A mistake in one input row, and the place of the row."""

    reason: str
    code: str
    file: str | None = None
    line: int | None = None
    type_key: str | None = None
    id: str | None = None
    property: str | None = None

    def __str__(self) -> str:
        where = render_place(self.file, self.line)
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
    other_position: int | None = None
    """The same of the row before it that it contradicts."""
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

"""The base of every error, its kinds by what the caller can do next, and the details reported."""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import ClassVar

import msgspec

from omnigraph.result import Result

JsonValue = object


class OmniError(Exception):
    """The base of every error that the engine raises on purpose."""

    code: ClassVar[str] = "internal"
    http_status: ClassVar[int] = 500
    wire_code: ClassVar[str] = "internal"
    """The closed set of codes on the wire; newer errors are distinguished by `kind`."""
    exit_code: ClassVar[int] = 1

    __module__ = "omnigraph.errors"
    """The module users import errors from, as tracebacks show it."""

    def __init_subclass__(cls) -> None:
        if cls.__module__.startswith("omnigraph.errors."):
            cls.__module__ = "omnigraph.errors"

    def __init__(self, message: str) -> None:
        super().__init__(message)
        self.message = message

    def details(self) -> Mapping[str, JsonValue]:
        """Return the detail fields of the wire body, besides `error` and `code`.

        By default the attributes of the error, as one member named like its code.
        """
        facts = {
            name: value
            for name, value in vars(self).items()
            if name != "message" and not name.startswith("_")
        }
        return {self.code: facts} if any(fact is not None for fact in facts.values()) else {}

    def wire(self) -> dict[str, JsonValue]:
        """Return the JSON error body shared by the CLI and the server."""
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


class TextRange(Result, frozen=True):
    """A part of a text, as character offsets."""

    start: int
    end: int


class Diagnostic(Result, frozen=True, kw_only=True):
    """One mistake in a text, self-contained: it can be rendered without the text.

    `line` and `column` count from 1, in characters. `line_text` is the line, or the part of a very
    long line around the mistake, and `caret` the position of the mistake in it.
    """

    code: str
    stage: str
    severity: Severity
    message: str
    source: str
    line: int
    column: int
    span: TextRange
    line_text: str
    caret: int
    hint: str | None = None

    @property
    def start(self) -> int:
        return self.span.start

    @property
    def end(self) -> int:
        return self.span.end

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


def render_position(file: str | None, line: int | None) -> str:
    """Return the origin of a row as a prefix of a message; empty if unknown."""
    if line is None:
        return ""
    return f"{file}:line {line}: " if file else f"line {line}: "


def render_both_positions(
    first_file: str | None, first_line: int, file: str | None, line: int
) -> str:
    """Return the origins of two rows: `a.csv line 2 and b.csv line 7`."""
    first = f"{first_file} line {first_line}" if first_file else f"line {first_line}"
    second = f"{file} line {line}" if file and file != first_file else f"line {line}"
    return f"{first} and {second}"


class RowProblem(Result, frozen=True, omit_defaults=False):
    """A mistake in one input row, and the position of the row."""

    reason: str
    code: str
    file: str | None = None
    line: int | None = None
    type_key: str | None = None
    id: str | None = None
    property: str | None = None

    def __str__(self) -> str:
        where = render_position(self.file, self.line)
        what = f"{self.type_key} " if self.type_key else ""
        which = f"'{self.id}': " if self.id is not None else ""
        return f"{where}{what}{which}{self.reason}"


class ViolationKind(StrEnum):
    """The kinds of broken rules, here and in merge conflicts."""

    VALUE = "value_constraint_violation"
    UNIQUE = "unique_violation"
    ORPHAN_EDGE = "orphan_edge"
    CARDINALITY = "cardinality_violation"


class Violation(Result, frozen=True, kw_only=True):
    """One broken rule: its kind, the type, the row, and the origin of the row."""

    attributes: ClassVar[tuple[str, ...]] = ("position", "other_position", "source")

    kind: ViolationKind
    entity_kind: str
    type_name: str
    id: str | None = msgspec.field(name="entity_id")
    message: str
    file: str | None
    line: int | None
    position: int | None = None
    """The position of the row in the input of a load, until file and line are known."""
    other_position: int | None = None
    """The position of the earlier row that it contradicts."""
    source: str | None = None
    """The node whose edges were counted, for a rule about their number."""

    @classmethod
    def of(
        cls,
        kind: ViolationKind,
        type_key: str,
        message: str,
        *,
        id: str | None = None,
        file: str | None = None,
        line: int | None = None,
        position: int | None = None,
        other_position: int | None = None,
        source: str | None = None,
    ) -> Violation:
        """Return a violation of a type by its table key."""
        entity_kind, _, type_name = type_key.partition(":")
        return cls(
            kind=kind,
            entity_kind=entity_kind,
            type_name=type_name,
            id=id,
            message=message,
            file=file,
            line=line,
            position=position,
            other_position=other_position,
            source=source,
        )

    @property
    def type_key(self) -> str:
        return f"{self.entity_kind}:{self.type_name}"


Row = Mapping[str, JsonValue]


class MergeConflict(Result, frozen=True, kw_only=True):
    """One reason why two states cannot be merged, with the entity on the three sides.

    `kind` is `divergent_insert`, `divergent_update` or `delete_vs_update` where the sides
    contradict each other, and a `ViolationKind` where together they would break a rule.
    """

    entity_kind: str
    type_name: str
    id: str | None = msgspec.field(name="entity_id")
    kind: str
    message: str
    properties: tuple[str, ...]
    """The properties with different values on both sides that no rule or decision resolves."""
    base: Row | None
    source: Row | None
    target: Row | None

    @classmethod
    def of(
        cls,
        kind: str,
        type_key: str,
        message: str,
        id: str | None = None,
        base: Row | None = None,
        source: Row | None = None,
        target: Row | None = None,
        properties: tuple[str, ...] = (),
    ) -> MergeConflict:
        """Return a conflict about an entity of a type, by its table key."""
        entity_kind, _, type_name = type_key.partition(":")
        return cls(
            entity_kind=entity_kind,
            type_name=type_name,
            id=id,
            kind=kind,
            message=message,
            base=base,
            source=source,
            target=target,
            properties=properties,
        )

    @property
    def type_key(self) -> str:
        return f"{self.entity_kind}:{self.type_name}"

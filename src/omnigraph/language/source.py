"""A text being compiled, the problems found in it, and the codes of syntax errors."""

from __future__ import annotations

from bisect import bisect_right
from codecs import BOM_UTF8
from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from omnigraph.errors import BadRequest, CompileError, Diagnostic, Severity, TextRange

MAX_SOURCE_CHARS = 2 * 1024 * 1024
"""A longer file is refused: it is no schema and no query that a person wrote."""

EXCERPT_CHARS = 160


class Span(NamedTuple):
    """A stretch of text as character offsets, `start` inclusive and `end` exclusive."""

    start: int
    end: int

    def to(self, other: Span) -> Span:
        return Span(self.start, max(self.end, other.end))


NOWHERE = Span(0, 0)


def declare_span() -> Span:
    """Declare the span of a tree node, which is ignored in comparisons."""
    return field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class SourceText:
    """A named text; maps offsets to lines and columns."""

    text: str
    name: str = "<text>"

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> SourceText:
        """Decode a file; text that is not UTF-8 is rejected with its position."""
        data = data.removeprefix(BOM_UTF8)
        try:
            text = data.decode()
        except UnicodeDecodeError as error:
            good = cls(data[: error.start].decode("utf-8", "replace"), name)
            at = Span(len(good.text), len(good.text) + 1)
            message = f"not UTF-8 text: byte 0x{data[error.start]:02x}"
            raise CompileError([good.diagnostic("P101", message, at)]) from error
        return cls(text, name)

    def require_encodable(self) -> None:
        """Reject lone surrogates: a Python string can contain one, no file and no table can.

        Raises:
            CompileError: with the position of the first one.
        """
        try:
            self.text.encode()
        except UnicodeEncodeError as error:
            shown = SourceText(self.text.encode(errors="replace").decode(), self.name)
            message = (
                f"not UTF-8 text: U+{ord(self.text[error.start]):04X} is an unpaired surrogate"
            )
            at = Span(error.start, error.start + 1)
            raise CompileError([shown.diagnostic("P101", message, at)]) from error

    @cached_property
    def _line_starts(self) -> list[int]:
        starts, at = [0], self.text.find("\n")
        while at >= 0:
            starts.append(at + 1)
            at = self.text.find("\n", at + 1)
        return starts

    def line_and_column(self, offset: int) -> tuple[int, int]:
        """The line and column of a character offset, both counted from 1."""
        offset = min(offset, len(self.text))
        line = bisect_right(self._line_starts, offset)
        return line, offset - self._line_starts[line - 1] + 1

    def excerpt(self, line: int, column: int) -> tuple[str, int]:
        """The line, or the part of it around the column, and where the column falls in it."""
        start = self._line_starts[line - 1]
        end = self._line_starts[line] - 1 if line < len(self._line_starts) else len(self.text)
        at, lead, tail = start + column - 1, "", ""
        if end - start > EXCERPT_CHARS:
            window = max(start, at - EXCERPT_CHARS // 2)
            lead = "…" if window > start else ""
            start = window
            tail = "…" if start + EXCERPT_CHARS < end else ""
            end = min(end, start + EXCERPT_CHARS)
        shown = self.text[start:end].removesuffix("\r").replace("\t", " ")
        return f"{lead}{shown}{tail}", at - start + len(lead)

    def diagnostic(
        self,
        code: str,
        message: str,
        span: Span,
        *,
        stage: str = "parse",
        hint: str | None = None,
        severity: Severity = Severity.ERROR,
    ) -> Diagnostic:
        line, column = self.line_and_column(span.start)
        line_text, caret = self.excerpt(line, column)
        return Diagnostic(
            code=code,
            message=message,
            source=self.name,
            line=line,
            column=column,
            span=TextRange(span.start, max(span.end, span.start + 1)),
            line_text=line_text,
            caret=caret,
            stage=stage,
            hint=hint,
            severity=severity,
        )


MAX_PROBLEMS = 200
"""Errors reported per text; with more it is probably no such text at all."""


@dataclass
class Problems:
    """The errors of one compilation, collected to be reported together."""

    source: SourceText
    stage: str
    found: list[Diagnostic] = field(default_factory=list)
    _seen: set[tuple[str, str, Span]] = field(default_factory=set, repr=False)

    def add(self, code: str, message: str, span: Span, *, hint: str | None = None) -> None:
        key = (code, message, span)
        if key in self._seen or len(self.found) >= MAX_PROBLEMS:
            return
        self._seen.add(key)
        self.found.append(self.source.diagnostic(code, message, span, stage=self.stage, hint=hint))

    def raise_if_any(self) -> None:
        if self.found:
            raise CompileError(self.found)


TEXT_CODES: Mapping[str, str] = {
    "P101": "The text is not UTF-8.",
    "P102": "A character that starts no token.",
    "P103": "A comment is not closed.",
    "P104": "A string is not closed.",
    "P105": "A string has an escape sequence that does not exist.",
    "P106": "The text is too long to be a schema or a query.",
    "P107": "Something else was expected here.",
    "P108": "The text is nested too deeply.",
}


SCHEMA_SYNTAX_CODES: Mapping[str, str] = {
    "P130": "A declaration starts with `interface`, `node` or `edge`.",
    "P131": "The word is not the name of a property type.",
    "P132": "An enum names the same value twice.",
    "P133": "A vector has at least one dimension.",
    "P134": "A vector has at most 2147483647 dimensions.",
    "P135": "A list holds plain scalars: no blobs, enums, vectors, lists or optional members.",
    "P136": "Properties and declarations follow one another without a separator.",
    "P137": "A cardinality is written `@card(m..n)` or `@card(m..)`.",
    "P138": "A cardinality bound is at most 4294967295.",
    "P139": "`@card` belongs in an edge header, directly after the target type.",
    "P140": "A constraint belongs inside the braces of its type.",
    "P141": "An interface has no constraints in its body.",
    "P142": "An annotation follows a property or belongs to a header.",
    "P143": "A body is closed with `}` before the file or the next declaration.",
    "P144": "An annotation takes one value first and then values with names.",
    "P145": "A bound of `@range` is a plain decimal number.",
    "P146": "This kind of declaration does not have that part, or not in that position.",
    "P147": "Type names start in upper case, names of properties and annotations in lower case.",
}


QUERY_SYNTAX_CODES: Mapping[str, str] = {
    "P109": "A number is out of range.",
    "P110": "Two queries of a file have the same name.",
    "P111": "A query declares the same parameter twice.",
    "P112": "A query has the same annotation twice.",
    "P113": "A query has an annotation that does not exist.",
    "P114": "The parameter name is reserved.",
    "P115": "The parameter type does not exist.",
    "P116": "An ordering by `nearest` takes no direction.",
    "P117": "A query is empty, or both reads and mutates.",
    "P120": "There is no such function.",
    "P121": "A function has too few or too many arguments.",
    "P122": "A function takes another form of argument.",
    "P123": "The dimension of a vector is out of range.",
    "P124": "A list inside a list.",
    "P125": "`distinct` belongs only into `count` and `collect`.",
    "P126": "A block, or a list of columns, keys, properties, assignments or edges, is too long.",
}


def as_source_text(text: str | Path | SourceText, name: str) -> SourceText:
    """Return the text, or that of a file, with a name for messages if it has none."""
    if isinstance(text, SourceText):
        return text
    if not isinstance(text, Path):
        return SourceText(text, name)
    try:
        return SourceText(text.read_text("utf-8"), str(text))
    except (OSError, UnicodeDecodeError) as error:
        raise BadRequest(f"cannot read {text}: {error}") from error

"""A text being compiled, and the mistakes found in it so far."""

from __future__ import annotations

from bisect import bisect_right
from codecs import BOM_UTF8
from dataclasses import dataclass, field
from functools import cached_property
from typing import NamedTuple

from omnigraph.errors import CompileError, Diagnostic, Severity

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
    """A span carried by a tree node: it takes no part in comparison."""
    return field(default=NOWHERE, compare=False, repr=False)


@dataclass(frozen=True)
class SourceText:
    """A text with a name; knows the line and column of every offset."""

    text: str
    name: str = "<text>"

    @classmethod
    def from_bytes(cls, data: bytes, name: str) -> SourceText:
        """Decode a file; text that is not UTF-8 is refused with the place of the first bad byte."""
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
        """Refuse half a surrogate pair: Python can hold it in a string, no file and no table can.

        Raises:
            CompileError: with the place of the first one.
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
            start=span.start,
            end=max(span.end, span.start + 1),
            line_text=line_text,
            caret=caret,
            stage=stage,
            hint=hint,
            severity=severity,
        )


MAX_PROBLEMS = 200
"""Past this the text is not what it claims to be, and more messages do not help."""


@dataclass
class Problems:
    """The mistakes of one compilation, collected so that all can be reported at once."""

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

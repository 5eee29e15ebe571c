"""What a build found: mistakes that end it, and warnings that do not."""

from __future__ import annotations

from collections.abc import Iterable
from typing import NamedTuple

from omnigraph.catalog.catalog import TypeKind
from omnigraph.errors import Diagnostic, Severity
from omnigraph.language.cursor import suggest_closest
from omnigraph.language.source import MAX_PROBLEMS, Problems, SourceText, Span

STAGE = "catalog"


class OwnerName(NamedTuple):
    """A type as messages name it: `node Album`."""

    kind: TypeKind
    name: str

    def __str__(self) -> str:
        return f"{self.kind} {self.name}"


class SchemaMistakes:
    def __init__(self, source: SourceText) -> None:
        self._source = source
        self._problems = Problems(source, STAGE)
        self._warnings: list[Diagnostic] = []

    def error(self, code: str, message: str, span: Span, *, hint: str | None = None) -> None:
        self._problems.add(code, message, span, hint=hint)

    def warn(self, code: str, message: str, span: Span, *, hint: str | None = None) -> None:
        if len(self._warnings) >= MAX_PROBLEMS:
            return
        warning = self._source.diagnostic(
            code, message, span, stage=STAGE, hint=hint, severity=Severity.WARNING
        )
        self._warnings.append(warning)

    def suggest(self, word: str, known: Iterable[str]) -> str | None:
        """A hint naming the known word that may have been meant, while hints are still shown."""
        return None if len(self._problems.found) >= MAX_PROBLEMS else suggest_closest(word, known)

    def warnings(self) -> tuple[Diagnostic, ...]:
        return tuple(sorted(self._warnings, key=lambda warning: warning.start))

    def raise_if_any(self) -> None:
        self._problems.raise_if_any()

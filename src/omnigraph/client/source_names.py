"""Texts that are compiled by a server: it does not know what they are called here."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from omnigraph.errors import (
    CompileError,
    ConstraintViolated,
    KeyConflict,
    RowsRejected,
    UnsupportedSchemaChange,
)
from omnigraph.language.source import SourceText


@contextmanager
def naming_source(text: SourceText) -> Iterator[None]:
    """Give mistakes in a text the name that it has here."""
    try:
        yield
    except CompileError as error:
        raise CompileError(
            [replace(one, source=text.name) for one in error.diagnostics]
        ) from error.__cause__
    except UnsupportedSchemaChange as error:
        if error.place is None:
            raise
        place = _rename_place(error.place, text)
        raise UnsupportedSchemaChange(
            error.entity, error.reason, error.lint_code, place
        ) from error.__cause__
    except ConstraintViolated as error:
        if error.place is None:
            raise
        place = _rename_place(error.place, text)
        raise ConstraintViolated(error.violations, error.total, place) from error.__cause__


def _rename_place(place: str, text: SourceText) -> str:
    """A file, line and column, with the name that the file has here."""
    _, line, column = place.rsplit(":", 2)
    return f"{text.name}:{line}:{column}"


@contextmanager
def naming_file(file: str | None) -> Iterator[None]:
    """Give bad rows the name of the file that they are in."""
    try:
        yield
    except RowsRejected as error:
        if file is None:
            raise
        problems = [replace(one, file=file) for one in error.problems]
        raise RowsRejected(problems, error.total) from error.__cause__
    except ConstraintViolated as error:
        if file is None:
            raise
        broken = [replace(one, file=file) for one in error.violations]
        raise ConstraintViolated(broken, error.total) from error.__cause__
    except KeyConflict as error:
        if file is None:
            raise
        raise KeyConflict(error.table_key, error.id, error.line, file) from error.__cause__

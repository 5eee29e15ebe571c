"""Texts that are compiled by a server: it does not know what they are called here."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace

from omnigraph.errors import (
    CompileError,
    ConstraintViolated,
    KeyConflict,
    OmniError,
    RowsRejected,
)
from omnigraph.language.source import SourceText


@contextmanager
def naming_source(
    text: SourceText, others: Mapping[str, SourceText] | None = None
) -> Iterator[None]:
    """Give mistakes in a text, and places in it, the name that it has here.

    `others` are texts that were sent with it, by what the server calls them.
    """
    try:
        yield
    except CompileError as error:
        known = others or {}
        raise CompileError(
            [replace(one, source=known.get(one.source, text).name) for one in error.diagnostics]
        ) from error.__cause__
    except OmniError as error:
        _rename_place(error, text)
        raise


def _rename_place(error: OmniError, text: SourceText) -> None:
    """Give the place an error tells the name that its file has here: all that is wrong in it."""
    place = getattr(error, "place", None)
    if not isinstance(place, str):
        return
    found = re.search(r"(:\d+:\d+)?$", place)
    assert found is not None, "every text has an end"
    named = f"{text.name}{found[0]}"
    error.message = error.message.replace(place, named)
    error.args = (error.message,)
    vars(error)["place"] = named


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
        first_file = None if error.first_line is None else file
        raise KeyConflict(
            error.table_key, error.id, error.line, file, error.first_line, first_file
        ) from error.__cause__

"""Reading the files named on the command line; `-` means standard input."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import click

if TYPE_CHECKING:
    from omnigraph.language.source import SourceText


def read_source(path: str) -> SourceText:
    """The text of a schema or query file; a file that cannot be read is one clear error."""
    from omnigraph.language.source import SourceText

    if path == "-":
        return SourceText.from_bytes(sys.stdin.buffer.read(), "<stdin>")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror or error}") from error
    return SourceText.from_bytes(data, path)


def read_query(path: str | None, text: str | None) -> SourceText:
    """The query given by file or on the command line; exactly one of the two."""
    from omnigraph.language.source import SourceText

    if (path is None) == (text is None):
        raise click.UsageError("give the query once: with --query FILE or with -e")
    if path is not None:
        return read_source(path)
    assert text is not None
    if not text.strip():
        raise click.UsageError("the query given with -e is empty")
    return SourceText(text, "<query>")


def read_parameters(text: str | None, path: str | None) -> Mapping[str, object] | None:
    """The parameters as a JSON object, or None when none are given."""
    from omnigraph.types.strict_json import parse_json

    if text is not None and path is not None:
        raise click.UsageError("give parameters once: with --params or with --params-file")
    if path is not None:
        text = read_source(path).text
    if text is None:
        return None
    value = parse_json(text)
    if value is not None and not isinstance(value, dict):
        raise click.ClickException("params must be a JSON object")
    return value

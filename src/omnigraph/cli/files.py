"""Reading the files named on the command line; `-` means standard input."""

from __future__ import annotations

import sys
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

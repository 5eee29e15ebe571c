"""The files named on the command line; `-` means standard input or output."""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

import click

if TYPE_CHECKING:
    from omnigraph.language.source import SourceText

OBJECT_HINT = """write one such as '{"name": "Ada"}'"""
_STDIN_IS_USED = "omnigraph.stdin_is_taken"
_BLOCK_BYTES = 1 << 20


def read_stdin() -> bytes:
    """Read all of standard input."""
    return open_stdin().read()


def open_stdin() -> BinaryIO:
    """Return standard input, which can be read once."""
    if sys.stdin is None:
        raise click.ClickException("standard input is closed")
    notes = click.get_current_context().meta
    if notes.setdefault(_STDIN_IS_USED, False):
        raise click.UsageError("standard input (-) can be read only once")
    notes[_STDIN_IS_USED] = True
    return sys.stdin.buffer


def read_stdin_line() -> str:
    """Read one line of standard input."""
    if sys.stdin is None:
        raise click.ClickException("standard input is closed")
    return sys.stdin.readline()


def read_source(path: str) -> SourceText:
    """Read a schema or query file."""
    from omnigraph.language.source import SourceText

    if path == "-":
        return SourceText.from_bytes(read_stdin(), "<stdin>")
    try:
        data = Path(path).read_bytes()
    except OSError as error:
        raise click.ClickException(f"cannot read {path}: {error.strerror or error}") from error
    return SourceText.from_bytes(data, path)


def read_query(path: str | None, text: str | None) -> SourceText:
    """Read the query from a file or the command line; exactly one must be given."""
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
    """Read the parameters as a JSON object; None when none are given."""
    if text is not None and path is not None:
        raise click.UsageError("give parameters once: with --params or with --params-file")
    if path is not None:
        text = read_source(path).text
    if text is None:
        return None
    return _parse_object(
        text, _describe_source(path), "params must be a JSON object", f"; {OBJECT_HINT}"
    )


def read_spec(path: str | None) -> str | Mapping[str, object] | None:
    """Return the path of an embedding specification, or its content from standard input."""
    if path != "-":
        return path
    text = read_source(path).text
    try:
        found = _parse_object(text, "--spec -", "a spec must be a JSON object")
    except click.UsageError as error:
        # What is in a file is no mistake of the command, wherever the file comes from.
        raise click.ClickException(error.message) from error
    return found or {}


def _parse_object(
    text: str, given_as: str, otherwise: str, hint: str = ""
) -> Mapping[str, object] | None:
    from omnigraph.errors import OmniError
    from omnigraph.types.json_value import parse_json

    try:
        value = parse_json(text)
    except OmniError as error:
        raise click.UsageError(f"{given_as}: {error.message}{hint}") from error
    if value is not None and not isinstance(value, dict):
        raise click.UsageError(f"{given_as}: {otherwise}{hint}")
    return value


def _describe_source(path: str | None) -> str:
    return "--params" if path is None else f"--params-file {path}"


@contextmanager
def open_disk_files(
    source: str | None, target: str | None
) -> Iterator[tuple[str | None, str | None]]:
    """Yield paths of a file to read and one to write; `-` is standard input and output.

    What is written in place of standard output is printed once all of it is there.
    """
    from omnigraph.errors import BadRequest

    with tempfile.TemporaryDirectory(prefix="omnigraph-") as folder:
        taken, made = Path(folder) / "<stdin>", Path(folder) / "<stdout>"
        if source == "-":
            with taken.open("wb") as file:
                shutil.copyfileobj(open_stdin(), file, _BLOCK_BYTES)
        try:
            yield str(taken) if source == "-" else source, str(made) if target == "-" else target
        except BadRequest as error:
            raise BadRequest(error.message.replace(f"{folder}/", "")) from error
        if target == "-":
            with made.open("rb") as file:
                write_whole(None, iter(lambda: file.read(_BLOCK_BYTES), b""))


force_option = click.option("--force", is_flag=True, help="Replace a file that exists.")
"""The option of commands that write a file of the caller, checked by `require_free`."""


def require_free(out: str | None, *, force: bool) -> None:
    """Raise if the file exists and must not be replaced, before any work is done."""
    if force or out is None or out == "-":
        return
    target = Path(out)
    if target.is_file() or (target.is_symlink() and not target.exists()):
        raise _make_exists_error(out)


def _make_exists_error(out: str) -> click.ClickException:
    return click.ClickException(f"{out} exists; give --force to replace it")


@contextmanager
def open_output(out: str | None, *, force: bool) -> Iterator[BinaryIO]:
    """Open a file to write, or stdout without one.

    A file is written whole or not at all: on any failure, an existing one is unchanged. Without
    `force` an existing one is never replaced.
    """
    if out is None or out == "-":
        if sys.stdout is None:
            raise click.ClickException("standard output is closed")
        yield sys.stdout.buffer
        sys.stdout.buffer.flush()
        return
    target = Path(out)
    # The name is known before the file is there, so no interrupt can leave the file behind.
    scratch = target.parent / f".{target.name}.{os.urandom(4).hex()}"
    try:
        if target.exists() and not target.is_file():  # a device or a pipe is there to be written to
            with target.open("wb") as file:
                yield file
            return
        with scratch.open("xb") as file:
            yield file
        _put(scratch, target, force=force)
    except FileExistsError as error:
        raise _make_exists_error(out) from error
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            scratch.unlink()


def write_durably(out: str, blocks: Iterable[bytes]) -> None:
    """Write a file durably, or leave the existing one unchanged.

    A lock file next to it, which is not removed, excludes concurrent writers.
    """
    if out == "-":
        raise click.UsageError("a file is required: output to stdout cannot be made durable")
    import fcntl

    target = Path(out)
    scratch = target.parent / f".{target.name}.{os.urandom(4).hex()}"
    try:
        with target.with_name(f"{target.name}.lock").open("ab") as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise click.ClickException(f"another command is writing {out}") from error
            with scratch.open("xb") as file:
                for block in blocks:
                    file.write(block)
                file.flush()
                os.fsync(file.fileno())
                written = os.fstat(file.fileno())
            scratch.replace(target)
            _sync_folder(target.parent)
            if not os.path.samestat(written, target.stat()):
                raise click.ClickException(f"{out} was replaced by another process")
    except OSError as error:
        raise click.ClickException(f"cannot write {out}: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            scratch.unlink()


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _put(made: Path, target: Path, *, force: bool) -> None:
    """Rename a file to its final name, which must be free unless it may be replaced."""
    from omnigraph.output_files import move_exclusively

    if force:
        made.replace(target)
    else:
        move_exclusively(made, target)


def write_whole(out: str | None, blocks: Iterable[bytes], *, force: bool = False) -> None:
    """Write blocks to a file, whole or not at all, or to stdout."""
    with open_output(out, force=force) as file:
        for block in blocks:
            file.write(block)

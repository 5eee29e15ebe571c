"""Errors as text for people on stderr and as JSON for programs on stdout."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import click

from omnigraph.cli.terminal import clear_progress_line

if TYPE_CHECKING:
    from omnigraph.errors import OmniError

EXIT_FAILURE = 1
EXIT_USAGE = 2
MAX_SHOWN = 10
"""Bad rows shown to a person; the JSON document has up to a hundred."""

SCOPE_FLAGS = {
    "--server": ("names a server", ""),
    "--cluster": ("names a cluster", ""),
    "--graph": ("chooses a graph of a server or a cluster", ""),
    "--store": ("names a graph's storage", ""),
    "--uri": ("names a graph's storage", ""),
    "--as": ("says who writes", ""),
    "--profile": ("names a graph by the operator's configuration", ""),
}
"""The flags that choose a graph and an actor, with their purpose and the alternative."""


_SERVED_FLAGS = ("--server", "--graph")


def fail(body: dict[str, object], text: str, *, wants_json: bool) -> int:
    """Print an error as text on stderr, with --json also as a document on stdout."""
    clear_progress_line()
    if wants_json:
        from omnigraph.cli.terminal import print_json

        print_json(body)
        text = f"error: {body['error']}"
    click.echo(_colorize(text), err=True)
    return EXIT_FAILURE


def fail_usage(error: click.UsageError, *, wants_json: bool) -> int:
    """Report wrong usage of a command."""
    message = _explain_misplaced_flag(error) or error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(message, err=True)
        return EXIT_USAGE
    hint = f"try '{error.ctx.command_path} --help'" if error.ctx else "try 'omnigraph --help'"
    body: dict[str, object] = {"error": message, "code": "bad_request", "kind": "bad_request"}
    fail(body, f"error: {message}\n{hint}", wants_json=wants_json)
    return EXIT_USAGE


def fail_request(message: str, *, wants_json: bool) -> int:
    """Report a command that cannot be executed."""
    body: dict[str, object] = {"error": message, "code": "bad_request", "kind": "bad_request"}
    return fail(body, f"error: {message}", wants_json=wants_json)


def fail_with(error: BaseException, *, wants_json: bool) -> int:
    """Report an error of the engine, of a file, or an unexpected one."""
    from omnigraph.errors import OmniError

    if isinstance(error, OmniError):
        fail(error.wire(), describe_error(error), wants_json=wants_json)
        return error.exit_code
    if isinstance(error, OSError):
        # What the engine reads and writes fails with errors of its own; this is stdout, or a
        # file of the command line.
        words = error.strerror or str(error)
        summary = f"{error.filename}: {words}" if error.filename else words
        return fail(
            {"error": summary, "code": "internal", "kind": "internal"},
            f"error: {summary}",
            wants_json=wants_json,
        )
    return _fail_unexpectedly(error, wants_json=wants_json)


def describe_error(error: OmniError) -> str:
    """Render an error for people: every mistake of a text, the first bad rows, a hint."""
    from omnigraph.errors import CompileError, ConstraintViolated, RowsRejected

    if isinstance(error, CompileError):
        return error.render()
    if isinstance(error, RowsRejected) and error.total > 1:
        return _render_list("rows do not fit", [str(one) for one in error.problems], error.total)
    if isinstance(error, ConstraintViolated) and error.total > 1:
        listed = _render_list("rules are broken", list(_describe_violations(error)), error.total)
        return (
            listed
            if error.position is None
            else f"{listed}\nhint: {_advise_on_rows(error.position)}"
        )
    hint = find_hint(error)
    return f"error: {error.message}" + (f"\nhint: {hint}" if hint else "")


def find_hint(error: OmniError) -> str | None:
    """Return a hint that only the command line can give."""
    from omnigraph import errors

    match error:
        case errors.BranchNotFound():
            return "`omnigraph branch list` shows the branches there are"
        case errors.CommitNotFound():
            return "`omnigraph commit list` shows the commits of a branch"
        case errors.TypeNotFound():
            return "`omnigraph schema show` shows the types there are"
        case errors.HistoricalVersionReclaimed():
            return "read a newer commit; `cleanup --keep` decides how many stay readable"
        case errors.KeyConflict():
            return "`load --mode merge` replaces what has the same id"
        case errors.PreconditionFailed():
            return "read the branch again, then decide on what it is now"
        case errors.AlreadyInitialized():
            return "choose another address; nothing is ever overwritten"
        case errors.WriterBusy():
            return "OMNIGRAPH_WRITER_WAIT says how many seconds to wait"
        case errors.StorageFailure(kind=errors.StorageKind.CONFIGURATION):
            return (
                "check the owner, the permissions and the free space of the folder; for s3://, the "
                "AWS_… variables: the keys, the region, the endpoint"
            )
        case errors.StorageFailure(kind=errors.StorageKind.TRANSIENT):
            return "it may work when tried again"
        case errors.OutcomeUnknown():
            return "`omnigraph commit list` shows whether the commit is there"
        case errors.RecoveryRequired():
            return "`omnigraph recovery pending` shows the write and how it would be recovered"
        case errors.ExternalBlobPolicy():
            return "write the bytes themselves, as base64:…"
        case _:
            return None


def _describe_violations(error: OmniError) -> Iterable[str]:
    from omnigraph.errors import ConstraintViolated

    assert isinstance(error, ConstraintViolated)
    for one in error.violations:
        file = f"{one.file}:" if one.file else ""
        where = f"{file}line {one.line}: " if one.line is not None else ""
        # A row of a file is found by its line, one that is there by its id.
        is_located = bool(where) or one.id is None or f"'{one.id}'" in one.message
        yield f"{where}{one.type_key} {'' if is_located else f'{one.id!r}: '}{one.message}"


def _advise_on_rows(position: str) -> str:
    return f"{position} demands it; change the rows first, or in the same commit with --mutation"


def _render_list(what: str, lines: Sequence[str], total: int) -> str:
    shown = [f"  {line}" for line in lines[:MAX_SHOWN]]
    if total > len(shown):
        shown.append(f"  and {total - len(shown)} more")
    return "\n".join([f"error: {total} {what}; nothing was changed", *shown])


def _explain_misplaced_flag(error: click.UsageError) -> str | None:
    """Explain a flag that chooses a graph on a command that does not accept it."""
    if not isinstance(error, click.NoSuchOption) or error.ctx is None:
        return None
    known = SCOPE_FLAGS.get(error.option_name)
    if known is None:
        return None
    purpose, instead = known
    verb = error.ctx.command_path.removeprefix("omnigraph").strip() or "omnigraph"
    message = f"No such option '{error.option_name}' for {verb}: it {purpose}"
    remedy = instead or _find_remedy(error.ctx.command, error.option_name)
    return f"{message}; {remedy}" if remedy else message


def _find_remedy(command: click.Command, flag: str) -> str:
    takes = {name for parameter in command.params for name in parameter.opts}
    if flag == "--as":
        return "it only reads" if "--store" in takes else ""
    if flag == "--cluster" and "--server" in takes and "--store" in takes:
        from omnigraph.cli.scope_resolution import APPLY_TO_CLUSTER

        return APPLY_TO_CLUSTER
    if "--store" in takes:
        needs = "this command needs the storage of the graph: " if flag in _SERVED_FLAGS else ""
        return f"{needs}give the address as an argument, with --store or with --uri"
    return "this command needs no graph"


def _fail_unexpectedly(error: BaseException, *, wants_json: bool) -> int:
    """Report an unexpected error in one line, with a hint how to see the traceback."""
    from omnigraph.errors import BadRequest
    from omnigraph.settings import CommandLineSettings

    first = str(error).strip().splitlines()[:1]
    summary = f"{type(error).__name__}: {first[0]}" if first else type(error).__name__
    try:
        is_wanted = CommandLineSettings.from_environment(os.environ).traceback
    except BadRequest:  # one complaint at a time
        is_wanted = True
    if is_wanted:
        clear_progress_line()
        traceback.print_exception(error, file=sys.stderr)
    variable = CommandLineSettings.variable("traceback")
    hint = "" if is_wanted else f"\nhint: this is a bug; {variable}=1 shows where"
    body: dict[str, object] = {
        "error": f"unexpected: {summary}",
        "code": "internal",
        "kind": "internal",
    }
    return fail(body, f"error: unexpected: {summary}{hint}", wants_json=wants_json)


def _colorize(text: str) -> str:
    """Colour an error on a terminal that takes colours."""
    is_seen = sys.stderr is not None and sys.stderr.isatty()
    if not is_seen or os.environ.get("NO_COLOR") or not text.startswith("error"):
        return text
    word, colon, rest = text.partition(":")
    return click.style(word + colon, fg="red", bold=True) + rest

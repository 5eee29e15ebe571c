"""The entry point: the table of commands, and one place where errors become exit codes."""

from __future__ import annotations

import io
import os
import signal
import sys
from collections.abc import Sequence
from contextlib import suppress

import click

from omnigraph.cli.arguments import rewritten
from omnigraph.cli.lazy import Entry, LazyGroup
from omnigraph.cli.terminal import make_room, shown_progress
from omnigraph.version import __version__

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_COMMANDS = "omnigraph.cli.commands"

ENTRIES = {
    "query": Entry(f"{_COMMANDS}.query", "query", "Run a read query."),
    "load": Entry(f"{_COMMANDS}.load", "load", "Load records as one commit."),
    "mutate": Entry(f"{_COMMANDS}.mutate", "mutate", "Run a mutation as one commit."),
    "shell": Entry(f"{_COMMANDS}.shell", "shell", "Type queries at a prompt."),
    "export": Entry(f"{_COMMANDS}.export", "export", "Write a branch as JSON lines."),
    "blob": Entry(f"{_COMMANDS}.blob", "blob", "Read blobs, which no query returns."),
    "snapshot": Entry(f"{_COMMANDS}.snapshot", "snapshot", "Show what makes up a branch."),
    "branch": Entry(f"{_COMMANDS}.branch", "branch", "Create, list and delete branches."),
    "commit": Entry(f"{_COMMANDS}.commit", "commit", "Look at the history."),
    "init": Entry(f"{_COMMANDS}.init", "init", "Create a graph."),
    "optimize": Entry(f"{_COMMANDS}.optimize", "optimize", "Merge fragments and build indexes."),
    "cleanup": Entry(f"{_COMMANDS}.cleanup", "cleanup", "Remove what only old commits need."),
    "repair": Entry(f"{_COMMANDS}.repair", "repair", "Accept tables moved by something else."),
    "verify": Entry(f"{_COMMANDS}.verify", "verify", "Look whether everything is in order."),
    "maintain": Entry(f"{_COMMANDS}.maintain", "maintain", "Optimize and clean up when due."),
    "recover": Entry(f"{_COMMANDS}.recover", "recover", "Settle interrupted writes."),
    "recovery": Entry(f"{_COMMANDS}.recover", "recovery", "Look at interrupted writes."),
    "schema": Entry(f"{_COMMANDS}.schema", "schema", "Look at schemas and plan changes."),
    "lint": Entry(f"{_COMMANDS}.lint", "lint", "Check a query file against a schema."),
    "explain": Entry(f"{_COMMANDS}.explain", "explain", "Show the plan of a query."),
    "embed": Entry(f"{_COMMANDS}.embed", "embed", "Embed the texts of records in a file."),
    "login": Entry(f"{_COMMANDS}.login", "login", "Keep the token for a server."),
    "logout": Entry(f"{_COMMANDS}.login", "logout", "Forget the token for a server."),
    "config": Entry(f"{_COMMANDS}.config", "config", "Look at the operator's configuration."),
    "profile": Entry(f"{_COMMANDS}.profile", "profile", "Look at the operator's profiles."),
    "completion": Entry(f"{_COMMANDS}.completion", "completion", "Complete words in the shell."),
    "version": Entry(f"{_COMMANDS}.version", "version", "Print the release and storage format."),
}

LEGEND = """\
COMMANDS BY CAPABILITY
  any      reach a graph: query, load, mutate, shell, export, blob *, snapshot, branch *, commit *,
           schema show
  served   need a server: none yet
  direct   reach a graph in storage, or files alone: init, optimize, cleanup, repair, verify,
           maintain, recover, recovery *, schema plan, schema lint, lint, explain
  control  steer many graphs: none yet
  local    need no graph: embed, login, logout, config *, profile *, completion, version
"""


@click.group(
    cls=LazyGroup,
    entries=ENTRIES,
    legend=LEGEND,
    help="A versioned lakehouse graph database on Lance tables.",
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(
    __version__, "-v", "--version", prog_name="omnigraph", message="%(prog)s %(version)s"
)
def omnigraph() -> None:
    pass


def main(arguments: Sequence[str] | None = None) -> None:
    """Run one command and exit with its code."""
    argv = list(sys.argv[1:] if arguments is None else arguments)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    if isinstance(sys.stdout, io.TextIOWrapper):
        # A name that is no UTF-8 must not end a command that only wants to repeat it.
        sys.stdout.reconfigure(errors="backslashreplace")
    try:
        with shown_progress(quiet="--quiet" in argv):
            code = run(argv)
        code = code if _flush() else code or EXIT_FAILURE
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        code = EXIT_FAILURE
    # The command is over: what its code says must not change while the interpreter ends.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    _flush()
    sys.exit(code)


def _flush() -> bool:
    """Whether everything printed arrived; Python must not complain again when it exits."""
    arrived = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            arrived = False
            with suppress(OSError, ValueError):
                os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
    return arrived


def run(argv: Sequence[str]) -> int:
    wants_json = "--json" in argv
    try:
        arguments = rewritten(argv)
        result = omnigraph.main(arguments, prog_name="omnigraph", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.UsageError as error:
        return _usage(error, wants_json=wants_json)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        make_room()
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_FAILURE
    except click.ClickException as error:
        message = error.format_message()
        body: dict[str, object] = {"error": message, "code": "bad_request"}
        return _failure(body, f"error: {message}", wants_json)
    except Exception as error:
        from omnigraph.errors import CompileError, OmniError

        if isinstance(error, OSError):
            # What the engine reads and writes fails with errors of its own; this is stdout, or
            # a file of the command line.
            words = error.strerror or str(error)
            said = f"{error.filename}: {words}" if error.filename else words
            return _failure({"error": said, "code": "internal"}, f"error: {said}", wants_json)
        if not isinstance(error, OmniError):
            raise
        text = error.render() if isinstance(error, CompileError) else f"error: {error.message}"
        _failure(error.wire(), text, wants_json)
        return error.exit_code


def _usage(error: click.UsageError, *, wants_json: bool) -> int:
    message = error.format_message()
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        click.echo(message, err=True)
        return EXIT_USAGE
    hint = f"try '{error.ctx.command_path} --help'" if error.ctx else "try 'omnigraph --help'"
    _failure({"error": message, "code": "bad_request"}, f"error: {message}\n{hint}", wants_json)
    return EXIT_USAGE


def _failure(body: dict[str, object], text: str, wants_json: bool) -> int:
    make_room()
    if wants_json:
        from omnigraph.cli.output import print_json

        print_json(body)
        click.echo(_colored(f"error: {body['error']}"), err=True)
    else:
        click.echo(_colored(text), err=True)
    return EXIT_FAILURE


def _colored(text: str) -> str:
    """Draw attention to an error where somebody looks at a terminal and wants colours."""
    is_seen = sys.stderr is not None and sys.stderr.isatty()
    if not is_seen or os.environ.get("NO_COLOR") or not text.startswith("error"):
        return text
    word, colon, rest = text.partition(":")
    return click.style(word + colon, fg="red", bold=True) + rest

"""The entry point: the table of commands, and one place where errors become exit codes."""

from __future__ import annotations

import io
import os
import signal
import sys
import threading
from collections.abc import Sequence
from contextlib import suppress

import click

from omnigraph.cli.arguments import rewritten
from omnigraph.cli.failures import EXIT_FAILURE, fail_request, fail_usage, fail_with
from omnigraph.cli.lazy import Entry, LazyGroup
from omnigraph.cli.terminal import make_room, shown_progress
from omnigraph.version import __version__

EXIT_INTERRUPTED = 130

_COMMANDS = "omnigraph.cli.commands"

ENTRIES = {
    "query": Entry(f"{_COMMANDS}.query", "query", "Run a read query."),
    "alias": Entry(f"{_COMMANDS}.alias", "alias", "Run a query by the operator's own name."),
    "load": Entry(f"{_COMMANDS}.load", "load", "Load records as one commit."),
    "ingest": Entry(f"{_COMMANDS}.load", "ingest", "The old name of load.", hidden=True),
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
  local    need no graph to be named: alias, embed, login, logout, config *, profile *, completion,
           version
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
    sys.unraisablehook = raise_interrupts_again
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


def raise_interrupts_again(trouble: sys.UnraisableHookArgs) -> None:
    """Let an interrupt that met the interpreter where nothing can be raised come right after.

    While an object is being removed, Python prints a trace, forgets the interrupt and goes on.
    """
    if isinstance(trouble.exc_value, KeyboardInterrupt):
        again = threading.Timer(0.001, os.kill, (os.getpid(), signal.SIGINT))
        again.daemon = True
        again.start()
    else:
        sys.__unraisablehook__(trouble)


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
        return fail_usage(error, wants_json=wants_json)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        make_room()
        click.echo("interrupted", err=True)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        return EXIT_FAILURE
    except click.ClickException as error:
        return fail_request(error.format_message(), wants_json=wants_json)
    except Exception as error:  # noqa: BLE001 - the one place where nothing may pass
        return fail_with(error, wants_json=wants_json)

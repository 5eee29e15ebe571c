"""The entry point: the table of commands, and one place where errors become exit codes."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

import click

from omnigraph.cli.lazy import Entry, LazyGroup
from omnigraph.version import __version__

EXIT_FAILURE = 1
EXIT_USAGE = 2
EXIT_INTERRUPTED = 130

_COMMANDS = "omnigraph.cli.commands"

ENTRIES = {
    "query": Entry(f"{_COMMANDS}.query", "query", "Run a read query."),
    "load": Entry(f"{_COMMANDS}.load", "load", "Load records as one commit."),
    "mutate": Entry(f"{_COMMANDS}.mutate", "mutate", "Run a mutation as one commit."),
    "export": Entry(f"{_COMMANDS}.export", "export", "Write a branch as JSON lines."),
    "snapshot": Entry(f"{_COMMANDS}.snapshot", "snapshot", "Show what makes up a branch."),
    "branch": Entry(f"{_COMMANDS}.branch", "branch", "Create, list and delete branches."),
    "commit": Entry(f"{_COMMANDS}.commit", "commit", "Look at the history."),
    "init": Entry(f"{_COMMANDS}.init", "init", "Create a graph."),
    "recover": Entry(f"{_COMMANDS}.recover", "recover", "Settle interrupted writes."),
    "recovery": Entry(f"{_COMMANDS}.recover", "recovery", "Look at interrupted writes."),
    "schema": Entry(f"{_COMMANDS}.schema", "schema", "Look at schemas and plan changes."),
    "lint": Entry(f"{_COMMANDS}.lint", "lint", "Check a query file against a schema."),
    "explain": Entry(f"{_COMMANDS}.explain", "explain", "Show the plan of a query."),
    "profile": Entry(f"{_COMMANDS}.profile", "profile", "Look at the operator's profiles."),
    "version": Entry(f"{_COMMANDS}.version", "version", "Print the release and storage format."),
}

LEGEND = """\
COMMANDS BY CAPABILITY
  any      reach a graph: query, load, mutate, export, snapshot, branch *, commit *,
           schema show
  served   need a server: none yet
  direct   reach a graph in storage, or files alone: init, recover, recovery *, schema plan,
           schema lint, lint, explain
  control  steer many graphs: none yet
  local    need no graph: profile *, version
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
    code = run(argv)
    try:
        sys.stdout.flush()
    except BrokenPipeError:
        # The reader went away; Python must not complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        code = code or EXIT_FAILURE
    sys.exit(code)


def run(argv: Sequence[str]) -> int:
    wants_json = "--json" in argv
    try:
        result = omnigraph.main(list(argv), prog_name="omnigraph", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.UsageError as error:
        return _usage(error, wants_json=wants_json)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
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
    if wants_json:
        from omnigraph.cli.output import print_json

        print_json(body)
        click.echo(f"error: {body['error']}", err=True)
    else:
        click.echo(text, err=True)
    return EXIT_FAILURE

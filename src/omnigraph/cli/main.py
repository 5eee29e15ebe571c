"""The entry point: the table of commands, and one place where errors become exit codes."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from difflib import get_close_matches
from importlib import import_module
from typing import TextIO

import click

from omnigraph.cli.error_output import EXIT_FAILURE, fail_request, fail_usage, fail_with
from omnigraph.cli.terminal import (
    EXIT_INTERRUPTED,
    clear_progress_line,
    ignore_interrupts,
    is_interrupt,
    note,
    raise_interrupts,
    show_progress,
)
from omnigraph.version import __version__

LEADING_FLAGS = {
    "--as": True,
    "--cluster": True,
    "--graph": True,
    "--profile": True,
    "--server": True,
    "--store": True,
    "--timeout": True,
    "--uri": True,
    "--json": False,
    "--quiet": False,
    "--yes": False,
}
"""Flags accepted before the verb; True where a value follows."""
SYNONYMS = {"read": "query", "change": "mutate", "check": "lint"}
_LINT_SUBCOMMANDS = ("lint", "check")
_DEPRECATED_COMMANDS = {"ingest": "load"}
"""Commands with other defaults than their successor."""


def reorder_arguments(argv: Sequence[str]) -> list[str]:
    """Return the arguments with flags after the verb and synonyms replaced."""
    flags, rest = _take_leading_flags(list(argv))
    rest = _replace_synonyms(rest)
    if not flags or not rest:
        return [*flags, *rest]
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *flags, *rest[end:]]


def _take_leading_flags(argv: list[str]) -> tuple[list[str], list[str]]:
    at = 0
    while at < len(argv):
        name, equals, _ = argv[at].partition("=")
        if name not in LEADING_FLAGS:
            break
        at += 2 if LEADING_FLAGS[name] and not equals else 1
    return argv[:at], argv[at:]


def _replace_synonyms(rest: list[str]) -> list[str]:
    if not rest:
        return rest
    verb, *others = rest
    if verb == "query" and others and others[0] in _LINT_SUBCOMMANDS:
        note(f"`query {others[0]}` is called `lint`")
        return ["lint", *others[1:]]
    if verb in SYNONYMS:
        note(f"`{verb}` is called `{SYNONYMS[verb]}`")
        return [SYNONYMS[verb], *others]
    if verb in _DEPRECATED_COMMANDS:
        note(f"`{verb}` is an old name; use `{_DEPRECATED_COMMANDS[verb]}`")
    return rest


@dataclass(frozen=True, slots=True)
class Entry:
    """A command: its module in `commands/`, its attribute there and its line of help."""

    module: str
    attribute: str
    summary: str
    hidden: bool = False


COMMON_FLAGS = {
    "--yes": "Do not ask for confirmation.",
    "--quiet": "Print nothing but the payload.",
}
"""Flags that every command accepts, for scripts; ignored by commands without use for them."""


COMMANDS_WITHOUT_GRAPH = frozenset({"clone", "policy", "init"})
"""Commands whose arguments are not completed from an existing graph."""


class LazyGroup(click.Group):
    """A group that lists its commands from a table, so that help imports none of their modules."""

    def __init__(
        self, *, entries: Mapping[str, Entry], legend: str = "", **settings: object
    ) -> None:
        super().__init__(**settings)  # type: ignore[arg-type]
        self.entries, self.legend = entries, legend

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return list(self.entries)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        entry = self.entries.get(cmd_name)
        if entry is None:
            return None
        module = import_module(f"omnigraph.cli.commands.{entry.module}_command")
        command = getattr(module, entry.attribute)
        assert isinstance(command, click.Command), f"{entry.module}.{entry.attribute}"
        for one in command.commands.values() if isinstance(command, click.Group) else (command,):
            _add_common_flags(one)
        if ctx.resilient_parsing:  # a shell asks what may be typed
            add_completions(command)
        return command

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        name = args[0] if args else ""
        if name not in self.entries and not name.startswith("-"):
            close = get_close_matches(name, self.entries, n=1)
            hint = f" Did you mean '{close[0]}'?" if close else ""
            raise click.UsageError(f"No such command '{name}'.{hint}", ctx)
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:  # noqa: ARG002
        shown = [(name, e.summary) for name, e in self.entries.items() if not e.hidden]
        with formatter.section("Commands"):
            formatter.write_dl(shown)

    def format_epilog(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        super().format_epilog(ctx, formatter)
        if self.legend:
            formatter.write("\n" + self.legend)


def add_completions(command: click.Command) -> None:
    """Add completions from a graph to the commands of an entry."""
    from omnigraph.cli.shell_completion import add_graph_completions

    if command.name in COMMANDS_WITHOUT_GRAPH:
        return
    for one in command.commands.values() if isinstance(command, click.Group) else (command,):
        add_graph_completions(one)


def _add_common_flags(command: click.Command) -> None:
    taken = {name for parameter in command.params for name in parameter.opts}
    command.params += [
        click.Option([flag], is_flag=True, expose_value=False, hidden=True, help=meaning)
        for flag, meaning in COMMON_FLAGS.items()
        if flag not in taken
    ]


ENTRIES = {
    "query": Entry("query", "query", "Run a read query."),
    "alias": Entry("query", "alias", "Run a query by its alias."),
    "load": Entry("load", "load", "Load records as one commit."),
    "ingest": Entry("load", "ingest", "The old name of load.", hidden=True),
    "import": Entry("load", "import_", "Load the data of another program."),
    "mutate": Entry("query", "mutate", "Run a mutation as one commit."),
    "shell": Entry("shell", "shell", "Run queries at a prompt."),
    "export": Entry("export", "export", "Write a branch as JSON lines."),
    "blob": Entry("export", "blob", "Read blob values."),
    "snapshot": Entry("export", "snapshot", "Show the table versions that make up a branch."),
    "branch": Entry("branch", "branch", "Create, merge, rename and delete branches."),
    "tag": Entry("branch", "tag", "Name commits and protect them from cleanup."),
    "commit": Entry("commit", "commit", "List commits and show what they changed."),
    "revert": Entry("commit", "revert", "Undo the changes of a commit."),
    "cherry-pick": Entry("commit", "cherry_pick", "Apply the changes of a commit to a branch."),
    "restore": Entry("commit", "restore", "Set a branch to the state of a commit."),
    "diff": Entry("changes", "diff", "Show the differences between two states."),
    "changes": Entry("changes", "changes", "Read the change feed of a branch."),
    "consumer": Entry("changes", "consumer", "Manage the consumers of the change feed."),
    "entity": Entry("changes", "entity", "Show the history of single entities."),
    "init": Entry("init", "init", "Create a graph."),
    "clone": Entry("init", "clone", "Copy a graph to another address."),
    "optimize": Entry("maintenance", "optimize", "Merge fragments and build indexes."),
    "cleanup": Entry("maintenance", "cleanup", "Remove versions that only old commits need."),
    "repair": Entry("maintenance", "repair", "Accept tables changed by something else."),
    "verify": Entry("maintenance", "verify", "Check the integrity of a graph."),
    "maintain": Entry("maintenance", "maintain", "Optimize and clean up when due."),
    "recover": Entry("maintenance", "recover", "Finish or undo interrupted writes."),
    "recovery": Entry("maintenance", "recovery", "Show interrupted writes."),
    "schema": Entry("schema", "schema", "Show schemas, plan changes and apply them."),
    "lint": Entry("queries", "lint", "Check a query file against a schema."),
    "fmt": Entry("queries", "fmt", "Format schema and query files."),
    "explain": Entry("queries", "explain", "Show the plan of a query."),
    "policy": Entry("policy", "policy", "Check and try policy bundles."),
    "queries": Entry("queries", "queries", "Check stored queries."),
    "cluster": Entry("cluster", "cluster", "Declare graphs in files and apply them."),
    "embed": Entry("embed", "embed", "Embed the texts of records in a file."),
    "graphs": Entry("serve", "graphs", "List the graphs of a server."),
    "serve": Entry("serve", "serve", "Serve graphs over HTTP."),
    "login": Entry("config", "login", "Store the token for a server."),
    "logout": Entry("config", "logout", "Remove the token for a server."),
    "config": Entry("config", "config", "Show the operator's configuration."),
    "profile": Entry("config", "profile", "Show the operator's profiles."),
    "completion": Entry("config", "completion", "Print a completion script for a shell."),
    "version": Entry("config", "version", "Print the release and storage format."),
}

LEGEND = """\
COMMANDS BY CAPABILITY
  any      reach a graph in storage or behind a server: query, load, mutate, export, blob *,
           snapshot, branch *, tag *, commit *, revert, cherry-pick, restore, diff, changes *,
           consumer *, entity *, schema show, schema plan, schema apply, lint, explain,
           queries list
  served   need a server: graphs list
  direct   reach a graph in storage, or files alone: init, import, clone, shell, optimize, cleanup,
           repair, verify, maintain, recover, recovery *, schema infer, schema lint, serve
  control  say which graphs there are and what may be done with them: cluster *, policy *,
           queries validate
  local    need no graph to be named: alias, embed, fmt, login, logout, config *, profile *,
           completion, version
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
    try:
        code = _finish(list(sys.argv[1:] if arguments is None else arguments))
    except KeyboardInterrupt:
        # A second interrupt during the shutdown: exit at once.
        os._exit(EXIT_INTERRUPTED)
    sys.exit(code)


def _finish(argv: Sequence[str]) -> int:
    """Return the exit code of a command; later interrupts cannot change it."""
    raise_interrupts()
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A name that is not UTF-8 must not fail a command that only prints it.
            sys.stdout.reconfigure(errors="backslashreplace")
        with show_progress(quiet="--quiet" in argv):
            code = run(argv)
        if code != EXIT_INTERRUPTED and not _flush():
            code = code or EXIT_FAILURE
    except KeyboardInterrupt:
        code = EXIT_INTERRUPTED
    except BrokenPipeError:
        code = EXIT_FAILURE
    ignore_interrupts()
    if code == EXIT_INTERRUPTED:
        # Flushing could block on a reader, and nothing could interrupt that any more.
        _drop(sys.stdout)
    _flush()
    return code


def _flush() -> bool:
    """Flush both streams and return whether all output was written."""
    arrived = True
    for stream in (sys.stdout, sys.stderr):
        try:
            if stream is not None:
                stream.flush()
        except (OSError, ValueError):
            arrived = False
            _drop(stream)
    return arrived


def _drop(stream: TextIO | None) -> None:
    """Redirect a stream to the null device, also for the exit of the interpreter."""
    if stream is not None:
        with suppress(OSError, ValueError):
            os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())


def run(argv: Sequence[str]) -> int:
    wants_json = "--json" in argv
    try:
        arguments = reorder_arguments(argv)
        result = omnigraph.main(arguments, prog_name="omnigraph", standalone_mode=False)
        return result if isinstance(result, int) else 0
    except click.UsageError as error:
        return fail_usage(error, wants_json=wants_json)
    except click.exceptions.Exit as stop:
        return stop.exit_code
    except (click.Abort, KeyboardInterrupt):
        return _report_interrupt()
    except BrokenPipeError:
        return EXIT_FAILURE
    except click.ClickException as error:
        return fail_request(error.format_message(), wants_json=wants_json)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - the one place where nothing may pass
        # A panic of native code is no `Exception`.
        if is_interrupt(error):
            return _report_interrupt()
        return fail_with(error, wants_json=wants_json)


def _report_interrupt() -> int:
    clear_progress_line()
    click.echo("interrupted", err=True)
    return EXIT_INTERRUPTED

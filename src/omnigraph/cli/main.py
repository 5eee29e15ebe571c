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
    ignore_interrupts,
    is_interrupt,
    make_room,
    note,
    raise_interrupts,
    show_progress,
)
from omnigraph.version import __version__

FLAGS_BEFORE_THE_VERB = {
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
"""Flags that may stand before the verb; whether a value follows."""
OTHER_NAMES = {"read": "query", "change": "mutate", "check": "lint"}
_UNDER_QUERY = ("lint", "check")
_OLD_NAMES = {"ingest": "load"}
"""Commands of their own, since they take more for granted than their successor."""


def reorder_arguments(argv: Sequence[str]) -> list[str]:
    """Return the arguments with flags after the verb and synonyms replaced."""
    flags, rest = _take_leading_flags(list(argv))
    rest = _replace_old_names(rest)
    if not flags or not rest:
        return [*flags, *rest]
    end = rest.index("--") if "--" in rest else len(rest)
    return [*rest[:end], *flags, *rest[end:]]


def _take_leading_flags(argv: list[str]) -> tuple[list[str], list[str]]:
    at = 0
    while at < len(argv):
        name, equals, _ = argv[at].partition("=")
        if name not in FLAGS_BEFORE_THE_VERB:
            break
        at += 2 if FLAGS_BEFORE_THE_VERB[name] and not equals else 1
    return argv[:at], argv[at:]


def _replace_old_names(rest: list[str]) -> list[str]:
    if not rest:
        return rest
    verb, *others = rest
    if verb == "query" and others and others[0] in _UNDER_QUERY:
        note(f"`query {others[0]}` is called `lint`")
        return ["lint", *others[1:]]
    if verb in OTHER_NAMES:
        note(f"`{verb}` is called `{OTHER_NAMES[verb]}`")
        return [OTHER_NAMES[verb], *others]
    if verb in _OLD_NAMES:
        note(f"`{verb}` is an old name; use `{_OLD_NAMES[verb]}`")
    return rest


@dataclass(frozen=True, slots=True)
class Entry:
    """The module of a command, its attribute there and its line of help."""

    module: str
    attribute: str
    summary: str
    hidden: bool = False


FLAGS_OF_ALL = {
    "--yes": "Do not ask for confirmation.",
    "--quiet": "Print nothing but the payload.",
}
"""Scripts may give these to any command; where there is no use for one, it does nothing."""


NO_GRAPH = frozenset({"clone", "policy", "init"})
"""Commands whose words are not those of a graph that is there."""


class LazyGroup(click.Group):
    """Lists its commands from a table, so that help needs none of their modules."""

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
        command = getattr(import_module(entry.module), entry.attribute)
        assert isinstance(command, click.Command), f"{entry.module}.{entry.attribute}"
        for one in command.commands.values() if isinstance(command, click.Group) else (command,):
            _take_flags_of_all(one)
        if ctx.resilient_parsing:  # a shell asks what may be typed
            offer_words(command)
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


def offer_words(command: click.Command) -> None:
    """Let a shell complete what the commands of an entry take from a graph."""
    from omnigraph.cli.shell_completion import offer_graph_words

    if command.name in NO_GRAPH:
        return
    for one in command.commands.values() if isinstance(command, click.Group) else (command,):
        offer_graph_words(one)


def _take_flags_of_all(command: click.Command) -> None:
    taken = {name for parameter in command.params for name in parameter.opts}
    command.params += [
        click.Option([flag], is_flag=True, expose_value=False, hidden=True, help=meaning)
        for flag, meaning in FLAGS_OF_ALL.items()
        if flag not in taken
    ]


_COMMANDS = "omnigraph.cli.commands"

ENTRIES = {
    "query": Entry(f"{_COMMANDS}.query_command", "query", "Run a read query."),
    "alias": Entry(f"{_COMMANDS}.query_command", "alias", "Run a query by its alias."),
    "load": Entry(f"{_COMMANDS}.load_command", "load", "Load records as one commit."),
    "ingest": Entry(f"{_COMMANDS}.load_command", "ingest", "The old name of load.", hidden=True),
    "import": Entry(f"{_COMMANDS}.load_command", "import_", "Load the data of another program."),
    "mutate": Entry(f"{_COMMANDS}.query_command", "mutate", "Run a mutation as one commit."),
    "shell": Entry(f"{_COMMANDS}.shell_command", "shell", "Run queries at a prompt."),
    "export": Entry(f"{_COMMANDS}.export_command", "export", "Write a branch as JSON lines."),
    "blob": Entry(f"{_COMMANDS}.export_command", "blob", "Read blob values."),
    "snapshot": Entry(
        f"{_COMMANDS}.export_command",
        "snapshot",
        "Show the table versions that make up a branch.",
    ),
    "branch": Entry(
        f"{_COMMANDS}.branch_command", "branch", "Create, merge, rename and delete branches."
    ),
    "tag": Entry(
        f"{_COMMANDS}.branch_command", "tag", "Name commits and protect them from cleanup."
    ),
    "commit": Entry(
        f"{_COMMANDS}.commit_command", "commit", "List commits and show what they changed."
    ),
    "revert": Entry(f"{_COMMANDS}.commit_command", "revert", "Undo the changes of a commit."),
    "cherry-pick": Entry(
        f"{_COMMANDS}.commit_command", "cherry_pick", "Apply the changes of a commit to a branch."
    ),
    "restore": Entry(
        f"{_COMMANDS}.commit_command", "restore", "Set a branch to the state of a commit."
    ),
    "diff": Entry(
        f"{_COMMANDS}.changes_command", "diff", "Show the differences between two states."
    ),
    "changes": Entry(
        f"{_COMMANDS}.changes_command", "changes", "Read the change feed of a branch."
    ),
    "consumer": Entry(
        f"{_COMMANDS}.changes_command", "consumer", "Manage the consumers of the change feed."
    ),
    "entity": Entry(
        f"{_COMMANDS}.changes_command", "entity", "Show the history of single entities."
    ),
    "init": Entry(f"{_COMMANDS}.init_command", "init", "Create a graph."),
    "clone": Entry(f"{_COMMANDS}.init_command", "clone", "Copy a graph to another address."),
    "optimize": Entry(
        f"{_COMMANDS}.maintenance_command", "optimize", "Merge fragments and build indexes."
    ),
    "cleanup": Entry(
        f"{_COMMANDS}.maintenance_command", "cleanup", "Remove versions that only old commits need."
    ),
    "repair": Entry(
        f"{_COMMANDS}.maintenance_command", "repair", "Accept tables changed by something else."
    ),
    "verify": Entry(
        f"{_COMMANDS}.maintenance_command", "verify", "Check the integrity of a graph."
    ),
    "maintain": Entry(
        f"{_COMMANDS}.maintenance_command", "maintain", "Optimize and clean up when due."
    ),
    "recover": Entry(
        f"{_COMMANDS}.maintenance_command", "recover", "Finish or undo interrupted writes."
    ),
    "recovery": Entry(f"{_COMMANDS}.maintenance_command", "recovery", "Show interrupted writes."),
    "schema": Entry(
        f"{_COMMANDS}.schema_command", "schema", "Show schemas, plan changes and apply them."
    ),
    "lint": Entry(f"{_COMMANDS}.queries_command", "lint", "Check a query file against a schema."),
    "fmt": Entry(f"{_COMMANDS}.queries_command", "fmt", "Format schema and query files."),
    "explain": Entry(f"{_COMMANDS}.queries_command", "explain", "Show the plan of a query."),
    "policy": Entry(f"{_COMMANDS}.policy_command", "policy", "Check and try policy bundles."),
    "queries": Entry(f"{_COMMANDS}.queries_command", "queries", "Check stored queries."),
    "cluster": Entry(
        f"{_COMMANDS}.cluster_command", "cluster", "Declare graphs in files and apply them."
    ),
    "embed": Entry(f"{_COMMANDS}.embed_command", "embed", "Embed the texts of records in a file."),
    "graphs": Entry(f"{_COMMANDS}.serve_command", "graphs", "List the graphs of a server."),
    "serve": Entry(f"{_COMMANDS}.serve_command", "serve", "Serve graphs over HTTP."),
    "login": Entry(f"{_COMMANDS}.config_command", "login", "Store the token for a server."),
    "logout": Entry(f"{_COMMANDS}.config_command", "logout", "Remove the token for a server."),
    "config": Entry(f"{_COMMANDS}.config_command", "config", "Show the operator's configuration."),
    "profile": Entry(f"{_COMMANDS}.config_command", "profile", "Show the operator's profiles."),
    "completion": Entry(
        f"{_COMMANDS}.config_command", "completion", "Print a completion script for a shell."
    ),
    "version": Entry(
        f"{_COMMANDS}.config_command", "version", "Print the release and storage format."
    ),
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
        # One more, while the command was being ended: nothing is left to be ended in order.
        os._exit(EXIT_INTERRUPTED)
    sys.exit(code)


def _finish(argv: Sequence[str]) -> int:
    """The code of a command; no interrupt changes it while the interpreter ends."""
    raise_interrupts()
    try:
        if isinstance(sys.stdout, io.TextIOWrapper):
            # A name that is no UTF-8 must not end a command that only wants to repeat it.
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
        # What is left to be printed could wait for a reader, and nobody could end that any more.
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
    """Let what is printed there, now and when the interpreter ends, go nowhere."""
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
        return _say_interrupted()
    except BrokenPipeError:
        return EXIT_FAILURE
    except click.ClickException as error:
        return fail_request(error.format_message(), wants_json=wants_json)
    except SystemExit:
        raise
    except BaseException as error:  # noqa: BLE001 - the one place where nothing may pass
        # A panic of native code is no `Exception`.
        if is_interrupt(error):
            return _say_interrupted()
        return fail_with(error, wants_json=wants_json)


def _say_interrupted() -> int:
    make_room()
    click.echo("interrupted", err=True)
    return EXIT_INTERRUPTED

"""The shell: statements typed at a prompt or piped in, run one after the other."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import click

from omnigraph.cli.answers import render_answer, render_mutation
from omnigraph.cli.error_output import describe_error
from omnigraph.cli.interrupts import forget_interrupt, is_interrupt
from omnigraph.cli.output import encode_json, note
from omnigraph.cli.shell_input import Completer, list_words, split_statements, wrap_as_query
from omnigraph.client.operator_config import OUTPUT_FORMATS, OperatorConfig
from omnigraph.errors import OmniError

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.graph.query_result import QueryResult

PROMPT, MORE = "omnigraph> ", "       ...> "
INTERRUPTED = "\ninterrupted"  # behind the ^C that the terminal shows


class _Quit(Exception):
    """The user leaves the shell."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command that starts with a dot."""

    usage: str
    meaning: str
    run: Callable[[Shell, str], None]


class Shell:
    """A graph, the branch that is being worked on, and how rows are shown."""

    def __init__(self, graph: Graph, config: OperatorConfig, branch: str) -> None:
        self.graph, self.config, self.branch = graph, config, branch
        self.format = config.output
        self.params: dict[str, object] | None = None

    def run(self, statement: str) -> bool:
        """Run one statement and say whether it worked; mistakes are shown, not raised."""
        try:
            if statement.startswith("."):
                self._run_command(statement)
            else:
                self._run_query(wrap_as_query(statement))
        except OmniError as error:
            if is_interrupt(error):
                raise KeyboardInterrupt from error
            note(describe_error(error))
            return False
        except click.ClickException as error:
            note(f"error: {error.format_message()}")
            return False
        return True

    def completer(self) -> Completer:
        """Completes names as the schema of the graph has them now."""
        return Completer(COMMANDS, lambda: list_words(self.graph.catalog))

    def _run_command(self, statement: str) -> None:
        name, _, rest = statement.partition(" ")
        command = COMMANDS.get(name)
        if command is None:
            raise click.ClickException(f"no such command '{name}'; .help lists them")
        command.run(self, rest.strip())

    def _run_query(self, text: str) -> None:
        view = self.graph.at(branch=self.branch)
        if view.explain_json(text)["kind"] == "read":
            self.show(view.query(text, None, self.params))
            return
        done = self.graph.mutate(text, None, self.params, branch=self.branch)
        click.echo(render_mutation(done))

    def show(self, result: QueryResult) -> None:
        for line in render_answer(result, self.format, self.config):
            click.echo(line)


def _run_help(shell: Shell, rest: str) -> None:  # noqa: ARG001
    width = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        click.echo(f"{command.usage.ljust(width)}  {command.meaning}")
    click.echo("\nAnything else is a query, or the body of one: match { … } return { … }")


def _run_schema(shell: Shell, rest: str) -> None:  # noqa: ARG001
    click.echo(shell.graph.schema.rstrip("\n"))


def _run_types(shell: Shell, rest: str) -> None:  # noqa: ARG001
    for table in shell.graph.snapshot(shell.branch).tables:
        click.echo(f"{table.table_key}  {table.row_count} rows")


def _run_branch(shell: Shell, rest: str) -> None:
    if rest:
        shell.graph.snapshot(rest)
        shell.branch = rest
    for name in shell.graph.branches():
        click.echo(f"{'*' if name == shell.branch else ' '} {name}")


def _run_commits(shell: Shell, rest: str) -> None:
    if rest and not rest.isdigit():
        raise click.ClickException("the number of commits must be an integer")
    for one in shell.graph.commits(shell.branch)[: int(rest or 10)]:
        click.echo(f"{one.commit_id}  {one.branch}  {one.actor_id or '-'}")


def _format(shell: Shell, rest: str) -> None:
    if rest:
        if rest not in OUTPUT_FORMATS:
            raise click.ClickException(f"the format must be one of {', '.join(OUTPUT_FORMATS)}")
        shell.format = rest
    click.echo(shell.format)


def _run_params(shell: Shell, rest: str) -> None:
    from omnigraph.cli.input_files import read_parameters

    if rest:
        given = read_parameters(rest, None)
        shell.params = dict(given) if given else None
    click.echo(encode_json(shell.params))


def _explain(shell: Shell, rest: str) -> None:
    if not rest:
        raise click.ClickException("give the query on the same line as .explain")
    click.echo(shell.graph.at(branch=shell.branch).explain(wrap_as_query(rest)))


def _run_quit(shell: Shell, rest: str) -> None:  # noqa: ARG001
    raise _Quit


COMMANDS = {
    ".help": ShellCommand(".help", "list these commands", _run_help),
    ".schema": ShellCommand(".schema", "print the schema", _run_schema),
    ".types": ShellCommand(".types", "count the rows of every type", _run_types),
    ".branch": ShellCommand(".branch [NAME]", "list the branches, or work on another", _run_branch),
    ".commits": ShellCommand(".commits [N]", "show the newest commits", _run_commits),
    ".format": ShellCommand(".format [F]", "show or set how rows are printed", _format),
    ".params": ShellCommand(".params [JSON]", "show or set the parameters of queries", _run_params),
    ".explain": ShellCommand(".explain QUERY", "show the plan of a query", _explain),
    ".quit": ShellCommand(".quit", "leave the shell, as does the end of the input", _run_quit),
}


def run_interactively(shell: Shell, read_line: Callable[[str], str] = input) -> None:
    """Prompt until the person leaves. An interrupt drops what is being typed or run."""
    notice = f"{shell.graph.uri} on {shell.branch}; .help for help"
    while True:
        try:
            note(notice)  # in here, for another interrupt may come while it is said
            forget_interrupt()
            notice = ""
            for statement in split_statements(_read_typed_lines(read_line)):
                notice = INTERRUPTED
                shell.run(statement)
                notice = ""
        except KeyboardInterrupt:
            continue
        except _Quit:
            pass
        return


def _read_typed_lines(read_line: Callable[[str], str]) -> Iterator[str]:
    from omnigraph.cli.shell_input import is_whole

    waiting = ""
    while True:
        try:
            line = read_line(MORE if waiting else PROMPT)
        except EOFError:
            click.echo("", err=True)
            return
        waiting += line + "\n"
        if is_whole(waiting):
            waiting = ""
        yield line


def run_script(shell: Shell) -> int:
    """Run what is piped in up to the first mistake; the exit code."""
    assert sys.stdin is not None, "the caller has looked"
    try:
        for statement in split_statements(iter(sys.stdin)):
            if not shell.run(statement):
                return 1
    except _Quit:
        pass
    return 0

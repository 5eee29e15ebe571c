"""The shell: statements typed at a prompt or piped in, run one after the other."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING

import click

from omnigraph.cli.answers import render_answer, render_mutation, render_rows
from omnigraph.cli.commit_rendering import render_commits
from omnigraph.cli.error_output import describe_error
from omnigraph.cli.interrupts import forget_interrupt, is_interrupt
from omnigraph.cli.output import encode_json, note
from omnigraph.cli.shell_input import Completer, StatementReader, list_words
from omnigraph.client.operator_config import OUTPUT_FORMATS, OperatorConfig
from omnigraph.errors import OmniError

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph

PROMPT, MORE = "omnigraph> ", "       ...> "
NAME = "shell"
"""What a statement without a name is called."""
HOW_TO_TYPE = """\
Anything else is a query, or the body of one: match { … } return { … }, insert …
A statement ends with a semicolon or an empty line; on one line it needs neither.
Commands work within a statement too; Ctrl-C drops it."""
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
                self._run_query(statement)
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

    def complete(self, statement: str) -> tuple[str, dict[str, object] | None]:
        """A statement as a query, and those of the parameters that it names."""
        from omnigraph.cli.bare_statements import (
            complete_query,
            count_mistakes,
            select_parameters,
        )

        view = self.graph.at(branch=self.branch)
        count = partial(count_mistakes, view)
        query = complete_query(statement, NAME, self.params, count)
        return query, select_parameters(statement, self.params)

    def _run_query(self, statement: str) -> None:
        text, params = self.complete(statement)
        view = self.graph.at(branch=self.branch)
        is_read = view.explain_json(text)["kind"] == "read"
        started = time.perf_counter()
        if not is_read:
            done = self.graph.mutate(text, None, params, branch=self.branch)
            click.echo(f"{render_mutation(done)} ({_tell_since(started)})")
            return
        result = view.query(text, None, params)
        if self.format != "table":
            for line in render_answer(result, self.format, self.config):
                click.echo(line)
            return
        for line in render_rows(result, self.config):
            click.echo(line)
        rows = "1 row" if len(result) == 1 else f"{len(result):,} rows"
        click.echo(f"({rows}, {_tell_since(started)})")


def _tell_since(started: float) -> str:
    seconds = time.perf_counter() - started
    return f"{seconds * 1_000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _run_help(shell: Shell, rest: str) -> None:  # noqa: ARG001
    width = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        click.echo(f"{command.usage.ljust(width)}  {command.meaning}")
    click.echo(f"\n{HOW_TO_TYPE}")


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
    for line in render_commits(shell.graph.commits(shell.branch, limit=int(rest or 10))):
        click.echo(line)


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
    query, _ = shell.complete(rest)
    click.echo(shell.graph.at(branch=shell.branch).explain(query))


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
            for statement in _read_typed(read_line):
                notice = INTERRUPTED
                shell.run(statement)
                notice = ""
        except KeyboardInterrupt:
            continue
        except _Quit:
            pass
        return


def _read_typed(read_line: Callable[[str], str]) -> Iterator[str]:
    """Whole statements, until the input ends."""
    reader = StatementReader(COMMANDS)
    while True:
        try:
            line = read_line(MORE if reader.is_waiting else PROMPT)
        except EOFError:
            click.echo("", err=True)
            yield from reader.finish()
            return
        yield from reader.add(line)


def _read_piped(lines: Iterable[str]) -> Iterator[str]:
    reader = StatementReader(COMMANDS)
    for line in lines:
        yield from reader.add(line)
    yield from reader.finish()


def run_script(shell: Shell) -> int:
    """Run what is piped in up to the first mistake; the exit code."""
    assert sys.stdin is not None, "the caller has looked"
    try:
        for statement in _read_piped(sys.stdin):
            if not shell.run(statement):
                return 1
    except _Quit:
        pass
    return 0

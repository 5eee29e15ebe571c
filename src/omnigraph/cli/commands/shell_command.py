"""`omnigraph shell`: statements typed at a prompt or piped in, run one after the other."""

from __future__ import annotations

import atexit
import sys
import time
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import click

from omnigraph.cli.error_output import describe_error
from omnigraph.cli.examples import render_examples
from omnigraph.cli.history_rendering import render_commits
from omnigraph.cli.result_formats import render_answer, render_mutation, render_rows
from omnigraph.cli.shared_options import CommandTarget, add_graph_options
from omnigraph.cli.terminal import encode_json, forget_interrupt, is_interrupt, note
from omnigraph.client.operator_config import OUTPUT_FORMATS, OperatorConfig, find_config_folder
from omnigraph.errors import OmniError

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog
    from omnigraph.graph.graph import Graph


MAX_HISTORY = 1_000
_WORD_ENDS = " \t\n{}()[]:,=<>$"


class StatementReader:
    """Lines as they are typed or piped in, cut into whole statements.

    A statement ends with a semicolon, with an empty line outside of its braces, or with its line
    if it is whole. A line that starts with the name of a command is one, wherever it stands.
    """

    def __init__(self, commands: Container[str]) -> None:
        self._commands, self._waiting = commands, ""

    @property
    def is_waiting(self) -> bool:
        """Return whether more lines belong to a statement."""
        return bool(self._waiting)

    def add(self, line: str) -> Iterator[str]:
        """Add a line and yield the statements that it completes."""
        if self._is_command(line.strip()):
            yield line.strip().rstrip("; ")
            return
        self._waiting += line.rstrip("\r\n") + "\n"
        *ended, rest = split_at_semicolons(self._waiting)
        self._waiting = rest if rest.strip() else ""
        yield from ended
        if self._waiting and is_whole(self._waiting):
            yield from self.finish()

    def finish(self) -> Iterator[str]:
        """Return the rest as one more statement, unless it is only a comment."""
        text, self._waiting = self._waiting.strip(), ""
        if has_words(text):
            yield text

    def _is_command(self, line: str) -> bool:
        if not line.startswith("."):
            return False
        return not self._waiting or line.rstrip(";").split(None, 1)[0] in self._commands


def split_at_semicolons(text: str) -> list[str]:
    """Split at semicolons outside of texts and comments; the last part is the rest."""
    from omnigraph.cli.commands.query_command import read_tokens

    pieces, start = [], 0
    for found in read_tokens(text)[1].found:
        if found.code == "P102" and text[found.start] == ";":
            pieces.append(text[start : found.start])
            start = found.end
    whole = [piece.strip() for piece in pieces if has_words(piece)]
    return [*whole, text[start:]]


def has_words(text: str) -> bool:
    """Return whether a text has anything but blanks and comments."""
    from omnigraph.cli.commands.query_command import read_tokens

    tokens, problems = read_tokens(text)
    return len(tokens) > 1 or bool(problems.found)


def is_whole(text: str) -> bool:
    """Return whether a statement is complete.

    A `query` ends with its last brace. A body without one ends where its line does if nothing is
    missing behind it, and otherwise at an empty line.
    """
    from omnigraph.cli.commands.query_command import read_tokens
    from omnigraph.language.lexer import TokenKind

    tokens, problems = read_tokens(text)
    if any(found.code in ("P103", "P104") for found in problems.found):
        return False
    if len(tokens) == 1:
        return True  # a remark
    symbols = [token.value for token in tokens if token.kind is TokenKind.SYMBOL]
    depth = symbols.count("{") - symbols.count("}")
    if depth > 0:
        return False
    if tokens[0].value == "query":
        return "{" in symbols
    lines = text.splitlines()
    is_ended = len(lines) > 1 and not lines[-1].strip()
    is_one_line = "\n" not in text.strip() and not _is_unfinished(text.strip())
    return is_ended or is_one_line or depth < 0


def _is_unfinished(body: str) -> bool:
    """Return whether the only mistake of a query body is that it ends too early."""
    from omnigraph.cli.commands.query_command import wrap
    from omnigraph.errors import CompileError
    from omnigraph.language.query_parser import parse_query_file
    from omnigraph.language.source import SourceText

    query = wrap(body, "unfinished")
    try:
        parse_query_file(SourceText(query, "<shell>"))
    except CompileError as error:
        return all(mistake.start >= len(query) - 1 for mistake in error.diagnostics)
    return False


def list_words(catalog: Catalog) -> tuple[str, ...]:
    """Return every name of the schema that a query can use."""
    names: set[str] = set()
    for type_ in catalog.by_table_key.values():
        names.add(type_.name)
        names.update(property_.name for property_ in type_.properties)
    for edge in catalog.edges.values():
        names.add(edge.name[:1].lower() + edge.name[1:])
    return tuple(sorted(names))


class Completer:
    """Completes the word before the cursor: commands after a dot, otherwise names and keywords."""

    def __init__(self, commands: Iterable[str], names: Callable[[], Iterable[str]]) -> None:
        self._commands, self._names = tuple(commands), names
        self._found: list[str] = []

    def __call__(self, text: str, state: int) -> str | None:
        if state == 0:
            self._found = self.matching(text)
        return self._found[state] if state < len(self._found) else None

    def matching(self, text: str) -> list[str]:
        if text.startswith("."):
            return [name for name in self._commands if name.startswith(text)]
        head, dot, tail = text.rpartition(".")
        from omnigraph.language.query_parser import QUERY_WORDS

        known = sorted({*self._names(), *(() if dot else QUERY_WORDS)})
        return [f"{head}{dot}{word}" for word in known if word.startswith(tail)]


def use_readline(completer: Completer, history: Path) -> None:
    """Enable line editing, completion and history, if the platform supports them."""
    try:
        import readline
    except ImportError:  # a Python built without it still has a shell
        return
    readline.set_completer(completer)
    readline.set_completer_delims(_WORD_ENDS)
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    readline.set_history_length(MAX_HISTORY)
    with suppress(OSError):
        readline.read_history_file(history)
    atexit.register(_save_history, history)


def _save_history(path: Path) -> None:
    import readline

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        readline.write_history_file(path)


PROMPT, MORE = "omnigraph> ", "       ...> "
NAME = "shell"
"""The name of a statement without a name."""
INPUT_HINT = """\
Anything else is a query, or the body of one: match { … } return { … }, insert …
A statement ends with a semicolon or an empty line; on one line it needs neither.
Commands work within a statement too; Ctrl-C drops it."""
INTERRUPTED = "\ninterrupted"  # behind the ^C that the terminal shows


class _Quit(Exception):
    """Raised to leave the shell."""


@dataclass(frozen=True, slots=True)
class ShellCommand:
    """A command that starts with a dot."""

    usage: str
    meaning: str
    run: Callable[[Shell, str], None]


class Shell:
    """The state of a session: a graph, the current branch, and the format of rows."""

    def __init__(self, graph: Graph, config: OperatorConfig, branch: str) -> None:
        self.graph, self.config, self.branch = graph, config, branch
        self.format = config.output
        self.params: dict[str, object] | None = None

    def run(self, statement: str) -> bool:
        """Run one statement and return whether it succeeded; errors are printed, not raised."""
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
        """Return a statement as a query, with the parameters that it names."""
        from omnigraph.cli.commands.query_command import (
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
            click.echo(f"{render_mutation(done)} ({_print_elapsed(started)})")
            return
        result = view.query(text, None, params)
        if self.format != "table":
            for line in render_answer(result, self.format, self.config):
                click.echo(line)
            return
        for line in render_rows(result, self.config):
            click.echo(line)
        rows = "1 row" if len(result) == 1 else f"{len(result):,} rows"
        click.echo(f"({rows}, {_print_elapsed(started)})")


def _print_elapsed(started: float) -> str:
    seconds = time.perf_counter() - started
    return f"{seconds * 1_000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _run_help(shell: Shell, rest: str) -> None:  # noqa: ARG001
    width = max(len(command.usage) for command in COMMANDS.values())
    for command in COMMANDS.values():
        click.echo(f"{command.usage.ljust(width)}  {command.meaning}")
    click.echo(f"\n{INPUT_HINT}")


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
    """Prompt until the user leaves. An interrupt cancels the current input or statement."""
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
    """Yield whole statements until the input ends."""
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
    """Run piped statements up to the first error; return the exit code."""
    assert sys.stdin is not None, "the caller has looked"
    try:
        for statement in _read_piped(sys.stdin):
            if not shell.run(statement):
                return 1
    except _Quit:
        pass
    return 0


@click.command(epilog=render_examples("shell"))
@add_graph_options(positional=True, writes=True)
@click.option("--branch", default="main", show_default=True, help="The branch to start on.")
@click.option("--read-only", is_flag=True, help="Refuse mutations.")
def shell(scope: CommandTarget, branch: str, read_only: bool) -> int:
    """Run queries and mutations typed at a prompt, or piped in.

    Piped statements stop at the first mistake. The history is kept next to the configuration.
    """
    if sys.stdin is None:
        raise click.ClickException("standard input is closed")
    opened = Shell(scope.open(read_only=read_only), scope.config, branch)
    opened.graph.snapshot(branch)
    if not sys.stdin.isatty():
        return run_script(opened)
    use_readline(opened.completer(), find_config_folder() / "history")
    run_interactively(opened)
    return 0

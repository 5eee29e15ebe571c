"""What a person types into the shell: whole statements, completed words, a history."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Container, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog

MOST_HISTORY = 1_000
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
        """Whether more lines belong to a statement."""
        return bool(self._waiting)

    def add(self, line: str) -> Iterator[str]:
        """The statements that a line completes."""
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
        """What is left as one more statement, unless it is only a comment."""
        text, self._waiting = self._waiting.strip(), ""
        if has_words(text):
            yield text

    def _is_command(self, line: str) -> bool:
        if not line.startswith("."):
            return False
        return not self._waiting or line.rstrip(";").split(None, 1)[0] in self._commands


def split_at_semicolons(text: str) -> list[str]:
    """What is between semicolons that are not part of a text or a comment; the last is the rest."""
    from omnigraph.cli.bare_statements import read_tokens

    pieces, start = [], 0
    for found in read_tokens(text)[1].found:
        if found.code == "P102" and text[found.start] == ";":
            pieces.append(text[start : found.start])
            start = found.end
    whole = [piece.strip() for piece in pieces if has_words(piece)]
    return [*whole, text[start:]]


def has_words(text: str) -> bool:
    """Whether there is anything but blanks and comments."""
    from omnigraph.cli.bare_statements import read_tokens

    tokens, problems = read_tokens(text)
    return len(tokens) > 1 or bool(problems.found)


def is_whole(text: str) -> bool:
    """Whether a statement can be run as it stands, or more lines belong to it.

    A `query` ends with its last brace. A body without one ends where its line does if nothing is
    missing behind it, and otherwise at an empty line.
    """
    from omnigraph.cli.bare_statements import read_tokens
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
    """Whether something is missing behind the body of a query, which has no mistake before that."""
    from omnigraph.cli.bare_statements import wrap
    from omnigraph.errors import CompileError
    from omnigraph.language.query.query_parser import parse_query_file
    from omnigraph.language.source import SourceText

    query = wrap(body, "unfinished")
    try:
        parse_query_file(SourceText(query, "<shell>"))
    except CompileError as error:
        return all(mistake.start >= len(query) - 1 for mistake in error.diagnostics)
    return False


def list_words(catalog: Catalog) -> tuple[str, ...]:
    """Every name of the schema that a query can use."""
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
        from omnigraph.language.query.query_words import QUERY_WORDS

        known = sorted({*self._names(), *(() if dot else QUERY_WORDS)})
        return [f"{head}{dot}{word}" for word in known if word.startswith(tail)]


def use_readline(completer: Completer, history: Path) -> None:
    """Edit lines, complete words and remember what was typed, where that is possible."""
    try:
        import readline
    except ImportError:  # a Python built without it still has a shell
        return
    readline.set_completer(completer)
    readline.set_completer_delims(_WORD_ENDS)
    libedit = "libedit" in (readline.__doc__ or "")
    readline.parse_and_bind("bind ^I rl_complete" if libedit else "tab: complete")
    readline.set_history_length(MOST_HISTORY)
    with suppress(OSError):
        readline.read_history_file(history)
    atexit.register(_save_history, history)


def _save_history(path: Path) -> None:
    import readline

    with suppress(OSError):
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch(mode=0o600)
        readline.write_history_file(path)

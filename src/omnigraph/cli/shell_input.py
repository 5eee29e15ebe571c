"""What a person types into the shell: whole statements, completed words, a history."""

from __future__ import annotations

import atexit
from collections.abc import Callable, Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog

KEYWORDS = (
    "and", "as", "asc", "avg", "bm25", "contains", "count", "delete", "desc", "insert", "limit",
    "match", "max", "min", "nearest", "not", "optional", "or", "order", "query", "return", "rrf",
    "search", "set", "sum", "update", "where",
)  # fmt: skip
MOST_HISTORY = 1_000
_WORD_ENDS = " \t\n{}()[]:,=<>$"


def is_whole(text: str) -> bool:
    """Whether a statement can be run as it stands, or more lines belong to it.

    A `query` ends with its last brace. A body without one ends where its line does if it says
    what to return or what to change, and otherwise at an empty line or a semicolon.
    """
    from omnigraph.language.lexer import TokenKind, tokenize
    from omnigraph.language.source import Problems, SourceText

    if not text.strip() or text.lstrip().startswith("."):
        return True
    source = SourceText(text.rstrip().removesuffix(";"), "<shell>")
    problems = Problems(source, "shell")
    tokens = tokenize(source, problems)
    if any(found.code in ("P103", "P104") for found in problems.found):
        return False
    symbols = [token.value for token in tokens if token.kind is TokenKind.SYMBOL]
    depth = symbols.count("{") - symbols.count("}")
    if depth > 0:
        return False
    first = tokens[0].value
    if first == "query":
        return "{" in symbols
    is_ended = text.endswith("\n\n") or text.rstrip().endswith(";")
    words = {token.value for token in tokens if token.kind is TokenKind.NAME}
    is_one_line = "\n" not in text.strip() and bool(
        words & {"return", "insert", "update", "delete"}
    )
    return is_ended or is_one_line or depth < 0


def wrap_as_query(text: str) -> str:
    """The statement as a query of its own; a body alone gets the name `shell`."""
    body = text.strip().removesuffix(";")
    return body if body.split(None, 1)[0].startswith(("query", "//", "/*")) else wrap(body)


def wrap(body: str) -> str:
    """A body as a query; what went wrong in it stays on its line."""
    return f"query shell() {{ {body}\n}}"


def split_statements(lines: Iterator[str]) -> Iterator[str]:
    """Whole statements out of lines; what is left at the end is one more."""
    waiting = ""
    for line in lines:
        waiting += line.rstrip("\r\n") + "\n"
        if is_whole(waiting):
            if waiting.strip():
                yield waiting.strip()
            waiting = ""
    if waiting.strip():
        yield waiting.strip()


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
        known = sorted({*self._names(), *(() if dot else KEYWORDS)})
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

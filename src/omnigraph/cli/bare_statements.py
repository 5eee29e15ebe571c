"""Statements without the query around them: `match { … } return { … }`, `insert …`."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Protocol

from omnigraph.errors import CompileError
from omnigraph.language.lexer import Token, TokenKind, tokenize
from omnigraph.language.source import Problems, SourceText

NAME = "statement"
"""What a query is called that has no name."""
_WHOLE_NUMBERS = ("I64", "I32", "U64", "U32", "F64", "F32")
_NUMBERS = ("F64", "F32")
_TEXTS = ("String", "Date", "DateTime", "Blob")


def read_tokens(text: str) -> tuple[list[Token], Problems]:
    """The tokens of a text, and what of it cannot be read."""
    problems = Problems(SourceText(text, "<statement>"), "parse")
    return tokenize(problems.source, problems), problems


def is_bare(text: str) -> bool:
    """Whether a text is the body of a query only."""
    first = read_tokens(text)[0][0]
    return first.kind is not TokenKind.END and first.value != "query"


def select_parameters(text: str, params: Mapping[str, object] | None) -> dict[str, object] | None:
    """Those of the parameters that a text names."""
    if not params:
        return None
    named = {token.value[1:] for token in read_tokens(text)[0] if token.kind is TokenKind.VARIABLE}
    return {name: value for name, value in params.items() if name in named} or None


def complete_query(
    text: str,
    name: str,
    params: Mapping[str, object] | None,
    count_mistakes: Callable[[str], int],
) -> str:
    """The text as a query; a body alone gets a name, and its parameters get types.

    What went wrong in it stays on its line. The type of a parameter is the first that its value
    could have and that leaves the fewest mistakes.
    """
    body = text.strip()
    if not is_bare(body):
        return body
    candidates = {
        parameter: list_types(value)
        for parameter, value in (select_parameters(body, params) or {}).items()
    }
    chosen = {parameter: types[0] for parameter, types in candidates.items()}
    for parameter, types in candidates.items():
        if len(types) > 1:
            chosen[parameter] = min(
                types,
                key=lambda kind: count_mistakes(wrap(body, name, {**chosen, parameter: kind})),
            )
    return wrap(body, name, chosen)


class Explains(Protocol):
    """A graph as it is somewhere, embedded or served."""

    def explain_json(self, query: str) -> Mapping[str, object]: ...


def count_mistakes(view: Explains, text: str) -> int:
    """How many mistakes a query has there."""
    try:
        view.explain_json(text)
    except CompileError as error:
        return len(error.diagnostics)
    return 0


def complete_source(
    source: SourceText,
    name: str | None,
    params: Mapping[str, object] | None,
    open_view: Callable[[], Explains],
) -> SourceText:
    """What was written on the command line as a query.

    The view is opened only if there are parameters whose types it can tell.
    """
    if not is_bare(source.text):
        return source
    view = cache(open_view)
    text = complete_query(
        source.text, name or NAME, params, lambda text: count_mistakes(view(), text)
    )
    return SourceText(text, source.name)


def list_types(value: object) -> tuple[str, ...]:
    """The types that a parameter with this value can have, the likely ones first."""
    match value:
        case bool():
            return ("Bool",)
        case int():
            return _WHOLE_NUMBERS
        case float():
            return _NUMBERS
        case str():
            return _TEXTS
        case None:
            return tuple(f"{kind}?" for kind in (*_TEXTS, *_WHOLE_NUMBERS, "Bool"))
        case [first, *_]:
            is_vector = all(isinstance(one, int | float) for one in value)
            vector = (f"Vector({len(value)})",) if is_vector else ()
            return (*(f"[{kind}]" for kind in list_types(first)), *vector)
        case _:
            return ("[String]",)


def wrap(body: str, name: str, types: Mapping[str, str] | None = None) -> str:
    """A body as a query with these parameters, on the lines where it stood."""
    declared = ", ".join(f"${parameter}: {kind}" for parameter, kind in (types or {}).items())
    return f"query {name}({declared}) {{ {body}\n}}"

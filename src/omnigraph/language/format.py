"""Format schema and query files in the one layout their printers write, comments included.

Comments are not part of a syntax tree: they are inserted again into the printed text.
"""

from __future__ import annotations

import re
from bisect import bisect_right
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field

from omnigraph.language.lexer import Token, TokenKind, find_comments, tokenize
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.schema_parser import parse_schema
from omnigraph.language.source import Problems, SourceText, Span
from omnigraph.language.syntax_printer import print_query_file, print_schema

_INDENT = "  "
_SPACE = re.compile(r"\s*")
_IN_A_ROW = 3
_FARTHEST = 200


@dataclass(slots=True)
class _Placed:
    """The comments of one printed line."""

    above: list[str] = field(default_factory=list)
    behind: str | None = None


def restore_comments(source: SourceText, printed: str) -> str:
    """The printed text with every comment of the source, which it was printed from."""
    comments = find_comments(source.text)
    if not comments:
        return printed
    old, new = _tokenize(source), _tokenize(SourceText(printed))
    same = _match_tokens(old, new)
    lines = printed.split("\n")
    starts = [0]
    for line in lines:
        starts.append(starts[-1] + len(line) + 1)
    placed: defaultdict[int, _Placed] = defaultdict(_Placed)
    for span in comments:
        following = bisect_right(old, span.start, key=lambda token: token.span.start)
        before = old[following - 1].span.end if following else 0
        is_behind = following > 0 and "\n" not in source.text[before : span.start]
        token = new[same[following - 1] if is_behind else same[following]]
        at = bisect_right(starts, token.span.start) - 1
        _place(placed[at], lines[at], token, _get_text(source, span), is_behind=is_behind)
    return "\n".join(_insert_comments(lines, placed))


def _tokenize(source: SourceText) -> list[Token]:
    return tokenize(source, Problems(source, "parse"))


def _match_tokens(old: Sequence[Token], new: Sequence[Token]) -> list[int]:
    """Map each token of one text to its token in the other, or to the one before its gap.

    Printing adds and drops few tokens, so the next match is near; a general comparison would take
    time quadratic in the length.
    """
    before = [(token.kind, token.value) for token in old]
    after = [(token.kind, token.value) for token in new]
    found: list[int] = []
    at = 0
    while len(found) < len(before):
        if at < len(after) and before[len(found)] == after[at]:
            found.append(at)
            at += 1
            continue
        dropped, added = _find_next_agreement(before, after, len(found), at)
        found += [max(0, at - 1)] * dropped
        at = min(at + added, len(after))
    return found


def _find_next_agreement(
    before: Sequence[object], after: Sequence[object], here: int, there: int
) -> tuple[int, int]:
    """Return the tokens to skip in each text until some in a row agree."""
    for steps in range(1, _FARTHEST):
        for dropped in range(steps + 1):
            left, right = here + dropped, there + steps - dropped
            wanted = before[left : left + _IN_A_ROW]
            if wanted and wanted == after[right : right + _IN_A_ROW]:
                return dropped, steps - dropped
    return 1, 1


def _get_text(source: SourceText, span: Span) -> str:
    """Return the comment; one above a top-level declaration keeps the blank line after it."""
    text = "\n".join(line.rstrip() for line in source.text[span.start : span.end].splitlines())
    gap = _SPACE.match(source.text, span.end)
    return f"{text}\n" if gap and gap.group().count("\n") > 1 else text


def _place(placed: _Placed, line: str, token: Token, text: str, *, is_behind: bool) -> None:
    indent = line[: len(line) - len(line.lstrip())]
    if is_behind:
        if placed.behind is not None:
            placed.above.append(indent + placed.behind)
        placed.behind = text.rstrip()
        return
    closes = token.kind is TokenKind.SYMBOL and token.value == "}" and line.strip() == "}"
    inner = indent + _INDENT if closes else indent
    keeps_gap = not inner and token.kind is not TokenKind.END
    placed.above.append(inner + (text if keeps_gap else text.rstrip()))


def _insert_comments(lines: Sequence[str], placed: dict[int, _Placed]) -> list[str]:
    result: list[str] = []
    for number, line in enumerate(lines):
        here = placed.get(number, _Placed())
        result += here.above
        behind = f"{_INDENT}{here.behind}" if here.behind is not None else ""
        if line or behind or number < len(lines) - 1:
            result.append(line + behind)
    return [*result, ""] if result and result[-1] else result


def format_schema(source: SourceText) -> str:
    """Format a schema file.

    Raises:
        CompileError: the text has errors.
    """
    tree = parse_schema(source)
    text = restore_comments(source, print_schema(tree))
    assert parse_schema(SourceText(text)) == tree, "formatting must not change what a text means"
    return text


def format_queries(source: SourceText) -> str:
    """Format a query file.

    Raises:
        CompileError: the text has errors.
    """
    tree = parse_query_file(source)
    text = restore_comments(source, print_query_file(tree))
    assert parse_query_file(SourceText(text)) == tree, "as for schemas"
    return text

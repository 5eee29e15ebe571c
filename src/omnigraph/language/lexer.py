"""Text to tokens, shared by both languages."""

from __future__ import annotations

import re
from enum import StrEnum
from typing import NamedTuple

from omnigraph.language.source import MAX_PROBLEMS, MAX_SOURCE_CHARS, Problems, SourceText, Span


class TokenKind(StrEnum):
    TYPE_NAME = "type name"
    NAME = "name"
    VARIABLE = "variable"
    INTEGER = "integer"
    FLOAT = "float"
    WORD = "word"
    """Digits running into letters, such as `3d`: an enum value and nothing else."""
    STRING = "string"
    SYMBOL = "symbol"
    END = "end of file"


class Token(NamedTuple):
    """One token. `value` is the decoded text of a string, otherwise the text as written."""

    kind: TokenKind
    value: str
    span: Span

    def describe(self) -> str:
        """How a message names this token: `'foo'`, `"text"`, end of file."""
        if self.kind is TokenKind.END:
            return "end of file"
        shown = self.value if len(self.value) <= 40 else self.value[:40] + "…"
        shown = shown.replace("\r", "").replace("\n", "\\n")
        return f'"{shown}"' if self.kind is TokenKind.STRING else f"'{shown}'"


# Longer symbols first: `..` before `.`, `->` before `-`. A float needs digits on both sides of
# its dot, so `0..5` stays an integer and a range.
_TOKEN = re.compile(
    r"""
      (?P<space>[ \t\r\n]+)
    | (?P<comment>//[^\n]*|/\*(?:[^*]|\*(?!/))*+\*/)
    | (?P<open_comment>/\*)
    | (?P<type_name>[A-Z][A-Za-z0-9_]*)
    | (?P<name>[a-z_][A-Za-z0-9_]*)
    | (?P<variable>\$[a-z_][A-Za-z0-9_]*)
    | (?P<float>(?:[0-9]+\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)(?![A-Za-z0-9_]))
    | (?P<integer>[0-9]++(?![A-Za-z_]))
    | (?P<word>[0-9][A-Za-z0-9_]*)
    | (?P<string>"(?:[^"\\]|\\.)*+")
    | (?P<open_string>")
    | (?P<symbol>\.\.|->|>=|<=|!=|[-{}()\[\]:,.@?=<>|*])
    """,
    re.VERBOSE | re.DOTALL,
)
_KINDS = {kind.name.lower(): kind for kind in TokenKind}
_ESCAPES = {'"': '"', "\\": "\\", "n": "\n", "r": "\r", "t": "\t"}
_ESCAPE = re.compile(r"\\(.)", re.DOTALL)
_ESCAPED = str.maketrans({character: f"\\{letter}" for letter, character in _ESCAPES.items()})


def tokenize(source: SourceText, problems: Problems) -> list[Token]:
    """Every token of the text and an END; what cannot be read is reported and stepped over."""
    text, at = source.text, 0
    tokens: list[Token] = []
    end = len(text)
    if end > MAX_SOURCE_CHARS:
        limit = Span(MAX_SOURCE_CHARS, MAX_SOURCE_CHARS + 1)
        problems.add("P106", f"the text has {end} characters; at most {MAX_SOURCE_CHARS}", limit)
        end = 0
    while at < end:
        match = _TOKEN.match(text, at)
        if match is None:
            at = _skip_strange(text, at, problems)
            if len(problems.found) >= MAX_PROBLEMS:
                break
            continue
        kind = match.lastgroup
        assert kind is not None, "every alternative of the token pattern is named"
        span = Span(at, match.end())
        at = match.end()
        if kind == "space" or kind == "comment":
            continue
        if kind == "open_comment":
            problems.add("P103", "comment is not closed: expected `*/`", span)
            break
        if kind == "open_string":
            problems.add("P104", 'string is not closed: expected `"`', span)
            break
        value = match.group()
        if kind == "string":
            value = _decode_string(value, span, problems)
        tokens.append(Token(_KINDS[kind], value, span))
    tokens.append(Token(TokenKind.END, "", Span(len(text), len(text))))
    return tokens


def find_comments(text: str) -> list[Span]:
    """Where the comments of a text are; it must be one that `tokenize` reads without problems."""
    return [
        Span(match.start(), match.end())
        for match in _TOKEN.finditer(text)
        if match.lastgroup == "comment"
    ]


def _skip_strange(text: str, at: int, problems: Problems) -> int:
    """Report one run of characters that start no token, as one mistake."""
    end = at + 1
    while end < len(text) and text[end] == text[at]:
        end += 1
    shown = _show_character(text[at])
    hint = _STRANGE_HINTS.get(text[at])
    problems.add("P102", f"unexpected character '{shown}'", Span(at, end), hint=hint)
    return end


def _show_character(character: str) -> str:
    """The character itself, or its code point where it would spoil the line of a message."""
    return character if character.isprintable() else f"U+{ord(character):04X}"


_STRANGE_HINTS = {
    "#": "comments start with `//`",
    ";": "nothing is needed between declarations, properties or clauses",
    "$": "a variable is `$` and a name that starts in lower case",
    "'": "text is written in double quotes",
}


def quote(text: str) -> str:
    """The string literal that stands for a text."""
    return f'"{text.translate(_ESCAPED)}"'


def _decode_string(quoted: str, span: Span, problems: Problems) -> str:
    def escape(match: re.Match[str]) -> str:
        decoded = _ESCAPES.get(match.group(1))
        if decoded is None:
            start = span.start + 1 + match.start()
            problems.add(
                "P105",
                f"unsupported escape sequence '\\{_show_character(match.group(1))}'",
                Span(start, start + 2),
                hint='a string knows \\" \\\\ \\n \\r \\t',
            )
            return ""
        return decoded

    body = quoted[1:-1]
    return _ESCAPE.sub(escape, body) if "\\" in body else body

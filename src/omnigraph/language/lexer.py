"""Tokens of both languages, and a cursor over them.

The lexer turns text into tokens; the cursor moves over them, with error messages and recovery for
both parsers.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from difflib import get_close_matches
from enum import StrEnum
from itertools import islice
from typing import NamedTuple, NoReturn

from omnigraph.language.source import MAX_PROBLEMS, MAX_SOURCE_CHARS, Problems, SourceText, Span


class TokenKind(StrEnum):
    TYPE_NAME = "type name"
    NAME = "name"
    VARIABLE = "variable"
    INTEGER = "integer"
    FLOAT = "float"
    WORD = "word"
    """Digits followed by letters, such as `3d`: valid as an enum value only."""
    STRING = "string"
    SYMBOL = "symbol"
    END = "end of file"


class Token(NamedTuple):
    """One token; `value` is the decoded text of a string, otherwise the text as written."""

    kind: TokenKind
    value: str
    span: Span

    def describe(self) -> str:
        """Return the name of this token in messages: `'foo'`, `"text"`, end of file."""
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
    """List the tokens of a text and an END; unreadable characters are reported and skipped."""
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
    """Return the comments of a text that `tokenize` reads without problems."""
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
    """Return the string literal of a text."""
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


MAX_DEPTH = 64
"""Deeper nesting is rejected with its position, well before the stack of Python overflows."""

MAX_WORD_CHARS = 80
"""A longer word is no misspelling, and comparing it letter by letter would be slow."""

MAX_CANDIDATES = 300
"""Words compared for a hint at most, since comparing words is slow."""


class SyntaxStop(Exception):
    """The construct being read cannot go on; its mistake is already recorded."""


def suggest_closest(word: str, known: Iterable[str]) -> str | None:
    """Return a hint with the known word closest to `word`, if one is close."""
    if len(word) > MAX_WORD_CHARS:
        return None
    of_like_length = (name for name in known if abs(len(name) - len(word)) <= len(word))
    candidates = list(islice(of_like_length, MAX_CANDIDATES))
    matches = get_close_matches(word, candidates, n=1, cutoff=0.7)
    return f"did you mean `{matches[0]}`?" if matches else None


class Cursor:
    def __init__(self, tokens: list[Token], problems: Problems) -> None:
        self._tokens, self._at = tokens, 0
        self.problems = problems
        self._depth = 0

    # --- lookahead ---------------------------------------------------------------------------

    @property
    def token(self) -> Token:
        return self._tokens[self._at]

    @property
    def previous(self) -> Token:
        return self._tokens[self._at - 1] if self._at else self._tokens[0]

    @property
    def position(self) -> int:
        return self._at

    def peek(self, ahead: int = 1) -> Token:
        return self._tokens[min(self._at + ahead, len(self._tokens) - 1)]

    def at(self, kind: TokenKind, value: str | None = None) -> bool:
        token = self.token
        return token.kind is kind and (value is None or token.value == value)

    def at_symbol(self, value: str) -> bool:
        return self.at(TokenKind.SYMBOL, value)

    def at_word(self, value: str) -> bool:
        return self.at(TokenKind.NAME, value)

    def at_end(self) -> bool:
        return self.token.kind is TokenKind.END

    def touches_next(self) -> bool:
        """Return whether no white space separates this token and the next."""
        return self.token.span.end == self.peek().span.start and not self.at_end()

    # --- taking ------------------------------------------------------------------------------

    def advance(self) -> Token:
        token = self.token
        if token.kind is not TokenKind.END:
            self._at += 1
        return token

    def accept_symbol(self, value: str) -> bool:
        if self.at_symbol(value):
            self.advance()
            return True
        return False

    def accept_word(self, value: str) -> bool:
        if self.at_word(value):
            self.advance()
            return True
        return False

    def expect_symbol(self, value: str, why: str = "") -> Token:
        if not self.at_symbol(value):
            self.fail(f"expected `{value}`{f' {why}' if why else ''}")
        return self.advance()

    def expect_word(self, value: str, why: str = "") -> Token:
        if not self.at_word(value):
            self.fail(f"expected `{value}`{f' {why}' if why else ''}", known=(value,))
        return self.advance()

    def expect(self, kind: TokenKind, what: str) -> Token:
        if self.token.kind is not kind:
            self.fail(f"expected {what}")
        return self.advance()

    # --- mistakes ----------------------------------------------------------------------------

    def report(self, code: str, message: str, span: Span, *, hint: str | None = None) -> None:
        """Report an error; after too many of them the rest of the text is skipped."""
        self.problems.add(code, message, span, hint=hint)
        if len(self.problems.found) >= MAX_PROBLEMS:
            self._at = len(self._tokens) - 1

    def fail(
        self, expected: str, *, known: Iterable[str] = (), hint: str | None = None
    ) -> NoReturn:
        """Report what was expected here and give up the construct."""
        found = self.token
        if hint is None and found.kind in (TokenKind.NAME, TokenKind.TYPE_NAME):
            hint = suggest_closest(found.value, known)
        self.report("P107", f"{expected}, found {found.describe()}", found.span, hint=hint)
        raise SyntaxStop

    def enter(self) -> None:
        """Note one more level of nesting; pair with `leave`."""
        self._depth += 1
        if self._depth > MAX_DEPTH:
            self.report("P108", f"nested more than {MAX_DEPTH} levels deep", self.token.span)
            raise SyntaxStop

    def leave(self) -> None:
        self._depth -= 1

    def depth(self) -> int:
        return self._depth

    def restore_depth(self, depth: int) -> None:
        self._depth = depth

    def skip_until(self, stop: Callable[[], bool]) -> None:
        """Skip tokens, whole brace blocks at a time, until `stop` or an unmatched `}`."""
        open_braces = 0
        while not self.at_end():
            if open_braces == 0 and (self.at_symbol("}") or stop()):
                return
            if self.at_symbol("{"):
                open_braces += 1
            elif self.at_symbol("}"):
                open_braces -= 1
            self.advance()

"""A walk over tokens, with the messages and the recovery both parsers share."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from difflib import get_close_matches
from itertools import islice
from typing import NoReturn

from omnigraph.language.lexer import Token, TokenKind
from omnigraph.language.source import MAX_PROBLEMS, Problems, Span

MAX_DEPTH = 64
"""Nesting beyond this is refused with a position, long before Python's own stack ends."""

LONGEST_WORD = 80
"""A longer word is no slip of the pen, and comparing it letter by letter would take long."""

MOST_CANDIDATES = 300
"""Comparing words is slow; a hint is not worth more comparisons than this."""


class SyntaxStop(Exception):
    """The construct being read cannot go on; its mistake is already recorded."""


def suggest_closest(word: str, known: Iterable[str]) -> str | None:
    """A hint naming the known word most like `word`, if one is close."""
    if len(word) > LONGEST_WORD:
        return None
    of_like_length = (name for name in known if abs(len(name) - len(word)) <= len(word))
    candidates = list(islice(of_like_length, MOST_CANDIDATES))
    matches = get_close_matches(word, candidates, n=1, cutoff=0.7)
    return f"did you mean `{matches[0]}`?" if matches else None


class Cursor:
    def __init__(self, tokens: list[Token], problems: Problems) -> None:
        self._tokens, self._at = tokens, 0
        self.problems = problems
        self._depth = 0

    # --- looking -----------------------------------------------------------------------------

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
        """Whether nothing is between this token and the next."""
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
        """Record a mistake; after too many of them the rest of the text is not looked at."""
        self.problems.add(code, message, span, hint=hint)
        if len(self.problems.found) >= MAX_PROBLEMS:
            self._at = len(self._tokens) - 1

    def fail(
        self, expected: str, *, known: Iterable[str] = (), hint: str | None = None
    ) -> NoReturn:
        """Record what was expected here and give up the construct being read."""
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
        """Step over tokens, whole brace blocks at a time, until `stop` or an unmatched `}`."""
        open_braces = 0
        while not self.at_end():
            if open_braces == 0 and (self.at_symbol("}") or stop()):
                return
            if self.at_symbol("{"):
                open_braces += 1
            elif self.at_symbol("}"):
                open_braces -= 1
            self.advance()

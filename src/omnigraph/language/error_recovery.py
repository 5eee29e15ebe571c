"""Recover from a syntax error: find the start of the next construct of a query file."""

from __future__ import annotations

from collections.abc import Callable, Sequence, Sized

from omnigraph.language.lexer import Cursor, SyntaxStop, Token, TokenKind, suggest_closest

MAX_ITEMS = 1000
"""Longer lists are not hand-written, and comparing their items pairwise would be slow."""

STATEMENT_WORDS = ("insert", "merge", "update", "delete")

_CLOSERS = {"(": ")", "[": "]", "{": "}"}

Boundary = Callable[[Cursor, bool], bool]
"""Predicate for the start of a construct; the flag tells that parentheses or brackets are open."""


class _OpenBrackets:
    """The closing brackets expected for those opened so far."""

    def __init__(self) -> None:
        self.awaited: list[str] = []
        self.braces = 0

    def note(self, token: Token) -> bool:
        """Record one token; False for a `}` that closes none of them."""
        if token.kind is not TokenKind.SYMBOL:
            return True
        closer = _CLOSERS.get(token.value)
        if closer is not None:
            self.awaited.append(closer)
            self.braces += closer == "}"
        elif token.value == "}":
            if not self.braces:
                return False
            while self.awaited.pop() != "}":
                pass
            self.braces -= 1
        elif token.value in (")", "]") and self.awaited and self.awaited[-1] == token.value:
            self.awaited.pop()
        return True


def skip(cursor: Cursor, start: int, boundary: Boundary) -> None:
    """Skip the construct that began at token `start` and could not be parsed.

    Stops at a boundary, at the `}` of the enclosing block, at the next section or query, or at the
    end. At least one token is skipped, so that loops terminate.
    """
    brackets = _OpenBrackets()
    for index in range(start, cursor.position):
        brackets.note(cursor.peek(index - cursor.position))
    if cursor.position == start and not cursor.at_symbol("}"):
        brackets.note(cursor.advance())
    while not (cursor.at_end() or is_at_section(cursor)):
        if not brackets.braces and boundary(cursor, bool(brackets.awaited)):
            return
        if not brackets.note(cursor.token):
            return
        cursor.advance()


def skip_to_query(cursor: Cursor, start: int) -> None:
    """Skip to the next query of the file, past the one that began at token `start`."""
    if cursor.position == start:
        cursor.advance()
    while not (cursor.at_end() or is_at_query(cursor)):
        cursor.advance()


def skip_header(cursor: Cursor, until: Sequence[str]) -> None:
    """Skip to one of the symbols that can follow in a query header, or give up the query."""
    while not any(cursor.at_symbol(symbol) for symbol in until):
        if (
            cursor.at_end()
            or cursor.at_symbol("}")
            or is_at_section(cursor)
            or is_at_statement(cursor)
        ):
            raise SyntaxStop
        cursor.advance()


def expect_keyword(cursor: Cursor, word: str, why: str = "") -> Token:
    """Consume a keyword; a misspelled one is reported and accepted."""
    if cursor.at_word(word):
        return cursor.advance()
    token = cursor.token
    hint = suggest_closest(token.value, (word,)) if token.kind is TokenKind.NAME else None
    if hint is None:
        return cursor.expect_word(word, why)
    expected = f"expected `{word}`{f' {why}' if why else ''}"
    cursor.report("P107", f"{expected}, found {token.describe()}", token.span, hint=hint)
    return cursor.advance()


def close_block(cursor: Cursor, mistakes_before: int) -> None:
    """Consume the closing `}`; if it is missing, a later section of the query may follow.

    A missing brace is reported only if the block had no other error: recovery inside the block may
    have consumed it.
    """
    if cursor.accept_symbol("}"):
        return
    if len(cursor.problems.found) == mistakes_before:
        cursor.report("P107", f"expected `}}`, found {cursor.token.describe()}", cursor.token.span)
    if cursor.at_end() or is_at_query(cursor):
        raise SyntaxStop


def check_room(cursor: Cursor, items: Sized, what: str) -> None:
    """Reject one more item in a list of maximal length."""
    if len(items) >= MAX_ITEMS:
        cursor.report("P126", f"more than {MAX_ITEMS} {what}", cursor.token.span)
        raise SyntaxStop


def is_symbol(token: Token, value: str) -> bool:
    return token.kind is TokenKind.SYMBOL and token.value == value


# --- starts --------------------------------------------------------------------------------------


def is_first_of_line(cursor: Cursor) -> bool:
    """Return whether the current token is the first of its line."""
    if cursor.position == 0:
        return True
    gap = slice(cursor.previous.span.end, cursor.token.span.start)
    return "\n" in cursor.problems.source.text[gap]


def is_at_query(cursor: Cursor) -> bool:
    """Return whether a query starts here: `query name(`, or on a new line a misspelling of that."""
    if not cursor.at_word("query"):
        return False
    name, after = cursor.peek(), cursor.peek(2)
    named = name.kind in (TokenKind.NAME, TokenKind.TYPE_NAME)
    if named and is_symbol(after, "("):
        return True
    slip = is_symbol(name, "(") or (named and (is_symbol(after, "{") or is_symbol(after, "@")))
    return slip and is_first_of_line(cursor)


def is_at_section(cursor: Cursor) -> bool:
    """Return whether `match {`, `return {`, `return distinct {` or a query starts here."""
    if cursor.token.kind is not TokenKind.NAME:
        return False
    if cursor.token.value not in ("match", "return", "query"):
        return False
    if is_at_query(cursor):
        return True
    if cursor.at_word("return") and cursor.peek().value == "distinct":
        return is_symbol(cursor.peek(2), "{")
    return not cursor.at_word("query") and is_symbol(cursor.peek(), "{")


def is_at_block_clause(cursor: Cursor) -> bool:
    """Return whether `not {` or `optional {` starts here."""
    token = cursor.token
    if token.kind is not TokenKind.NAME or token.value not in ("not", "optional"):
        return False
    return is_symbol(cursor.peek(), "{")


def is_at_clause(cursor: Cursor, bracketed: bool) -> bool:  # noqa: FBT001 - a Boundary
    """Return whether a match clause likely starts here."""
    if is_at_block_clause(cursor) or _is_at_binding(cursor):
        return True
    if bracketed or not is_first_of_line(cursor):
        return False
    if cursor.token.kind is TokenKind.NAME:
        return cursor.token.value == "not" or is_symbol(cursor.peek(), "(")
    return cursor.token.kind is TokenKind.VARIABLE or cursor.at_symbol("(")


def _is_at_binding(cursor: Cursor) -> bool:
    return (
        cursor.token.kind is TokenKind.VARIABLE
        and is_symbol(cursor.peek(), ":")
        and cursor.peek(2).kind is TokenKind.TYPE_NAME
    )


def is_at_statement(cursor: Cursor, _bracketed: bool = False) -> bool:  # noqa: FBT001 - a Boundary
    """Return whether `insert T`, `merge T`, `update T` or `delete T` starts here."""
    token = cursor.token
    if token.kind is not TokenKind.NAME or token.value not in STATEMENT_WORDS:
        return False
    return cursor.peek().kind is TokenKind.TYPE_NAME

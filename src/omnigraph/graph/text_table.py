"""Tables as text: aligned columns, also where characters take two places or none."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterator, Sequence

_NO_PLACE = frozenset({"Mn", "Me", "Cf"})
_TWO_PLACES = frozenset({"W", "F"})


def render_text_table(
    columns: Sequence[str], rows: Sequence[Sequence[str]], max_width: int, *, wraps: bool = False
) -> Iterator[str]:
    """A header, a rule and the rows; a cell that is too wide is cut or goes on below."""

    def split(text: str, width: int) -> list[str]:
        if count_places(text) <= width:
            return [text]
        return _chop(text, width) if wraps else [f"{_chop(text, width - 1)[0]}…"]

    def join(cells: Sequence[str]) -> str:
        padded = (
            cell + " " * (width - count_places(cell))
            for cell, width in zip(cells, widths, strict=True)
        )
        return " | ".join(padded).rstrip()

    widths = [
        min(max_width, max(map(count_places, (name, *cells))))
        for name, *cells in zip(columns, *rows, strict=True)
    ]
    yield join([split(name, width)[0] for name, width in zip(columns, widths, strict=True)])
    yield "-+-".join("-" * width for width in widths)
    for row in rows:
        pieces = [split(text, width) for text, width in zip(row, widths, strict=True)]
        for line in range(max((len(p) for p in pieces), default=0)):
            yield join([p[line] if line < len(p) else "" for p in pieces])


def count_places(text: str) -> int:
    """How many places of a terminal a text takes.

    >>> count_places("Ada"), count_places("東京")
    (3, 4)
    """
    return len(text) if text.isascii() else sum(map(_count_places, text))


def _count_places(character: str) -> int:
    if unicodedata.category(character) in _NO_PLACE:
        return 0
    return 2 if unicodedata.east_asian_width(character) in _TWO_PLACES else 1


def _chop(text: str, width: int) -> list[str]:
    """The text in pieces that fit; a character that takes two places is never halved."""
    pieces, piece, taken = [], "", 0
    for character in text:
        places = _count_places(character)
        if taken + places > width:
            pieces.append(piece)
            piece, taken = "", 0
        piece, taken = piece + character, taken + places
    return [*pieces, piece]

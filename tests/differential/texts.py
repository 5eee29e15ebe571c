"""Text search by the book: words, phrases, edit distance and BM25 over lists of strings.

The analyser only folds case, splits at what is neither letter nor digit, drops a few stop words
and cuts a plural s. That is enough wherever test data sticks to plain words.
"""

from __future__ import annotations

import math
import re
from collections.abc import Sequence
from functools import cache

K1, B = 1.2, 0.75
STOP_WORDS = frozenset(["a", "an", "and", "in", "of", "or", "the", "to"])


@cache
def words(text: str) -> tuple[str, ...]:
    """The analysed words, in order."""
    found = re.findall(r"[a-z0-9]+", text.lower())
    return tuple(_singular(word) for word in found if word not in STOP_WORDS)


def _singular(word: str) -> str:
    return word[:-1] if len(word) > 3 and word.endswith("s") and not word.endswith("ss") else word


def shares_a_word(text: str, query: str) -> bool:
    return any(word in words(text) for word in words(query))


def has_phrase(text: str, query: str) -> bool:
    found, wanted = words(text), words(query)
    starts = range(len(found) - len(wanted) + 1)
    return bool(wanted) and any(found[at : at + len(wanted)] == wanted for at in starts)


def has_similar_word(text: str, query: str, distance: int) -> bool:
    return any(_edits(a, b) <= distance for a in words(text) for b in words(query))


@cache
def _edits(one: str, other: str) -> int:
    """Return the edit distance of two words: letters inserted, removed or replaced."""
    if not one or not other:
        return len(one) + len(other)
    if one[0] == other[0]:
        return _edits(one[1:], other[1:])
    return 1 + min(_edits(one[1:], other), _edits(one, other[1:]), _edits(one[1:], other[1:]))


def bm25(text: str, query: str, corpus: Sequence[str]) -> float | None:
    """The score of one text of a corpus; None when it has no word of the query."""
    if not shares_a_word(text, query):
        return None
    average = sum(len(words(other)) for other in corpus) / len(corpus)
    score = 0.0
    for word in sorted(set(words(query))):
        having = sum(word in words(other) for other in corpus)
        rarity = math.log(1 + (len(corpus) - having + 0.5) / (having + 0.5))
        often = words(text).count(word)
        length = 1 - B + B * len(words(text)) / average
        score += rarity * often * (K1 + 1) / (often + K1 * length)
    return score

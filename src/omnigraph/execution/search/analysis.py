"""Texts as words, and words as the terms that are compared.

A word is a run of letters and digits, in lower case, with accents of Latin letters taken off. Its
term is its English stem. The most common English words are no terms, though they keep their place:
a phrase with one of them in the middle has a gap there.
"""

from __future__ import annotations

import re
import unicodedata
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.tables import drop_stop_words, split_words, stem_words

_ACCENTS = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word to look for, its term, and its place among the words of the query."""

    word: str
    term: str
    place: int


def split_text(text: str) -> list[str]:
    """Every word of a text in order, common ones included."""
    if text.isascii():
        return split_words(text)
    # Accents come off before words are stemmed, so that `andre` and `André` have one stem; and
    # before words are split, so that it does not matter how an accent is written.
    decomposed = unicodedata.normalize("NFKD", text)
    plain = unicodedata.normalize("NFC", _ACCENTS.sub("", decomposed))
    # The one letter that in lower case falls apart into a letter and a mark, which is no letter.
    return [word.lower() for word in split_words(plain.replace("\u0130", "I"))]


def parse_query_words(text: str) -> tuple[QueryWord, ...]:
    """The words of a query that are worth looking for."""
    words = split_text(text)
    kept = drop_stop_words(words)
    return tuple(
        QueryWord(word, term, place)
        for place, (word, term) in enumerate(zip(words, stem_words(words), strict=True))
        if word in kept
    )


def parse_query_terms(text: str) -> tuple[str, ...]:
    """The terms of a query, each once, in the order they first come."""
    return tuple(dict.fromkeys(word.term for word in parse_query_words(text)))


def fold_to_ascii(texts: pa.Array) -> pa.Array:
    """The texts with every word in ASCII or in letters beyond it, and nothing else beyond ASCII.

    ASCII texts stay as they are; a null becomes an empty text.
    """
    filled = texts.fill_null("")
    is_foreign = pc.invert(pc.string_is_ascii(filled))
    foreign = filled.filter(is_foreign)
    if not len(foreign):
        return filled
    plain = [" ".join(split_text(text)) for text in foreign.to_pylist()]
    return pc.replace_with_mask(filled, is_foreign, pa.array(plain, filled.type))


def find_terms(words: pa.Array) -> pa.Array:
    """The term of each word; null where it is too common to be one."""
    names = words.to_pylist()
    kept = drop_stop_words(names)
    found = [
        term if word in kept else None for word, term in zip(names, stem_words(names), strict=True)
    ]
    return pa.array(found, pa.string())

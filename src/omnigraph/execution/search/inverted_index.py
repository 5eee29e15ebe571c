"""Build the inverted index of a text segment: texts to terms, terms to rows and positions."""

from __future__ import annotations

import bisect
import re
import unicodedata
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.storage.tables import drop_stop_words, split_words, stem_words

_ACCENTS = re.compile("(?<=[A-Za-z])[\u0300-\u036f]+")


@dataclass(frozen=True, slots=True)
class QueryWord:
    """A word to look for, its term, and its position among the words of the query."""

    word: str
    term: str
    position: int


def split_text(text: str) -> list[str]:
    """Split a text into words, stop words included."""
    if text.isascii():
        return split_words(text)
    # Accents come off before words are stemmed, so that `andre` and `André` have one stem; and
    # before words are split, so that it does not matter how an accent is written.
    decomposed = unicodedata.normalize("NFKD", text)
    plain = unicodedata.normalize("NFC", _ACCENTS.sub("", decomposed))
    # The one letter whose lower case is a letter and a combining mark, which is not a letter.
    return [word.lower() for word in split_words(plain.replace("\u0130", "I"))]


def parse_query_words(text: str) -> tuple[QueryWord, ...]:
    """Return the words of a query without stop words."""
    words = split_text(text)
    kept = drop_stop_words(words)
    return tuple(
        QueryWord(word, term, position)
        for position, (word, term) in enumerate(zip(words, stem_words(words), strict=True))
        if word in kept
    )


def parse_query_terms(text: str) -> tuple[str, ...]:
    """Return the distinct terms of a query, in order of appearance."""
    return tuple(dict.fromkeys(word.term for word in parse_query_words(text)))


def fold_to_ascii(texts: pa.Array) -> pa.Array:
    """Fold texts so that each word is either ASCII or non-ASCII letters, and all else is ASCII.

    ASCII texts are unchanged; a null becomes an empty text.
    """
    filled = texts.fill_null("")
    is_foreign = pc.invert(pc.string_is_ascii(filled))
    foreign = filled.filter(is_foreign)
    if not len(foreign):
        return filled
    plain = [" ".join(split_text(text)) for text in foreign.to_pylist()]
    return pc.replace_with_mask(filled, is_foreign, pa.array(plain, filled.type))


def find_terms(words: pa.Array) -> pa.Array:
    """Return the term of each word; null for stop words."""
    names = words.to_pylist()
    kept = drop_stop_words(names)
    found = [
        term if word in kept else None for word, term in zip(names, stem_words(names), strict=True)
    ]
    return pa.array(found, pa.string())


Integers = npt.NDArray[np.int64]
Positions = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Counts = npt.NDArray[np.unsignedinteger[Any]]

_FEW_WORDS = 1 << 16
"""Up to this many words the numbers fit in two bytes, which radix sort handles."""
_LETTERS_AND_DIGITS = bytes(byte for byte in range(256) if byte >= 0x80 or chr(byte).isalnum())
"""Beyond ASCII only words remain after folding, so each such byte belongs to a word."""
_OTHERS = bytes(byte for byte in range(256) if byte not in _LETTERS_AND_DIGITS)
_IS_WORD = bytes(byte in _LETTERS_AND_DIGITS for byte in range(256))
_LOWER = bytes(byte + 32 if 65 <= byte <= 90 else byte for byte in range(256))


@dataclass(frozen=True, slots=True)
class Postings:
    """Rows by term, concatenated, with the frequency of the term in each row.

    The rows of term `t` are `rows[starts[t]:starts[t + 1]]`, ascending. Frequencies have the
    narrowest type that fits.
    """

    starts: Integers
    rows: Positions
    counts: Counts

    @property
    def size_bytes(self) -> int:
        return self.starts.nbytes + self.rows.nbytes + self.counts.nbytes


@dataclass(frozen=True, slots=True)
class Segment:
    """Words of a run of rows. A position counts all words of all rows.

    `words` are in the order of their terms, so that the words of one term are contiguous: those of
    `terms[t]` are `word_starts[t]:word_starts[t + 1]`, and the positions of word `w` are
    `positions[position_starts[w]:position_starts[w + 1]]`, ascending.
    """

    ids: pa.Array
    has_text: Flags
    lengths: Positions
    """Number of terms of each row."""
    row_starts: Integers
    """The position where each row starts, followed by the number of positions."""
    terms: pa.Array
    word_starts: Integers
    words: pa.Array
    position_starts: Integers
    positions: Positions
    postings: Postings
    document_count: int
    """The number of rows with a text."""
    term_count: int
    """The total number of terms of their texts."""

    @property
    def size_bytes(self) -> int:
        arrays = (self.ids, self.terms, self.words)
        counted = (
            self.has_text,
            self.lengths,
            self.row_starts,
            self.word_starts,
            self.position_starts,
            self.positions,
        )
        return sum(a.nbytes for a in (*arrays, *counted)) + self.postings.size_bytes

    def words_of_term(self, term: str) -> range:
        """Return the range of words with this term."""
        found = self._find(term)
        if found is None:
            return range(0)
        return range(int(self.word_starts[found]), int(self.word_starts[found + 1]))

    def rows_of_term(self, term: str) -> tuple[Positions, Counts]:
        """Return the rows with this term, ascending, and its frequency in each."""
        found, postings = self._find(term), self.postings
        if found is None:
            return postings.rows[:0], postings.counts[:0]
        span = slice(postings.starts[found], postings.starts[found + 1])
        return postings.rows[span], postings.counts[span]

    def positions_of_words(self, words: Sequence[int]) -> Positions:
        """Return the positions of any of these words, ascending."""
        runs = [
            self.positions[self.position_starts[w] : self.position_starts[w + 1]] for w in words
        ]
        if len(runs) == 1:
            return runs[0]
        # The stable sort is one that merges runs.
        return np.sort(np.concatenate([np.empty(0, np.int32), *runs]), kind="stable")

    def rows_of_positions(self, positions: Positions) -> Integers:
        rows: Integers = np.searchsorted(self.row_starts, positions, side="right") - 1
        return rows

    def _find(self, term: str) -> int | None:
        found = bisect.bisect_left(range(len(self.terms)), term, key=self._term)
        return found if found < len(self.terms) and self._term(found) == term else None

    def _term(self, number: int) -> str:
        term: str = self.terms[number].as_py()
        return term


def build_segment(ids: pa.Array, texts: pa.Array) -> Segment:
    """Build the segment of these rows. Null texts have no words."""
    has_text: Flags = texts.is_valid().to_numpy(zero_copy_only=False)
    tokens, row_starts = _cut(fold_to_ascii(texts))
    encoded = tokens.dictionary_encode()
    terms, word_starts, words, new_numbers = _build_vocabulary(encoded.dictionary)
    numbers = new_numbers[encoded.indices.to_numpy()]
    position_starts, positions = _invert_postings(numbers, len(words))
    terms_before = np.concatenate([[0], np.cumsum(numbers >= 0)])
    lengths = np.diff(terms_before[row_starts]).astype(np.int32)
    return Segment(
        ids=ids,
        has_text=has_text,
        lengths=lengths,
        row_starts=row_starts,
        terms=terms,
        word_starts=word_starts,
        words=words,
        position_starts=position_starts,
        positions=positions,
        postings=_build_postings(positions, row_starts, position_starts[word_starts]),
        document_count=int(np.count_nonzero(has_text)),
        term_count=int(lengths.sum(dtype=np.int64)),
    )


def _cut(texts: pa.Array) -> tuple[pa.Array, Integers]:
    """Split texts into words; also return the index of each text's first word, and the count."""
    # A separator after each text separates its last word from the next text.
    large = pa.large_string()
    nothing, newline = pa.scalar("", large), pa.scalar("\n", large)
    lines = pc.binary_join_element_wise(texts.cast(large), nothing, newline)
    ends = np.frombuffer(lines.buffers()[1], np.int64)[: len(lines) + 1]
    data = lines.buffers()[2].to_pybytes()[: int(ends[-1])]
    is_word = np.frombuffer(data.translate(_IS_WORD), np.int8)
    edges = np.flatnonzero(np.diff(is_word, prepend=np.int8(0)))
    starts, stops = edges[0::2], edges[1::2]
    offsets = np.zeros(len(starts) + 1, np.int64)
    np.cumsum(stops - starts, out=offsets[1:])
    letters = data.translate(_LOWER, _OTHERS)
    words = pa.LargeStringArray.from_buffers(
        len(starts), pa.py_buffer(offsets), pa.py_buffer(letters)
    )
    return words, np.searchsorted(starts, ends).astype(np.int64)


def _build_vocabulary(words: pa.Array) -> tuple[pa.Array, Integers, pa.Array, Positions]:
    """Build terms, the first word of each, the words in that order, and new numbers of the words.

    Words without a term are left out; their number is -1.
    """
    terms = find_terms(words)
    kept = len(terms) - terms.null_count
    order = pc.sort_indices(terms).slice(0, kept)  # nulls come last
    encoded = terms.take(order).dictionary_encode()
    word_starts = np.searchsorted(
        encoded.indices.to_numpy(), np.arange(len(encoded.dictionary) + 1)
    )
    numbers = np.full(len(words), -1, np.int32)
    numbers[order.to_numpy()] = np.arange(kept, dtype=np.int32)
    return encoded.dictionary, word_starts.astype(np.int64), words.take(order), numbers


def _invert_postings(numbers: Positions, words: int) -> tuple[Integers, Positions]:
    """Group positions by word; return the start of each word's positions, and the positions."""
    at = np.flatnonzero(numbers >= 0)
    chosen = numbers[at]
    starts = np.zeros(words + 1, np.int64)
    np.cumsum(np.bincount(chosen, minlength=words), out=starts[1:])
    if words <= _FEW_WORDS:
        return starts, at[np.argsort(chosen.astype(np.uint16), kind="stable")].astype(np.int32)
    # One sort of integers that hold both is several times faster than an indirect sort.
    keys = (chosen.astype(np.int64) << 32) | at
    keys.sort()
    return starts, (keys & 0xFFFFFFFF).astype(np.int32)


def _build_postings(positions: Positions, row_starts: Integers, term_starts: Integers) -> Postings:
    """Build postings from the positions of the terms; `term_starts` are the starts of each.

    The positions of a term are those of its words, concatenated.
    """
    row_of_position = np.repeat(np.arange(len(row_starts) - 1, dtype=np.int32), np.diff(row_starts))
    terms = np.repeat(np.arange(len(term_starts) - 1), np.diff(term_starts))
    keys = (terms << 32) | row_of_position[positions]
    # In order already where a term has one word; the stable sort merges the runs of the others.
    keys.sort(kind="stable")
    at = np.flatnonzero(np.diff(keys, prepend=-1))
    counts = np.diff(at, append=len(keys))
    return Postings(
        starts=np.searchsorted(keys[at] >> 32, np.arange(len(term_starts))).astype(np.int64),
        rows=(keys[at] & 0xFFFFFFFF).astype(np.int32),
        counts=counts.astype(np.min_scalar_type(int(counts.max(initial=0)))),
    )

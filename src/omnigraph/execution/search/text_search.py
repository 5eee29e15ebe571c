"""Search the texts of one table: conditions, fuzzy terms by edit distance, and BM25 scores."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.search.hits import Doubles, Hits, Integers
from omnigraph.execution.search.inverted_index import (
    Counts,
    Flags,
    Positions,
    QueryWord,
    Segment,
    parse_query_terms,
    parse_query_words,
)
from omnigraph.execution.search.search_cache import LiveSegment, SearchCache, iterate_segments
from omnigraph.plan.expressions import TextMode
from omnigraph.storage.tables import Table

_WordFlags = npt.NDArray[np.bool_]

_WORDS_AT_A_TIME = 1 << 15


def match_within_distance(words: pa.Array, wanted: str, most: int) -> _WordFlags:
    """Mask the words within `most` edits of a word.

    An edit inserts, deletes or replaces one character.
    """
    lengths = pc.utf8_length(words).to_numpy().astype(np.int64)
    near = np.flatnonzero(np.abs(lengths - len(wanted)) <= most)
    found = np.zeros(len(words), np.bool_)
    for start in range(0, len(near), _WORDS_AT_A_TIME):
        some = near[start : start + _WORDS_AT_A_TIME]
        close = _close(words.take(pa.array(some)).to_pylist(), lengths[some], wanted, most)
        found[some[close]] = True
    return found


def _close(
    words: list[str], lengths: npt.NDArray[np.int64], wanted: str, most: int
) -> npt.NDArray[np.int64]:
    """Find the indexes of the words within `most` edits, all scanned letter by letter.

    `costs` holds, for each remaining word, the edit distance of its scanned prefix to each prefix
    of the given word. Its minimum never decreases, so most words drop out soon.
    """
    letters, goal = _encode_letters(words), _encode_letters([wanted])[0][: len(wanted)]
    steps = np.arange(len(goal) + 1, dtype=np.int32)
    costs = np.broadcast_to(steps, (len(words), len(goal) + 1))
    open_words = np.arange(len(words))
    close = []
    for read in range(letters.shape[1] + 1):
        ended = lengths[open_words] == read
        close.append(open_words[ended & (costs[:, -1] <= most)])
        still = ~ended & (costs.min(axis=1) <= most)
        open_words, costs = open_words[still], costs[still]
        if not len(open_words):
            break
        costs = _read_letter(costs, letters[open_words, read], goal, steps)
    return np.concatenate(close)


def _read_letter(
    costs: npt.NDArray[np.int32],
    letters: npt.NDArray[np.uint32],
    goal: npt.NDArray[np.uint32],
    steps: npt.NDArray[np.int32],
) -> npt.NDArray[np.int32]:
    """Update the costs for the next letter of each word."""
    further = costs + 1
    np.minimum(further[:, 1:], costs[:, :-1] + (letters[:, None] != goal), out=further[:, 1:])
    # An insertion costs one more than the cell to the left, which may itself be an insertion.
    least: npt.NDArray[np.int32] = np.minimum.accumulate(further - steps, axis=1) + steps
    return least


def _encode_letters(words: list[str]) -> npt.NDArray[np.uint32]:
    """The code points of each word in a row, filled up with zeros."""
    longest = max(1, *map(len, words))
    array = np.array(words, dtype=f"<U{longest}")
    return array.view(np.uint32).reshape(len(words), longest)


DEFAULT_DISTANCE = 2

Matcher = Callable[[Segment], Iterable[Positions]]
"""Positions in a segment that make their rows match."""


def find_matching_rows(
    memory: SearchCache,
    table: Table,
    column: str,
    mode: TextMode,
    query: str,
    distance: int | None,
) -> Integers:
    """Find the row ids of rows whose text matches, unordered.

    `distance` applies to fuzzy matches only. A query without a term matches nothing.
    """
    found = _find_matching(memory, table, column, mode, query, distance)
    return np.concatenate([np.empty(0, np.int64), *(piece.row_ids[rows] for piece, rows in found)])


def find_matching_text_ids(
    memory: SearchCache,
    table: Table,
    column: str,
    mode: TextMode,
    query: str,
    distance: int | None,
) -> pa.Array:
    """Find the ids of rows whose text matches."""
    found = _find_matching(memory, table, column, mode, query, distance)
    parts = [piece.segment.ids.take(pa.array(rows)) for piece, rows in found]
    return pa.chunked_array(parts, pa.string()).combine_chunks()


def _find_matching(
    memory: SearchCache,
    table: Table,
    column: str,
    mode: TextMode,
    query: str,
    distance: int | None,
) -> Iterator[tuple[LiveSegment, Integers]]:
    """Each piece of the column with the numbers of its rows that match."""
    words = parse_query_words(query)
    if not words:
        return
    matcher = _make_matcher(mode, words, DEFAULT_DISTANCE if distance is None else distance)
    for piece in iterate_segments(memory, table, column):
        yield piece, _find_rows(piece, matcher)


def _find_rows(piece: LiveSegment, matcher: Matcher) -> Integers:
    matches = np.zeros(len(piece.row_ids), np.bool_)
    for positions in matcher(piece.segment):
        matches[piece.segment.rows_of_positions(positions)] = True
    if piece.live is not None:
        matches &= piece.live
    return np.flatnonzero(matches)


def _make_matcher(mode: TextMode, words: Sequence[QueryWord], distance: int) -> Matcher:
    match mode:
        case TextMode.ANY_TERM:
            return lambda segment: (_find_term_positions(segment, word.term) for word in words)
        case TextMode.PHRASE:
            return lambda segment: [_find_phrase_positions(segment, words)]
        case TextMode.FUZZY:
            return lambda segment: (
                _find_fuzzy_positions(segment, word, distance) for word in words
            )
        case _:
            assert_never(mode)


def _find_term_positions(segment: Segment, term: str) -> Positions:
    return segment.positions_of_words(segment.words_of_term(term))


def _find_phrase_positions(segment: Segment, words: Sequence[QueryWord]) -> Positions:
    """Return the positions where a phrase starts: each word at its distance from the first."""
    first, last = words[0].position, words[-1].position
    positions = {word.term: _find_term_positions(segment, word.term) for word in words}
    rarest, *others = sorted(words, key=lambda word: len(positions[word.term]))
    starts: Positions = positions[rarest.term] - (rarest.position - first)
    for word in others:
        starts = starts[_is_in(starts + (word.position - first), positions[word.term])]
    in_one_row: Flags = segment.rows_of_positions(starts) == segment.rows_of_positions(
        starts + (last - first)
    )
    return starts[in_one_row]


def _is_in(positions: Positions, ascending: Positions) -> Flags:
    if not len(ascending):
        return np.zeros(len(positions), np.bool_)
    at = np.minimum(np.searchsorted(ascending, positions), len(ascending) - 1)
    found: Flags = ascending[at] == positions
    return found


def _find_fuzzy_positions(segment: Segment, wanted: QueryWord, distance: int) -> Positions:
    """Find the positions of words within the distance, as written or as a term.

    Stems alone would put `nationel` and `national` further apart than their spelling; words alone
    would lose matches by stem.
    """
    by_term = match_within_distance(segment.terms, wanted.term, distance)
    chosen = np.repeat(by_term, np.diff(segment.word_starts))
    chosen |= match_within_distance(segment.words, wanted.word, distance)
    return segment.positions_of_words(np.flatnonzero(chosen).tolist())


K1 = 1.2
"""Saturation of the term frequency."""
B = 0.75
"""Weight of the length normalization."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """The rows of one piece that have each of the terms, and how often they have it."""

    terms: Sequence[tuple[Positions, Counts]]
    lengths: Positions
    row_ids: Integers


def score_rows(memory: SearchCache, table: Table, column: str, query: str) -> Hits:
    """Compute the BM25 score of each row with at least one term of the query.

    Document frequency and average length are computed over all rows with a text.
    """
    terms = parse_query_terms(query)
    documents, length, pieces = 0, 0, []
    for found in iterate_segments(memory, table, column) if terms else ():
        documents += found.document_count
        length += found.term_count
        pieces.append(_count_terms(found, terms))
    having = [sum(len(piece.terms[n][0]) for piece in pieces) for n in range(len(terms))]
    if not any(having):
        return Hits.together([])
    rarities = [math.log(1 + (documents - n + 0.5) / (n + 0.5)) for n in having]
    return Hits.together([_score_piece(piece, rarities, length / documents) for piece in pieces])


def _count_terms(found: LiveSegment, terms: Sequence[str]) -> _Counted:
    counted = [found.segment.rows_of_term(term) for term in terms]
    if found.live is None:
        # Copies, so that an evicted segment is not retained by a part of it.
        counted = [(rows.copy(), counts.copy()) for rows, counts in counted]
    else:
        kept = [found.live[rows] for rows, _ in counted]
        counted = [(rows[k], counts[k]) for (rows, counts), k in zip(counted, kept, strict=True)]
    return _Counted(counted, found.segment.lengths, found.row_ids)


def _score_piece(piece: _Counted, rarities: Sequence[float], average: float) -> Hits:
    total: Doubles = np.zeros(len(piece.row_ids))
    for (rows, counts), rarity in zip(piece.terms, rarities, strict=True):
        often = counts.astype(np.float64)
        relative = piece.lengths[rows] / average
        total[rows] += rarity * often * (K1 + 1) / (often + K1 * (1 - B + B * relative))
    # A rarity is never zero, and so neither is the score of a row with a term.
    found = np.flatnonzero(total > 0)
    return Hits(piece.row_ids[found], total[found])

"""Text conditions of one table."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.execution.search.analysis import QueryWord, parse_query_words
from omnigraph.execution.search.distance import match_within_distance
from omnigraph.execution.search.hits import Integers
from omnigraph.execution.search.search_memory import SearchMemory
from omnigraph.execution.search.segment import Flags, Places, Segment
from omnigraph.execution.search.segments import LiveSegment, iterate_segments
from omnigraph.plan.expressions import TextMode
from omnigraph.storage.tables import Table

DEFAULT_DISTANCE = 2

Matcher = Callable[[Segment], Iterable[Places]]
"""The places in a segment that make their rows match."""


def find_matching_rows(
    memory: SearchMemory,
    table: Table,
    column: str,
    mode: TextMode,
    query: str,
    distance: int | None,
) -> Integers:
    """The row ids of the rows whose text matches, in no particular order.

    `distance` counts for fuzzy matches only. A query without a term matches nothing.
    """
    found = _find_matching(memory, table, column, mode, query, distance)
    return np.concatenate([np.empty(0, np.int64), *(piece.row_ids[rows] for piece, rows in found)])


def find_matching_text_ids(
    memory: SearchMemory,
    table: Table,
    column: str,
    mode: TextMode,
    query: str,
    distance: int | None,
) -> pa.Array:
    """The ids of the same rows."""
    found = _find_matching(memory, table, column, mode, query, distance)
    parts = [piece.segment.ids.take(pa.array(rows)) for piece, rows in found]
    return pa.chunked_array(parts, pa.string()).combine_chunks()


def _find_matching(
    memory: SearchMemory,
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
    for places in matcher(piece.segment):
        matches[piece.segment.rows_of_places(places)] = True
    if piece.live is not None:
        matches &= piece.live
    return np.flatnonzero(matches)


def _make_matcher(mode: TextMode, words: Sequence[QueryWord], distance: int) -> Matcher:
    match mode:
        case TextMode.ANY_TERM:
            return lambda segment: (_find_term_places(segment, word.term) for word in words)
        case TextMode.PHRASE:
            return lambda segment: [_find_phrase_places(segment, words)]
        case TextMode.FUZZY:
            return lambda segment: (_find_fuzzy_places(segment, word, distance) for word in words)
        case _:
            assert_never(mode)


def _find_term_places(segment: Segment, term: str) -> Places:
    return segment.places_of_words(segment.words_of_term(term))


def _find_phrase_places(segment: Segment, words: Sequence[QueryWord]) -> Places:
    """Where a phrase starts: each of its words at its distance from the first."""
    first, last = words[0].place, words[-1].place
    places = {word.term: _find_term_places(segment, word.term) for word in words}
    rarest, *others = sorted(words, key=lambda word: len(places[word.term]))
    starts: Places = places[rarest.term] - (rarest.place - first)
    for word in others:
        starts = starts[_is_in(starts + (word.place - first), places[word.term])]
    in_one_row: Flags = segment.rows_of_places(starts) == segment.rows_of_places(
        starts + (last - first)
    )
    return starts[in_one_row]


def _is_in(places: Places, ascending: Places) -> Flags:
    if not len(ascending):
        return np.zeros(len(places), np.bool_)
    at = np.minimum(np.searchsorted(ascending, places), len(ascending) - 1)
    found: Flags = ascending[at] == places
    return found


def _find_fuzzy_places(segment: Segment, wanted: QueryWord, distance: int) -> Places:
    """Where a word stands that is close enough, either as it is written or as a term.

    Stems alone would put `nationel` and `national` further apart than they look; words alone
    would lose what stemming finds.
    """
    by_term = match_within_distance(segment.terms, wanted.term, distance)
    chosen = np.repeat(by_term, np.diff(segment.word_starts))
    chosen |= match_within_distance(segment.words, wanted.word, distance)
    return segment.places_of_words(np.flatnonzero(chosen).tolist())

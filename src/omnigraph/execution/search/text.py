"""Text conditions and text scores of one table."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.execution.search.analysis import QueryWord, query_terms, query_words
from omnigraph.execution.search.distance import within_distance
from omnigraph.execution.search.segment import Flags, Integers, Places, Segment
from omnigraph.execution.search.segments import LiveSegment, live_segments
from omnigraph.plan.expressions import TextMode
from omnigraph.storage.tables.handle import Table

K1 = 1.2
"""How soon more of the same term stops counting."""
B = 0.75
"""How much a long text is held against a match in it."""
DEFAULT_DISTANCE = 2

Doubles = npt.NDArray[np.float64]
Matcher = Callable[[Segment], Iterable[Places]]
"""The places in a segment that make their rows match."""


# --- conditions -----------------------------------------------------------------------------------


def matching_ids(
    table: Table,
    column: str,
    mode: TextMode,
    query: str,
    distance: int | None,
    within: pa.Array | None,
) -> pa.Array:
    """The ids of the rows whose text matches, among `within` if it is given.

    `distance` counts for fuzzy matches only. A query without a term matches nothing.
    """
    words = query_words(query)
    if not words:
        return pa.array([], pa.string())
    matcher = _matcher(mode, words, DEFAULT_DISTANCE if distance is None else distance)
    parts = [_matching_ids(found, matcher) for found in live_segments(table, column)]
    ids = pa.chunked_array(parts, pa.string()).combine_chunks()
    return ids if within is None else ids.filter(pc.is_in(ids, value_set=within))


def _matching_ids(found: LiveSegment, matcher: Matcher) -> pa.Array:
    segment = found.segment
    matches = np.zeros(len(segment.ids), np.bool_)
    for places in matcher(segment):
        matches[segment.rows_of_places(places)] = True
    if found.live is not None:
        matches &= found.live
    return segment.ids.take(pa.array(np.flatnonzero(matches)))


def _matcher(mode: TextMode, words: Sequence[QueryWord], distance: int) -> Matcher:
    match mode:
        case TextMode.ANY_TERM:
            return lambda segment: (_term_places(segment, word.term) for word in words)
        case TextMode.PHRASE:
            return lambda segment: [_phrase_places(segment, words)]
        case TextMode.FUZZY:
            return lambda segment: (_fuzzy_places(segment, word, distance) for word in words)
        case _:
            assert_never(mode)


def _term_places(segment: Segment, term: str) -> Places:
    return segment.places_of_words(segment.words_of_term(term))


def _phrase_places(segment: Segment, words: Sequence[QueryWord]) -> Places:
    """Where a phrase starts: each of its words at its distance from the first."""
    first, last = words[0].place, words[-1].place
    places = {word.term: _term_places(segment, word.term) for word in words}
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


def _fuzzy_places(segment: Segment, wanted: QueryWord, distance: int) -> Places:
    """Where a word stands that is close enough, either as it is written or as a term.

    Stems alone would put `nationel` and `national` further apart than they look; words alone
    would lose what stemming finds.
    """
    by_term = within_distance(segment.terms, wanted.term, distance)
    chosen = np.repeat(by_term, np.diff(segment.word_starts))
    chosen |= within_distance(segment.words, wanted.word, distance)
    return segment.places_of_words(np.flatnonzero(chosen).tolist())


# --- scores ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Hits:
    """The rows of one segment that have any of the terms, and how often they have each."""

    ids: pa.Array
    lengths: Places
    counts: npt.NDArray[np.int64]
    """One line for each term, one column for each row."""


def scores(table: Table, column: str, query: str, within: pa.Array | None) -> pa.Table:
    """The id and BM25 score of each row with at least one term of the query, best first.

    What counts as rare or long is judged by all rows of the table that have a text, so the score
    of a row does not depend on `within`. Equal scores stand in the order of their ids.
    """
    terms = query_terms(query)
    documents, length, hits = 0, 0, []
    for found in live_segments(table, column) if terms else ():
        documents += found.document_count
        length += found.term_count
        hits.append(_hits(found, terms))
    rows = pa.table(
        {
            "id": pa.chunked_array([hit.ids for hit in hits], pa.string()),
            "score": _scores(hits, len(terms), documents, length),
        }
    )
    if within is not None:
        rows = rows.filter(pc.is_in(rows.column("id"), value_set=within))
    return rows.sort_by([("score", "descending"), ("id", "ascending")])


def _hits(found: LiveSegment, terms: Sequence[str]) -> _Hits:
    segment = found.segment
    counted = [_counted(found, _term_places(segment, term)) for term in terms]
    rows = np.unique(np.concatenate([rows for rows, _ in counted]))
    counts = np.zeros((len(terms), len(rows)), np.int64)
    for line, (having, count) in zip(counts, counted, strict=True):
        line[np.searchsorted(rows, having)] = count
    return _Hits(segment.ids.take(pa.array(rows)), segment.lengths[rows], counts)


def _counted(found: LiveSegment, places: Places) -> tuple[Integers, Integers]:
    """The rows of these places, each once, and how many of the places each has."""
    of_places = found.segment.rows_of_places(places)  # ascending, as the places are
    at = np.flatnonzero(np.diff(of_places, prepend=-1))
    rows, counts = of_places[at], np.diff(at, append=len(of_places))
    if found.live is None:
        return rows, counts
    is_live = found.live[rows]
    return rows[is_live], counts[is_live]


def _scores(hits: Sequence[_Hits], terms: int, documents: int, length: int) -> Doubles:
    if not any(len(hit.ids) for hit in hits):
        return np.empty(0)
    counts = np.concatenate([hit.counts for hit in hits], axis=1)
    relative = np.concatenate([hit.lengths for hit in hits]) / (length / documents)
    total: Doubles = np.zeros(counts.shape[1])
    for number in range(terms):
        often = counts[number]
        having = np.count_nonzero(often)
        rarity = math.log(1 + (documents - having + 0.5) / (having + 0.5))
        total += rarity * often * (K1 + 1) / (often + K1 * (1 - B + B * relative))
    return total

"""Text scores of one table."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from omnigraph.execution.search.analysis import parse_query_terms
from omnigraph.execution.search.hits import Doubles, Hits, Integers
from omnigraph.execution.search.search_memory import SearchMemory
from omnigraph.execution.search.segment import Counts, Places
from omnigraph.execution.search.segments import LiveSegment, iterate_segments
from omnigraph.storage.tables import Table

K1 = 1.2
"""How soon more of the same term stops counting."""
B = 0.75
"""How much a long text is held against a match in it."""


@dataclass(frozen=True, slots=True)
class _Counted:
    """The rows of one piece that have each of the terms, and how often they have it."""

    terms: Sequence[tuple[Places, Counts]]
    lengths: Places
    row_ids: Integers


def score_rows(memory: SearchMemory, table: Table, column: str, query: str) -> Hits:
    """The BM25 score of each row with at least one term of the query.

    What counts as rare or long is judged by all rows of the table that have a text.
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
        # Copies, so that a segment there is no room for is not held by a part of it.
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
    # A rarity is never zero, so neither is the score of a row with a term.
    found = np.flatnonzero(total > 0)
    return Hits(piece.row_ids[found], total[found])

"""Evaluate text conditions, scores, distances and fused rankings for candidate entities."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.errors import BadRequest
from omnigraph.execution.read.adjacency import RowCodes
from omnigraph.execution.read.code_arrays import (
    Codes,
    Doubles,
    Integers,
    Longs,
    encode_values,
    find_distinct,
    find_positions_among,
)
from omnigraph.execution.read.entities import (
    Entities,
    IndexedEntities,
    UnionEntities,
    split_by_type,
)
from omnigraph.execution.read.read_context import ReadContext, is_fixed
from omnigraph.execution.read.row_blocks import Rows
from omnigraph.execution.read.table_reader import Reader
from omnigraph.execution.search import text_search, vector_search
from omnigraph.execution.search.hits import UNRANKED, Hits, find_smallest, fuse_scores
from omnigraph.plan.expressions import (
    Constant,
    FusedScore,
    NowValue,
    Operand,
    ParameterValue,
    TextMatch,
    TextScore,
    VectorDistance,
)

_FEW_RANKS = 64
"""Up to this many ranks are counted one by one; for more, all entities are sorted."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Distinct entities, in no particular order.

    The best have the smallest `keys`; ties are broken by `ties`, which are distinct.
    """

    codes: Codes
    values: Doubles
    keys: Doubles
    ties: Longs

    @property
    def size(self) -> int:
        return len(self.codes)

    def at(self, positions: Longs) -> Ranking:
        return Ranking(
            self.codes[positions],
            self.values[positions],
            self.keys[positions],
            self.ties[positions],
        )

    def best(self, keep: int | None) -> Ranking:
        """Return the first `keep` in order; all of them without it."""
        some = (
            self if keep is None or keep >= self.size else self.at(find_smallest(self.keys, keep))
        )
        return some.at(np.lexsort((some.ties, some.keys))[:keep])

    def ranks(self, codes: Codes) -> Longs:
        """Return the rank of each of these entities, counted from 0; -1 for unranked ones."""
        positions = find_positions_among(self.codes.astype(np.int64), codes.astype(np.int64))
        known = np.flatnonzero(positions >= 0)
        found = np.full(len(codes), UNRANKED, dtype=np.int64)
        if len(known) > _FEW_RANKS:
            order = np.lexsort((self.ties, self.keys))
            rank = np.empty(self.size, dtype=np.int64)
            rank[order] = np.arange(self.size)
            found[positions[known]] = rank[known]
        else:
            found[positions[known]] = [self._rank(position) for position in known.tolist()]
        return found

    def _rank(self, position: int) -> int:
        key = self.keys[position]
        level = self.ties[self.keys == key]
        before = np.count_nonzero(self.keys < key)
        return int(before) + int(np.count_nonzero(level < self.ties[position]))


def merge_rankings(
    first: Ranking, second: Ranking, constant: int, keep: int | None
) -> tuple[Codes, Doubles]:
    """Merge two rankings, best first, with fused scores.

    With `keep`, only this many of the best are needed.
    """
    pool = _pool_rankings(first, second, keep)
    order, scores = fuse_scores(first.ranks(pool), second.ranks(pool), constant)
    return encode_values(pool[order][:keep]), scores[:keep]


def _pool_rankings(first: Ranking, second: Ranking, keep: int | None) -> Codes:
    """Return the entities among which the best are."""
    some = [first, second]
    if keep is not None and min(first.size, second.size) <= keep:
        # A short ranking takes part as a whole. Entities of the other one only are in its order, so
        # none of them beyond the first `keep` is needed.
        some = [arm if arm.size <= keep else arm.best(keep) for arm in some]
    return encode_values(np.unique(np.concatenate([arm.codes for arm in some])))


T = TypeVar("T")

_MAX_CANDIDATES = 1_000
"""With more candidates, the whole table is searched instead."""


def evaluate_fixed(context: ReadContext, operand: Operand) -> object:
    assert isinstance(operand, Constant | ParameterValue | NowValue), "queries do not vary by row"
    assert is_fixed(operand), "queries do not vary by row"
    return context.given.value(operand)


# --- one table at a time --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Candidates:
    """Distinct entities of one type, in the order requested."""

    reader: Reader
    row_ids: Longs
    at: Integers | None = None
    """Index of each among all requested ones; None if they are all of those."""
    rows: RowCodes | None = None
    """Maps row ids to positions, if all entities of the table are encoded."""

    @property
    def are_all(self) -> bool:
        return len(self.row_ids) == self.reader.row_count

    def locate(self, hits: Hits) -> tuple[Integers, Doubles]:
        """Return the indexes of the candidates that were found, and the value of each."""
        if self.rows is not None:
            return self.rows.find(hits.row_ids), hits.values
        positions = find_positions_among(hits.row_ids, self.row_ids)
        known = np.flatnonzero(positions >= 0)
        return self.map_positions(positions[known]), hits.values[known]

    def map_positions(self, positions: Integers) -> Integers:
        return positions if self.at is None else self.at[positions]


def make_candidates(entities: Entities, codes: Codes) -> list[Candidates]:
    """Split entities with these distinct, ascending codes by type."""
    if isinstance(entities, IndexedEntities) and len(codes) == entities.size:
        return [Candidates(entities.reader, entities.row_ids, rows=entities.rows)]
    if not isinstance(entities, UnionEntities):
        return [Candidates(entities.reader, entities.row_ids[codes])]
    kinds, found, start = entities.kinds(codes), [], 0
    for kind, part in enumerate(split_by_type(entities)):
        own = np.flatnonzero(kinds == kind)
        found.append(Candidates(part.reader, part.row_ids[codes[own] - start], own))
        start += part.size
    return found


def _remember_search(context: ReadContext, key: Hashable | None, search: Callable[[], T]) -> T:
    """Cache a search over a whole table, which every block of rows needs."""
    if key is None:
        return search()
    if key not in context.searched:
        context.searched[key] = search()
    return context.searched[key]  # type: ignore[return-value]  # the key says what was searched


def has_query(context: ReadContext, condition: TextMatch) -> bool:
    """Return whether there is a query text; a NULL query matches nothing."""
    return evaluate_fixed(context, condition.query) is not None


# --- text -----------------------------------------------------------------------------------------


def match_texts(
    context: ReadContext, condition: TextMatch, entities: Entities, codes: Codes
) -> pa.Array:
    """Mask the entities that match; NULL for all of them without a query text."""
    if not has_query(context, condition):
        return pa.nulls(len(codes), pa.bool_())
    matches = np.zeros(len(codes), dtype=np.bool_)
    for some in make_candidates(entities, codes):
        if len(some.row_ids):
            rows = _find_matching(context, condition, some.reader, text_search.find_matching_rows)
            found = np.empty(0, np.int64) if rows is None else rows
            matching = np.flatnonzero(find_positions_among(some.row_ids, found) >= 0)
            matches[some.map_positions(matching)] = True
    return pa.array(matches)


def find_matching_ids(context: ReadContext, condition: TextMatch, reader: Reader) -> pa.Array:
    """Find the ids of one table that match."""
    found = _find_matching(context, condition, reader, text_search.find_matching_text_ids)
    return pa.array([], pa.string()) if found is None else found


def _find_matching(
    context: ReadContext, condition: TextMatch, reader: Reader, search: Callable[..., T]
) -> T | None:
    """Return the hits of a search; None without a table or a query."""
    query, column = (
        evaluate_fixed(context, condition.query),
        reader.get_stored_field(condition.property),
    )
    if query is None or column is None:
        return None
    assert isinstance(query, str), "the binder lets only strings through"
    distance = None if condition.distance is None else _measure_distance(context, condition)
    found = partial(
        search,
        context.topology.search,
        reader.table,
        column.name,
        condition.mode,
        query,
        distance,
    )
    return _remember_search(context, (search, condition, reader.key), found)


def _measure_distance(context: ReadContext, condition: TextMatch) -> int:
    assert condition.distance is not None, "only fuzzy() has a distance"
    distance = evaluate_fixed(context, condition.distance)
    if not isinstance(distance, int) or distance < 0:
        raise BadRequest(f"{condition.mode}() takes a distance that is not negative")
    return distance


# --- scores ---------------------------------------------------------------------------------------


def score_values(
    context: ReadContext, operand: TextScore | VectorDistance, entities: Entities, codes: Codes
) -> pa.Array:
    """Compute the score or distance of each entity, NULL where it has none."""
    values = np.zeros(len(codes))
    missing = np.ones(len(codes), dtype=np.bool_)
    for some in make_candidates(entities, codes):
        positions, found = some.locate(_find_hits(context, operand, some, keep=None))
        values[positions] = found
        missing[positions] = False
    return pa.array(values, pa.float64(), mask=missing)


def rank_entities(
    context: ReadContext,
    operand: TextScore | VectorDistance,
    entities: Entities,
    codes: Codes,
    keep: int | None = None,
) -> tuple[Codes, Doubles]:
    """Rank the entities with a score, best first and ties by id, with their scores.

    With `keep`, only this many of the best are needed.
    """
    candidates = make_candidates(entities, codes)
    found = _rank(context, operand, entities, codes, candidates, keep).best(keep)
    return found.codes, found.values


def _rank(
    context: ReadContext,
    operand: TextScore | VectorDistance,
    entities: Entities,
    codes: Codes,
    candidates: Sequence[Candidates],
    keep: int | None,
) -> Ranking:
    """Rank the entities with a score; with `keep`, at least the best of them."""
    positions: list[Integers] = [np.empty(0, np.int64)]
    values: list[Doubles] = [np.empty(0, np.float64)]
    for some in candidates:
        where, found = some.locate(_find_hits(context, operand, some, keep))
        positions.append(where)
        values.append(found)
    own, value = codes[np.concatenate(positions)], np.concatenate(values)
    keys = value if isinstance(operand, VectorDistance) else -value
    return Ranking(own, value, keys, _order_ties(entities, own))


def _order_ties(entities: Entities, codes: Codes) -> Longs:
    """Distinct sort keys in the order of the ids; two types may share an id."""
    wide = codes.astype(np.int64)
    return wide if entities.rank is None else entities.rank[codes] * entities.size + wide


def _find_hits(
    context: ReadContext,
    operand: TextScore | VectorDistance,
    candidates: Candidates,
    keep: int | None,
) -> Hits:
    """Return the hits of one table for the candidates, and perhaps for other rows."""
    reader = candidates.reader
    column, query = (
        reader.get_stored_field(operand.property),
        evaluate_fixed(context, operand.query),
    )
    if column is None or query is None or not len(candidates.row_ids):
        return Hits.together([])
    if isinstance(operand, TextScore):
        assert isinstance(query, str), "the binder lets only strings through"
        search = partial(
            text_search.score_rows, context.topology.search, reader.table, column.name, query
        )
        return _remember_search(context, (operand, reader.key), search)
    vector = _evaluate_vector(context, operand, query)
    among = None if candidates.are_all else candidates.row_ids
    if keep is None and len(candidates.row_ids) >= _MAX_CANDIDATES:
        among = None
    measure = partial(
        vector_search.find_nearest_rows,
        context.topology.search,
        reader.table,
        column.name,
        vector,
        among,
        keep,
    )
    return _remember_search(
        context, (operand, keep, reader.key) if among is None else None, measure
    )


def _evaluate_vector(
    context: ReadContext, operand: VectorDistance, query: object
) -> Sequence[float]:
    if not operand.embed:
        assert isinstance(query, list | tuple), "the binder lets only vectors through"
        return query
    assert isinstance(query, str), "only a text is embedded"
    if context.input.embed is None:
        raise BadRequest("nearest() with a text needs an embedding provider; none is configured")
    embed = partial(context.input.embed, query, operand.dimension, operand.model)
    return _remember_search(context, ("embedding", query, operand.dimension, operand.model), embed)


# --- fusion ---------------------------------------------------------------------------------------


def fuse_rows(context: ReadContext, operands: Iterable[FusedScore], rows: Rows) -> None:
    """Rank the rows of a whole match by fused scores, for later evaluation."""
    for operand in operands:
        entities = rows.entities[operand.variable]
        codes = find_distinct(rows.codes[operand.variable], entities.size)
        context.fused[operand] = fuse_rankings(context, operand, entities, codes)


def fuse_rankings(
    context: ReadContext,
    operand: FusedScore,
    entities: Entities,
    codes: Codes,
    nearest: int | None = None,
    keep: int | None = None,
) -> tuple[Codes, Doubles]:
    """Rank the entities of either arm, best first, with fused scores.

    A vector arm contributes only its `nearest`; with `keep`, only this many of the best are needed.
    """
    constant = evaluate_fixed(context, operand.constant)
    if not isinstance(constant, int) or constant <= 0:
        raise BadRequest("rrf() takes a constant that is positive")
    candidates = make_candidates(entities, codes)
    arms = []
    for arm in (operand.first, operand.second):
        most = nearest if isinstance(arm, VectorDistance) else None
        found = _rank(context, arm, entities, codes, candidates, most)
        arms.append(found if most is None else found.best(most))
    return merge_rankings(arms[0], arms[1], constant, keep)

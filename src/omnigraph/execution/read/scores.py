"""Text conditions, scores and distances of entities, computed for the codes in question.

A text condition is the set of ids that match it. A score or a distance is a number for the ids
that have one and NULL for the others.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Sequence
from functools import partial
from typing import TypeVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.errors import BadRequest
from omnigraph.execution.read.arrays import Codes, Doubles, as_longs, codes_of, distinct
from omnigraph.execution.read.context import Context
from omnigraph.execution.read.entities import Entities, parts_of
from omnigraph.execution.read.reader import ID, Reader
from omnigraph.execution.read.resolve import is_fixed
from omnigraph.execution.read.rows import Rows
from omnigraph.execution.search import fuse, text, vectors
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

SCORE, DISTANCE = "score", "distance"
_MOST_CANDIDATES = 1_000
"""With more candidates than this a search over everything is asked for instead."""


def fixed_value(context: Context, operand: Operand) -> object:
    assert isinstance(operand, Constant | ParameterValue | NowValue), "queries do not vary by row"
    assert is_fixed(operand), "queries do not vary by row"
    return context.given.value(operand)


# --- one table at a time --------------------------------------------------------------------------


def _by_type(
    entities: Entities,
    codes: Codes,
    answer: Callable[[Reader, pa.Array], pa.Array],
    kind: pa.DataType,
) -> pa.Array:
    """What `answer` says of the ids of each type, put back in the order of the codes."""
    readers = [part.reader for part in parts_of(entities)]
    kinds = entities.kinds(codes)
    order = [np.flatnonzero(kinds == kind) for kind in range(len(readers))]
    parts = [
        answer(reader, entities.columns([ID], codes[chosen])[ID])
        for reader, chosen in zip(readers, order, strict=True)
    ]
    back = np.argsort(np.concatenate(order), kind="stable")
    return pa.chunked_array(parts, kind).combine_chunks().take(pa.array(back))


T = TypeVar("T")


def _remembered(context: Context, key: Hashable | None, search: Callable[[], T]) -> T:
    """What a search over a whole table found; blocks of rows ask for the same one again."""
    if key is None:
        return search()
    if key not in context.searched:
        context.searched[key] = search()
    return context.searched[key]  # type: ignore[return-value]  # the key says what was searched


def _within(reader: Reader, ids: pa.Array) -> pa.Array | None:
    """The candidates, unless they are so many that naming them costs more than it saves."""
    return ids if len(ids) < min(_MOST_CANDIDATES, reader.row_count) else None


def has_query(context: Context, condition: TextMatch) -> bool:
    """Whether there is anything to look for; a NULL matches nothing and differs from nothing."""
    return fixed_value(context, condition.query) is not None


# --- text -----------------------------------------------------------------------------------------


def text_matches(
    context: Context, condition: TextMatch, entities: Entities, codes: Codes
) -> pa.Array:
    """Whether each entity matches; NULL for all of them when there is nothing to look for."""
    if not has_query(context, condition):
        return pa.nulls(len(codes), pa.bool_())

    def answer(reader: Reader, ids: pa.Array) -> pa.Array:
        if not len(ids):
            return pa.array([], pa.bool_())
        return pc.is_in(ids, value_set=matching_ids(context, condition, reader, ids))

    return _by_type(entities, codes, answer, pa.bool_())


def matching_ids(
    context: Context, condition: TextMatch, reader: Reader, among: pa.Array | None
) -> pa.Array:
    """The ids of one table that match, all of them or some that include the candidates."""
    query, column = fixed_value(context, condition.query), reader.stored(condition.property)
    if query is None or column is None:
        return pa.array([], pa.string())
    assert isinstance(query, str), "the binder lets only strings through"
    distance = None if condition.distance is None else _distance(context, condition)
    within = None if among is None else _within(reader, among)
    search = partial(
        text.matching_ids, reader.table, column.name, condition.mode, query, distance, within
    )
    return _remembered(context, (condition, reader.key) if within is None else None, search)


def _distance(context: Context, condition: TextMatch) -> int:
    assert condition.distance is not None, "only fuzzy() has a distance"
    distance = fixed_value(context, condition.distance)
    if not isinstance(distance, int) or distance < 0:
        raise BadRequest(f"{condition.mode}() takes a distance that is not negative")
    return distance


# --- scores ---------------------------------------------------------------------------------------


def score_values(
    context: Context, operand: TextScore | VectorDistance, entities: Entities, codes: Codes
) -> pa.Array:
    """The score or distance of each entity, NULL where it has none."""

    def answer(reader: Reader, ids: pa.Array) -> pa.Array:
        found, value = _scored(context, operand, reader, ids, keep=None)
        index = pc.index_in(ids, value_set=found.column(ID).combine_chunks())
        return found.column(value).combine_chunks().cast(pa.float64()).take(index)

    return _by_type(entities, codes, answer, pa.float64())


def ranked(
    context: Context,
    operand: TextScore | VectorDistance,
    entities: Entities,
    codes: Codes,
    keep: int | None = None,
) -> tuple[Codes, Doubles]:
    """The entities that have a score, best first and equal ones by id, with their scores.

    With `keep` only so many of the best are needed.
    """
    values = np.full(len(codes), np.nan)
    has = np.zeros(len(codes), dtype=np.bool_)
    kinds = entities.kinds(codes)
    for kind, part in enumerate(parts_of(entities)):
        own = np.flatnonzero(kinds == kind)
        ids = entities.columns([ID], codes[own])[ID]
        found, value = _scored(context, operand, part.reader, ids, keep=keep)
        index = pc.index_in(found.column(ID).combine_chunks(), value_set=ids)
        known = np.asarray(pc.is_valid(index))
        places = own[as_longs(index.drop_null())]
        values[places] = np.asarray(found.column(value).combine_chunks())[known]
        has[places] = True
    chosen = np.flatnonzero(has)
    score = values[chosen] if isinstance(operand, VectorDistance) else -values[chosen]
    ids_order = codes[chosen] if entities.rank is None else entities.rank[codes[chosen]]
    order = chosen[np.lexsort((ids_order, score))]
    order = order if keep is None else order[:keep]
    return codes_of(codes[order]), values[order]


def _scored(
    context: Context,
    operand: TextScore | VectorDistance,
    reader: Reader,
    ids: pa.Array,
    *,
    keep: int | None,
) -> tuple[pa.Table, str]:
    """(id, value) of what one table has to say, and the name of the value."""
    value = DISTANCE if isinstance(operand, VectorDistance) else SCORE
    nothing = pa.table({ID: pa.array([], pa.string()), value: pa.array([], pa.float64())})
    column, query = reader.stored(operand.property), fixed_value(context, operand.query)
    if column is None or query is None or not len(ids):
        return nothing, value
    within = _within(reader, ids)
    if isinstance(operand, TextScore):
        assert isinstance(query, str), "the binder lets only strings through"
        search = partial(text.scores, reader.table, column.name, query, within)
    else:
        # Who may be kept has to be said, or the best of all could crowd out the best of these.
        within = ids if keep is not None and len(ids) < reader.row_count else within
        vector = _vector(context, operand, query)
        search = partial(vectors.nearest, reader.table, column.name, vector, within, keep)
    key = (operand, keep, reader.key) if within is None else None
    return _remembered(context, key, search), value


def _vector(context: Context, operand: VectorDistance, query: object) -> Sequence[float]:
    if not operand.embed:
        assert isinstance(query, list | tuple), "the binder lets only vectors through"
        return query
    assert isinstance(query, str), "only a text is embedded"
    if context.input.embed is None:
        raise BadRequest("nearest() with a text needs an embedding provider; none is configured")
    embed = partial(context.input.embed, query, operand.dimension, operand.model)
    return _remembered(context, ("embedding", query, operand.dimension, operand.model), embed)


# --- fusion ---------------------------------------------------------------------------------------


def fuse_over(context: Context, operands: Iterable[FusedScore], rows: Rows) -> None:
    """Rank the rows of a whole match by some fused scores, for values that are asked for later."""
    for operand in operands:
        entities = rows.entities[operand.variable]
        codes = distinct(rows.codes[operand.variable], entities.size)
        context.fused[operand] = fuse_rankings(context, operand, entities, codes, keep=None)


def fuse_rankings(
    context: Context, operand: FusedScore, entities: Entities, codes: Codes, keep: int | None
) -> tuple[Codes, Doubles]:
    """The entities either arm ranks, best first, with their fused scores.

    With `keep`, an arm of distances contributes only so many of its nearest.
    """
    arms = []
    for arm in (operand.first, operand.second):
        kept = keep if isinstance(arm, VectorDistance) else None
        found, _ = ranked(context, arm, entities, codes, kept)
        # A code names an entity even where two types share an id.
        arms.append(pa.table({ID: pa.array(found).cast(pa.string())}))
    constant = fixed_value(context, operand.constant)
    if not isinstance(constant, int) or constant <= 0:
        raise BadRequest("rrf() takes a constant that is positive")
    fused = fuse.fused(arms[0], arms[1], constant)
    order = as_longs(fused.column(ID).cast(pa.int64()))
    return codes_of(order), np.asarray(fused.column(SCORE).combine_chunks(), dtype=np.float64)

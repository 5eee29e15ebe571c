"""Ordering by relevance: the match first, then the ranking of what it found."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from omnigraph.execution.read.arrays import Codes, Doubles, Longs, find_distinct, find_places_among
from omnigraph.execution.read.context import ReadContext
from omnigraph.execution.read.row_blocks import BLOCK_ROWS, Rows, join_blocks
from omnigraph.execution.read.scores import fuse_rankings, rank_entities
from omnigraph.execution.read.sort import encode_id_order, sort_by_keys, sort_keys
from omnigraph.plan.expressions import FusedScore
from omnigraph.plan.nodes import Rank


def rank(
    node: Rank, context: ReadContext, child: Iterator[Rows], keep: int | None
) -> Iterator[Rows]:
    """The rows whose entity has a score, best first.

    Equal scores are told apart by the further keys, then by the ranked entity, so that its rows
    stay together, and at last by the ids of all variables.
    """
    blocks = list(child)
    if not blocks:
        return
    rows = join_blocks(blocks)
    order, scores = _compute_ranking(node, context, rows, keep)
    rows, places = _place_rows(rows, node.ranking.variable, order)
    keys = sort_keys(context, rows, node.keys, ()) if node.keys else []
    levels = _find_levels(scores)[places]
    ties = [encode_id_order(rows, variable) for variable in node.tie_break]
    found = rows.take(sort_by_keys([levels, *keys, places, *ties], rows.size))
    yield from found.slice(0, found.size if keep is None else keep).pieces(BLOCK_ROWS)


def _place_rows(rows: Rows, variable: str, order: Codes) -> tuple[Rows, Longs]:
    """The rows whose entity is ranked, and the place of each in the ranking."""
    codes, size = rows.codes[variable], rows.entities[variable].size
    is_ranked = np.zeros(size + 1, dtype=np.bool_)  # a missing one looks at the last place
    is_ranked[order] = True
    kept = rows.take(np.flatnonzero(is_ranked[codes]))
    places = find_places_among(kept.codes[variable].astype(np.int64), order.astype(np.int64))
    return kept, places.astype(np.int64)


def _compute_ranking(
    node: Rank, context: ReadContext, rows: Rows, keep: int | None
) -> tuple[Codes, Doubles]:
    """The entities of the match from the best to the last one, with their scores."""
    ranking = node.ranking
    entities = rows.entities[ranking.variable]
    codes = find_distinct(rows.codes[ranking.variable], entities.size)
    keep = None if keep is None else min(keep, len(codes))
    # With further keys, which of several equally good ones comes first is not decided by id.
    needed = None if node.keys else keep
    if isinstance(ranking, FusedScore):
        found = fuse_rankings(context, ranking, entities, codes, keep, needed)
        context.fused[ranking] = found
        return found
    return rank_entities(context, ranking, entities, codes, needed)


def _find_levels(scores: Doubles) -> Longs:
    """Numbers that rise with every change of the score, in the order of the ranking."""
    changes = np.concatenate([[0], np.cumsum(scores[1:] != scores[:-1])])[: len(scores)]
    return changes.astype(np.int64)

"""Entities with what they are ranked by, put in order only as far as somebody asks."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from omnigraph.execution.read.arrays import Codes, Doubles, Longs, encode_values, find_places_among
from omnigraph.execution.search.fuse import UNRANKED, fuse_scores
from omnigraph.execution.search.hits import find_smallest

_FEW_RANKS = 64
"""So few ranks are counted one by one; for more, everything is put in order."""


@dataclass(frozen=True, slots=True)
class Ranking:
    """Different entities, in no particular order.

    The best have the smallest `keys`; equal ones follow `ties`, which are never equal.
    """

    codes: Codes
    values: Doubles
    keys: Doubles
    ties: Longs

    @property
    def size(self) -> int:
        return len(self.codes)

    def at(self, places: Longs) -> Ranking:
        return Ranking(
            self.codes[places], self.values[places], self.keys[places], self.ties[places]
        )

    def best(self, keep: int | None) -> Ranking:
        """The first `keep` in order; all of them without it."""
        some = (
            self if keep is None or keep >= self.size else self.at(find_smallest(self.keys, keep))
        )
        return some.at(np.lexsort((some.ties, some.keys))[:keep])

    def ranks(self, codes: Codes) -> Longs:
        """The rank of each of these entities, counted from 0; -1 for what is not ranked."""
        places = find_places_among(self.codes.astype(np.int64), codes.astype(np.int64))
        known = np.flatnonzero(places >= 0)
        found = np.full(len(codes), UNRANKED, dtype=np.int64)
        if len(known) > _FEW_RANKS:
            order = np.lexsort((self.ties, self.keys))
            rank = np.empty(self.size, dtype=np.int64)
            rank[order] = np.arange(self.size)
            found[places[known]] = rank[known]
        else:
            found[places[known]] = [self._rank(place) for place in known.tolist()]
        return found

    def _rank(self, place: int) -> int:
        key = self.keys[place]
        level = self.ties[self.keys == key]
        before = np.count_nonzero(self.keys < key)
        return int(before) + int(np.count_nonzero(level < self.ties[place]))


def merge_rankings(
    first: Ranking, second: Ranking, constant: int, keep: int | None
) -> tuple[Codes, Doubles]:
    """The entities of both rankings, best first, with their fused scores.

    With `keep` only this many of the best are needed.
    """
    pool = _pool_rankings(first, second, keep)
    order, scores = fuse_scores(first.ranks(pool), second.ranks(pool), constant)
    return encode_values(pool[order][:keep]), scores[:keep]


def _pool_rankings(first: Ranking, second: Ranking, keep: int | None) -> Codes:
    """The entities among which the best are."""
    some = [first, second]
    if keep is not None and min(first.size, second.size) <= keep:
        # All of a short ranking take part. What only the other one names comes in the order it
        # has there, so none of these beyond the first `keep` is needed.
        some = [arm if arm.size <= keep else arm.best(keep) for arm in some]
    return encode_values(np.unique(np.concatenate([arm.codes for arm in some])))

"""Hits of a search, rows each with a score or distance, and the fusion of two rankings."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Integers = npt.NDArray[np.int64]
Doubles = npt.NDArray[np.float64]

_VALUES_PER_GROUP = 64
"""Values per group; a first pass compares only the minima of the groups."""


@dataclass(frozen=True, slots=True)
class Hits:
    """Row ids, each once, and the score or distance of each; in no particular order."""

    row_ids: Integers
    values: Doubles

    @classmethod
    def together(cls, parts: Sequence[Hits]) -> Hits:
        """The hits of several pieces of a table."""
        if len(parts) == 1:
            return parts[0]
        return cls(
            np.concatenate([np.empty(0, np.int64), *(part.row_ids for part in parts)]),
            np.concatenate([np.empty(0, np.float64), *(part.values for part in parts)]),
        )

    def at(self, positions: Integers) -> Hits:
        return Hits(self.row_ids[positions], self.values[positions])


def find_smallest(values: npt.NDArray[np.floating], count: int) -> Integers:
    """Return the indexes of the `count` smallest values and of all ties with the last; ascending.

    One pass without a sort: values above the minima of `count` groups are not among them.
    """
    if count <= 0:
        return np.empty(0, np.int64)
    if len(values) <= count:
        return np.arange(len(values))
    groups = len(values) // _VALUES_PER_GROUP
    if groups <= count:
        return np.flatnonzero(values <= _find_kth(values, count))
    least = values[: groups * _VALUES_PER_GROUP].reshape(groups, -1).min(axis=1)
    some = np.flatnonzero(values <= _find_kth(least, count))
    few = values[some]
    return some[few <= _find_kth(few, count)]


def _find_kth(values: npt.NDArray[np.floating], count: int) -> np.floating:
    kth: np.floating = np.partition(values, count - 1)[count - 1]
    return kth


UNRANKED = -1
"""The rank of an item that a ranking does not contain."""


def fuse_scores(first: Integers, second: Integers, constant: int) -> tuple[Integers, Doubles]:
    """Fuse two rankings: the best order of their items, with fused scores.

    The arguments are the ranks of each item in both rankings, from 0. A score is the sum of 1 /
    (constant + rank + 1). Ties keep the order of the first ranking, then of the second.
    """
    scores = _compute_share(first, constant) + _compute_share(second, constant)
    # Items of the second ranking only come after all of the first.
    first_position = np.where(first == UNRANKED, np.iinfo(np.int64).max, first)
    order: Integers = np.lexsort((second, first_position, -scores))
    return order, scores[order]


def _compute_share(ranks: Integers, constant: int) -> Doubles:
    share: npt.NDArray[np.float64] = 1.0 / (ranks + (constant + 1))
    share[ranks == UNRANKED] = 0.0
    return share

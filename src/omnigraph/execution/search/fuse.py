"""Two rankings joined into one by the places things have in them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from omnigraph.execution.search.hits import Doubles, Integers

UNRANKED = -1
"""The rank of what a ranking does not name."""


def fuse_scores(first: Integers, second: Integers, constant: int) -> tuple[Integers, Doubles]:
    """The best order of some things, and the fused score of each in that order.

    The arguments hold the rank of each thing in both rankings, counted from 0. A score is the sum
    of 1 / (constant + rank + 1). Equal scores keep the order of the first ranking, then of the
    second.
    """
    scores = _compute_share(first, constant) + _compute_share(second, constant)
    # What only the second ranking names comes after all that the first one does.
    first_place = np.where(first == UNRANKED, np.iinfo(np.int64).max, first)
    order: Integers = np.lexsort((second, first_place, -scores))
    return order, scores[order]


def _compute_share(ranks: Integers, constant: int) -> Doubles:
    share: npt.NDArray[np.float64] = 1.0 / (ranks + (constant + 1))
    share[ranks == UNRANKED] = 0.0
    return share

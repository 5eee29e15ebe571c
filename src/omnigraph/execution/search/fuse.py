"""Two rankings joined into one by the places things have in them."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc


def fused(first: pa.Table, second: pa.Table, constant: int) -> pa.Table:
    """The ids of both rankings with the sum of 1 / (constant + rank + 1), the highest first.

    Both tables hold ids in rank order; the rank counts distinct ids from 0. Equal scores keep the
    order of the first ranking, then of the second.
    """
    ids, others = pc.unique(first.column("id")), pc.unique(second.column("id"))
    scores, other_scores = _scores(len(ids), constant), _scores(len(others), constant)
    place = pc.index_in(others, value_set=ids)
    in_both = place.is_valid().to_numpy(zero_copy_only=False)
    scores[place.drop_null().to_numpy()] += other_scores[in_both]
    all_ids = pa.concat_arrays([ids, others.filter(place.is_null())])
    all_scores = np.concatenate([scores, other_scores[~in_both]])
    order = np.argsort(-all_scores, kind="stable")
    return pa.table(
        {"id": all_ids.take(pa.array(order)), "score": pa.array(all_scores[order], pa.float64())}
    )


def _scores(count: int, constant: int) -> npt.NDArray[np.float64]:
    return 1.0 / (np.arange(count) + (constant + 1))

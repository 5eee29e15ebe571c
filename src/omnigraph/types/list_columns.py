"""Lists and vectors put together from one column of items."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pyarrow as pa

Integers = npt.NDArray[np.int64]
Flags = npt.NDArray[np.bool_]


def build_list_column(items: pa.Array, lengths: Integers, null: Flags) -> pa.Array:
    """A list column: row by row the next `lengths` items, null where marked."""
    offsets = pa.array(np.concatenate([[0], np.cumsum(lengths)]), pa.int32())
    return pa.ListArray.from_arrays(offsets, items, mask=pa.array(null))


def build_vector_column(items: pa.Array, null: Flags, target: pa.DataType) -> pa.Array:
    """A vector column; `items` holds the numbers of the rows that are not null."""
    if null.any():
        # A null vector still takes up its room among the items.
        room = np.zeros((len(null), target.list_size), np.float32)
        room[~null] = items.to_numpy().reshape(-1, target.list_size)
        items = pa.array(room.reshape(-1))
    return pa.FixedSizeListArray.from_arrays(items, type=target, mask=pa.array(null))

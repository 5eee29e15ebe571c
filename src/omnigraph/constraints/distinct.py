"""Whether values repeat, which most writes ask and most answer with no."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc


def are_distinct(values: pa.Array) -> bool:
    """Whether no value occurs twice; NULL counts as a value."""
    return len(pc.unique(values)) == len(values)

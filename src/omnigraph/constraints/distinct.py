"""Whether values repeat, which most writes ask and most answer with no."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc

_WORTH_LOADING = 1 << 20
"""With fewer values Arrow is done before Polars is loaded."""


def are_distinct(values: pa.Array) -> bool:
    """Whether no value occurs twice; NULL counts as a value."""
    if len(values) < _WORTH_LOADING:
        return len(pc.unique(values)) == len(values)
    import polars as pl  # noqa: PLC0415 - small writes do without, and it loads slowly

    return int(pl.Series(values).n_unique()) == len(values)

"""Rows that were read by their addresses, kept for whoever asks for some of them next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa


@dataclass(frozen=True, slots=True)
class KeptRows:
    """Rows of one version, ascending by address."""

    addresses: npt.NDArray[np.uint64]
    rows: pa.Table

    def find(self, wanted: npt.NDArray[np.uint64], names: Sequence[str]) -> pa.Table | None:
        """Some of the rows, in that order; None unless all are here, with all these columns."""
        if not len(wanted) or not set(names) <= set(self.rows.column_names):
            return None
        if np.array_equal(wanted, self.addresses):
            return self.rows.select(names)
        places = np.searchsorted(self.addresses, wanted)
        if places.max() >= len(self.addresses) or (self.addresses[places] != wanted).any():
            return None
        return self.rows.select(names).take(pa.array(places))

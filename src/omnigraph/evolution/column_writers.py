"""Who writes the values of new columns: threads of this process, unless the caller has others."""

from __future__ import annotations

import os
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Protocol

from omnigraph.storage.tables import ColumnOrder, WrittenColumns, carry_out


class ColumnWriters(Protocol):
    """Carries out orders, one for each fragment, side by side."""

    def write(self, orders: Sequence[ColumnOrder]) -> Sequence[WrittenColumns]: ...


@dataclass(frozen=True, slots=True)
class Threads:
    """Carries them out in this process, so many fragments at a time.

    The substrate works on one fragment with several threads of its own: more fragments than cores
    would only get in each other's way.
    """

    count: int = field(default_factory=lambda: os.cpu_count() or 1)

    def write(self, orders: Sequence[ColumnOrder]) -> Sequence[WrittenColumns]:
        if len(orders) <= 1:
            return [carry_out(order) for order in orders]
        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(carry_out, orders))

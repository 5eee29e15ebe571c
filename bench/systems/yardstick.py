"""A piece of work that never changes, done between others to see how fast the machine is now.

Machines have slow minutes. Figures of different minutes are compared through this one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import lance
import pyarrow as pa

from bench.systems.clock import Seconds, timed

_T = TypeVar("_T")
_ROW = pa.table({"key": ["yard"], "value": [1]})


class Yardstick:
    """One row written over a bare table of one row, after each call that is timed."""

    def __init__(self, sample_folder: Path) -> None:
        self._table = lance.write_dataset(_ROW, sample_folder / "yardstick.lance", mode="overwrite")
        self.seconds: list[float] = []

    def timed(self, do: Callable[[], _T]) -> tuple[_T, Seconds]:
        """Run `do`, then the yardstick once, and return the result and both times."""
        found = timed(do)
        self._table, taken = timed(self._lay)
        self.seconds.append(taken.wall)
        return found

    def _lay(self) -> lance.LanceDataset:
        return lance.write_dataset(_ROW, self._table, mode="overwrite")

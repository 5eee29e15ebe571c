"""Who writes the files of a round: threads of this process, unless the caller has others."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Protocol

from omnigraph.storage.tables import CompactionJob, CompactionOutput, run_job


class CompactionWorkers(Protocol):
    """Carries out orders, one for each table, side by side."""

    def carry_out(self, orders: Sequence[CompactionJob]) -> Sequence[CompactionOutput | None]:
        """What was written for each order; None where the version to read from is gone."""
        ...


@dataclass(frozen=True, slots=True)
class CompactionThreads:
    """Carries them out in this process, this many tables at a time."""

    count: int

    def carry_out(self, orders: Sequence[CompactionJob]) -> Sequence[CompactionOutput | None]:
        with ThreadPoolExecutor(self.count) as pool:
            return list(pool.map(run_job, orders))

"""Writing the files that rearrange tables by tasks, each group and each segment in one of its own.

Planning, the fence and the commit are the driver's, as for work in one process; what comes back
from the tasks is the metadata of fragments and segments.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

from omnigraph.pipeline.tasks import Tasks
from omnigraph.storage.tables.orders import Delivery, Order, combined

STAGE = "rearrange"

_KERNEL = "omnigraph.pipeline.kernels.upkeep:write_piece"


@dataclass(frozen=True, slots=True)
class TaskWorkers:
    """Carries out the orders of all tables in one stage."""

    tasks: Tasks

    def carry_out(self, orders: Sequence[Order]) -> list[Delivery | None]:
        """What was written for each order; None where the version to read from is gone."""
        pieces = [order.pieces for order in orders]
        every = [piece for of_one in pieces for piece in of_one]
        if not every:
            return []
        delivered = self.tasks.run(_KERNEL, every, None, stage=STAGE)
        ends = accumulate((len(of_one) for of_one in pieces), initial=0)
        return [combined(delivered[start:end]) for start, end in pairwise(ends)]

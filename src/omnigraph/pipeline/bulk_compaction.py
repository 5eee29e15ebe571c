"""Compaction and index building by tasks: each group and each segment in one of its own.

Planning, the fence and the commit are the driver's, as for work in one process; what comes back
from the tasks is the metadata of fragments and segments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.pipeline.kernels.compaction_kernel import WrittenPiece, write_piece
from omnigraph.pipeline.tasks import Tasks
from omnigraph.storage.tables import CompactionJob, CompactionOutput, combine_outputs, is_available

STAGE = "compact"


@dataclass(frozen=True)
class CompactionTasks:
    """Carries out the orders of all tables in one stage.

    Spark is started for the first orders there are: finding nothing to do takes no session.
    """

    start: Callable[[], Tasks]

    @cached_property
    def _tasks(self) -> Tasks:
        return self.start()

    def carry_out(self, orders: Sequence[CompactionJob]) -> list[CompactionOutput | None]:
        """What was written for each order; None where the version to read from is gone.

        Raises:
            StorageFailure: tasks do not see a table that is there.
        """
        pieces = [order.pieces for order in orders]
        every = [piece for of_one in pieces for piece in of_one]
        if not every:
            return []
        written = self._tasks.run(write_piece, every, None, stage=STAGE)
        _require_seen(every, written)
        delivered = [one.delivery for one in written]
        ends = accumulate((len(of_one) for of_one in pieces), initial=0)
        return [combine_outputs(delivered[start:end]) for start, end in pairwise(ends)]


def _require_seen(pieces: Sequence[CompactionJob], written: Sequence[WrittenPiece]) -> None:
    """Raise if a table is where tasks did not find it: they look at another place.

    A version that was removed meanwhile is not there for anybody, and never comes back.
    """
    for piece, one in zip(pieces, written, strict=True):
        if not one.was_there and is_available(piece):
            raise StorageFailure(
                StorageKind.CONFIGURATION,
                f"the Spark executors do not see {piece.location}; they must reach the graph "
                "under the same address",
            )

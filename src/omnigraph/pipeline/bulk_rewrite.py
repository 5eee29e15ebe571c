"""Rewrite tables by tasks: compaction, index segments, and the values of new columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property
from itertools import accumulate, pairwise

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.pipeline.tasks import Tasks
from omnigraph.storage.tables import (
    ColumnJob,
    CompactionJob,
    CompactionOutput,
    WrittenColumns,
    carry_out,
    combine_outputs,
    is_available,
    run_job,
)


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPiece:
    """Result for one piece of an order, and the flag that its table could be opened."""

    delivery: CompactionOutput | None
    was_there: bool


def write_piece(spec: None, task: CompactionJob) -> WrittenPiece:
    """Write one piece; a repeated run leaves unreferenced files, which is harmless."""
    del spec
    if not is_available(task):
        return WrittenPiece(delivery=None, was_there=False)
    return WrittenPiece(delivery=run_job(task), was_there=True)


def write_column_file(spec: None, task: ColumnJob) -> WrittenColumns:
    """Write one column file; a repeated run leaves an unreferenced file, which is harmless."""
    del spec
    return carry_out(task)


COMPACT_STAGE = "compact"


@dataclass(frozen=True)
class CompactionTasks:
    """Runs the orders of all tables in one stage.

    Spark is started for the first orders; without any, no session is needed.
    """

    start: Callable[[], Tasks]

    @cached_property
    def _tasks(self) -> Tasks:
        return self.start()

    def carry_out(self, orders: Sequence[CompactionJob]) -> list[CompactionOutput | None]:
        """Run orders and return their results; None if the version to read is gone.

        Raises:
            StorageFailure: tasks cannot open a table that exists.
        """
        pieces = [order.pieces for order in orders]
        every = [piece for of_one in pieces for piece in of_one]
        if not every:
            return []
        written = self._tasks.run(write_piece, every, None, stage=COMPACT_STAGE)
        _require_seen(every, written)
        delivered = [one.delivery for one in written]
        ends = accumulate((len(of_one) for of_one in pieces), initial=0)
        return [combine_outputs(delivered[start:end]) for start, end in pairwise(ends)]


def _require_seen(pieces: Sequence[CompactionJob], written: Sequence[WrittenPiece]) -> None:
    """Raise if a table exists that tasks did not find: they have other storage.

    A version that was removed meanwhile is gone for every process.
    """
    for piece, one in zip(pieces, written, strict=True):
        if not one.was_there and is_available(piece):
            raise StorageFailure(
                StorageKind.CONFIGURATION,
                f"the Spark executors do not see {piece.location}; they must reach the graph "
                "under the same address",
            )


COLUMNS_STAGE = "columns"


@dataclass(frozen=True)
class TaskColumnWriters:
    """Runs the orders of a table in one stage; without any, no session is needed."""

    start: Callable[[], Tasks]

    @cached_property
    def _tasks(self) -> Tasks:
        return self.start()

    def write(self, orders: Sequence[ColumnJob]) -> Sequence[WrittenColumns]:
        if not orders:
            return []
        return self._tasks.run(write_column_file, list(orders), None, stage=COLUMNS_STAGE)

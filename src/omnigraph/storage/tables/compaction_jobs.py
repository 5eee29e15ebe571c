"""Orders for the files of a compaction, and what was delivered for them.

An order is plain data. Whoever carries it out, a thread here or a task in another machine, opens
the version it names by itself, reads it and writes fresh files; nothing becomes visible by that,
so an order may be carried out twice.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace

from omnigraph.errors import HistoricalVersionReclaimed, StorageFailure, StorageKind
from omnigraph.storage.tables.compaction import WrittenGroup, write_groups
from omnigraph.storage.tables.indices import BuiltSegment, SegmentPlan, build_segment
from omnigraph.storage.tables.location import TableLocation
from omnigraph.storage.tables.table import open_table


@dataclass(frozen=True, slots=True)
class CompactionJob:
    """What to write for one version of a table: merged fragments, or segments of indexes."""

    location: TableLocation
    version: int
    groups: tuple[tuple[int, ...], ...] = ()
    plans: tuple[SegmentPlan, ...] = ()

    @property
    def pieces(self) -> tuple[CompactionJob, ...]:
        """The same as orders of one group or one segment each."""
        return (
            *(replace(self, groups=(group,), plans=()) for group in self.groups),
            *(replace(self, groups=(), plans=(plan,)) for plan in self.plans),
        )


@dataclass(frozen=True, slots=True)
class CompactionOutput:
    """What was written for an order, durable and not yet visible."""

    groups: tuple[WrittenGroup, ...] = ()
    segments: tuple[BuiltSegment, ...] = ()


def is_available(order: CompactionJob) -> bool:
    """Whether the version to read from can be opened here."""
    try:
        open_table(order.location, order.version)
    except (HistoricalVersionReclaimed, StorageFailure) as failure:
        if not is_gone(failure):
            raise
        return False
    return True


def run_job(order: CompactionJob) -> CompactionOutput | None:
    """Everything that was ordered; None if the version to read from is there no longer."""
    try:
        # A handle of its own: while an index is built, nobody else can use the handle.
        table = open_table(order.location, order.version)
        groups = write_groups(table, order.groups)
        return CompactionOutput(groups, tuple(build_segment(table, plan) for plan in order.plans))
    except (HistoricalVersionReclaimed, StorageFailure) as failure:
        if not is_gone(failure):
            raise
        return None


def combine_outputs(deliveries: Iterable[CompactionOutput | None]) -> CompactionOutput | None:
    """The deliveries for the pieces of an order as one; None if any of them is missing."""
    found = list(deliveries)
    parts = [part for part in found if part is not None]
    if len(parts) < len(found):
        return None
    return CompactionOutput(
        tuple(group for part in parts for group in part.groups),
        tuple(segment for part in parts for segment in part.segments),
    )


def is_gone(failure: HistoricalVersionReclaimed | StorageFailure) -> bool:
    """Whether the graph moved on and cleanup removed what was being read."""
    if isinstance(failure, StorageFailure):
        return failure.kind is StorageKind.NOT_FOUND
    return True

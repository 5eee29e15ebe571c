"""Merged fragments, or a segment of an index, of one table."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.storage.tables import CompactionJob, CompactionOutput, is_available, run_job


@dataclass(frozen=True, slots=True, kw_only=True)
class WrittenPiece:
    """What was delivered for a piece of an order, and whether its table was to be seen at all."""

    delivery: CompactionOutput | None
    was_there: bool


def write_piece(spec: None, task: CompactionJob) -> WrittenPiece:
    """What was written; running it twice leaves unreferenced files, which is harmless."""
    del spec
    if not is_available(task):
        return WrittenPiece(delivery=None, was_there=False)
    return WrittenPiece(delivery=run_job(task), was_there=True)

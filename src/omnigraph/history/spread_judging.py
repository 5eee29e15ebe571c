"""Judging the entities of a large merge in many tasks, by the functions that judge them here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.history.three_way import (
    Entities,
    Judge,
    RunJudge,
    TableSides,
    Verdicts,
    judge_here,
)
from omnigraph.storage.tables import PinnedTable

ENTITIES_PER_TASK = 65_536
LARGE_DELTA = 262_144
"""From so many entities on, spreading the work is worth its start."""

Spec = TypeVar("Spec")
Task = TypeVar("Task")
Result = TypeVar("Result")


class RunsTasks(Protocol):
    """Where tasks run."""

    def run(
        self,
        kernel: Callable[[Spec, Task], Result],
        tasks: Sequence[Task],
        spec: Spec,
        *,
        stage: str = "",
    ) -> list[Result]: ...


@dataclass(frozen=True, slots=True)
class JudgingSpec:
    """What all tasks share: plain data."""

    judge: Judge
    base: PinnedTable
    source: PinnedTable
    target: PinnedTable

    def open(self) -> TableSides:
        return TableSides(self.base.open(), self.source.open(), self.target.open())


def spread_judging(tasks: Callable[[], RunsTasks], *, at_least: int = 0) -> RunJudge:
    """Judges in tasks where there are at least so many entities, and fewer here.

    `tasks` is asked where they run when the first are needed.
    """

    def run(judge: Judge, sides: TableSides, some: Entities) -> Verdicts:
        if not len(some) or len(some) < at_least:
            return judge_here(judge, sides, some)
        versions = (PinnedTable.of(one) for one in (sides.base, sides.source, sides.target))
        packed = [_pack(one) for one in some.batches(ENTITIES_PER_TASK)]
        found = tasks().run(judge_packed, packed, JudgingSpec(judge, *versions), stage="comparing")
        return np.concatenate([np.frombuffer(one, np.int8) for one in found])

    return run


def judge_packed(spec: JudgingSpec, packed: bytes) -> bytes:
    """The verdicts on some entities, a byte each."""
    return judge_here(spec.judge, spec.open(), _unpack(packed)).tobytes()


def _pack(some: Entities) -> bytes:
    """Just these entities: pickling a part of an array would take along all of it."""
    columns = {name: getattr(some, name) for name in Entities.__slots__}
    batch = pa.RecordBatch.from_pydict(columns)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpack(packed: bytes) -> Entities:
    batch = pa.ipc.open_stream(packed).read_next_batch()
    return Entities(*(batch.column(name) for name in Entities.__slots__))

"""Comparing the rows of a large merge in many tasks, by the kernels that compare them here."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

import numpy as np
import pyarrow as pa

from omnigraph.history.three_way import Compare, Entities, Kernel, Sides, Verdicts, compare_here
from omnigraph.storage.tables.table_version import TableVersion

ROWS_PER_TASK = 65_536
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
class Comparison:
    """What all tasks of one comparison share: plain data."""

    kernel: Kernel
    base: TableVersion
    source: TableVersion
    target: TableVersion

    def open(self) -> Sides:
        return Sides(self.base.open(), self.source.open(), self.target.open())


def spread_compare(tasks: Callable[[], RunsTasks], *, at_least: int = 0) -> Compare:
    """Compares in tasks what has at least so many entities, and anything smaller here.

    `tasks` is asked where they run when the first are needed.
    """

    def compare(kernel: Kernel, sides: Sides, some: Entities) -> Verdicts:
        if not len(some) or len(some) < at_least:
            return compare_here(kernel, sides, some)
        tables = (TableVersion.of(one) for one in (sides.base, sides.source, sides.target))
        slices = [_pack(one) for one in some.batches(ROWS_PER_TASK)]
        found = tasks().run(judge_slice, slices, Comparison(kernel, *tables), stage="comparing")
        return np.concatenate([np.frombuffer(one, np.int8) for one in found])

    return compare


def judge_slice(comparison: Comparison, packed: bytes) -> bytes:
    """The verdicts on some entities, a byte each."""
    return compare_here(comparison.kernel, comparison.open(), _unpack(packed)).tobytes()


def _pack(some: Entities) -> bytes:
    """Just these entities: pickling a part of an array would take along all of it."""
    columns = {name: getattr(some, name) for name in Entities.__slots__}
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, pa.schema([(n, c.type) for n, c in columns.items()])) as stream:
        stream.write_batch(pa.RecordBatch.from_pydict(columns))
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


def _unpack(packed: bytes) -> Entities:
    batch = pa.ipc.open_stream(packed).read_next_batch()
    return Entities(*(batch.column(name) for name in Entities.__slots__))

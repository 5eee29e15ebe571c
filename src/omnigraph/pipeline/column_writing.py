"""Writing the values of new columns by tasks, each fragment in one of its own.

Planning, the fence and the commit are the driver's, as for work in one process; what comes back
from the tasks is the metadata of fragments.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from omnigraph.pipeline.kernels.column_files import write_column_file
from omnigraph.pipeline.tasks import Tasks
from omnigraph.storage.tables import ColumnOrder, WrittenColumns

STAGE = "columns"


@dataclass(frozen=True)
class TaskColumnWriters:
    """Carries out the orders of a table in one stage; nothing is started without any."""

    start: Callable[[], Tasks]

    @cached_property
    def _tasks(self) -> Tasks:
        return self.start()

    def write(self, orders: Sequence[ColumnOrder]) -> Sequence[WrittenColumns]:
        if not orders:
            return []
        return self._tasks.run(write_column_file, list(orders), None, stage=STAGE)

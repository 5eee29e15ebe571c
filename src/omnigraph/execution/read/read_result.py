"""What a read gives back: columns known at once, rows as they are asked for."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain

import pyarrow as pa

from omnigraph.execution.read.execution_profile import ExecutionProfile


class ReadResult:
    """The rows of a query, a batch at a time.

    Nothing is kept: rows that were read are gone, and the profile is complete when all were.
    """

    def __init__(
        self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], profile: ExecutionProfile
    ) -> None:
        self.schema, self.profile = schema, profile
        # The first batch is made right away: mistakes in values show where the query is run.
        first = next(batches, None)
        self._batches = chain([] if first is None else [first], batches)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows not yet read, in order."""
        return self._batches

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_batches(self._batches, self.schema)

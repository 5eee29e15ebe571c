"""The rows of a query that ran on Spark, read like any other result."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.errors import BadRequest, OmniError, StorageFailure, StorageKind
from omnigraph.execution.read import ExecutionProfile, ReadResult, build_output_schema
from omnigraph.pipeline.query.aggregates import SUM_TOO_LARGE
from omnigraph.pipeline.spark_columns import convert_from_spark
from omnigraph.pipeline.spark_errors import extract_reason, find_raised_text
from omnigraph.plan.nodes import ReadPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class SparkRead(ReadResult):
    """Rows that stay with Spark until they are asked for; then they come at once."""

    def __init__(self, plan: ReadPlan, frame: DataFrame) -> None:
        self.schema, self.profile = build_output_schema(plan.columns), ExecutionProfile(plan.root)
        self.frame = frame

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self._table.to_batches())

    def to_arrow(self) -> pa.Table:
        return self._table

    @cached_property
    def _table(self) -> pa.Table:
        try:
            found = self.frame.toArrow()
        except Exception as error:
            raise _translate_error(error) from error
        columns = [
            _restore_column(column, field.type)
            for column, field in zip(found.columns, self.schema, strict=True)
        ]
        if not columns:
            return pa.Table.from_pylist([{}] * found.num_rows, schema=self.schema)
        return pa.table(columns, schema=self.schema)


def _restore_column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    return convert_from_spark(whole, kind)


def _translate_error(error: Exception) -> OmniError:
    """What went wrong, as the embedded executor would say it."""
    too_large = find_raised_text(error, SUM_TOO_LARGE)
    if too_large is not None:
        return BadRequest(too_large)
    return StorageFailure(
        StorageKind.UNKNOWN, f"the query failed on Spark: {extract_reason(error)}"
    )

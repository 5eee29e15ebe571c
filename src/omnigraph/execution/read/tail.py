"""The end of a plan: rows to output columns, ordered and cut."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.errors import BadRequest, ParameterError
from omnigraph.execution.read.arrays import Longs, one_chunk
from omnigraph.execution.read.context import Context
from omnigraph.execution.read.keys import ordinals, tie_keys
from omnigraph.execution.read.sort import candidates, in_order
from omnigraph.plan.expressions import Constant, OutputValue, ParameterValue
from omnigraph.plan.nodes import Slice, Sort, SortKey


def row_count(context: Context, value: Constant | ParameterValue, word: str) -> int:
    """How many rows a limit or an offset speaks of."""
    count = context.given.value(value)
    assert isinstance(count, int), "the binder lets only integers through"
    if count >= 0:
        return count
    problem = f"{word} takes a number that is not negative, not {count}"
    if isinstance(value, ParameterValue):
        raise ParameterError(value.name, problem)
    raise BadRequest(problem)


def window(context: Context, node: Slice) -> tuple[int, int | None]:
    """How many rows are skipped, and how many then given; None gives all."""
    skipped = 0 if node.offset is None else row_count(context, node.offset, "offset")
    return skipped, None if node.limit is None else row_count(context, node.limit, "limit")


def cut(
    batches: Iterator[pa.RecordBatch], skipped: int, given: int | None
) -> Iterator[pa.RecordBatch]:
    """The batches without their first rows, until enough were given."""
    while given is None or given > 0:
        batch = next(batches, None)
        if batch is None:
            return
        start = min(skipped, batch.num_rows)
        skipped -= start
        rows = batch.slice(start, batch.num_rows if given is None else min(given, batch.num_rows))
        if rows.num_rows:
            given = None if given is None else given - rows.num_rows
            yield rows


def sorted_table(table: pa.Table, node: Sort, keep: int | None = None) -> pa.Table:
    """A result ordered by its own columns; with `keep` at least so many of its first rows."""
    if keep is not None and keep < table.num_rows:
        first = (
            _output_ordinals(table, node.keys[0])
            if node.keys
            else tie_keys(one_chunk(table.column(node.tie_columns[0])))
        )
        table = table.take(pa.array(candidates(first, keep)))
    keys = []
    for key in node.keys:
        keys += _output_ordinals(table, key)
    for name in node.tie_columns:
        keys += tie_keys(one_chunk(table.column(name)))
    return table.take(pa.array(in_order(keys, table.num_rows)[:keep]))


def _output_ordinals(table: pa.Table, key: SortKey) -> list[Longs]:
    assert isinstance(key.value, OutputValue), "above the output there are only its columns"
    found = ordinals(one_chunk(table.column(key.value.column)))
    return found.keys(descending=key.descending)

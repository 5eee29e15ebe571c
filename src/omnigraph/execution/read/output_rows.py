"""The end of a plan: rows to output columns, ordered and cut."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa

from omnigraph.errors import BadRequest, ParameterError
from omnigraph.execution.read.arrays import Longs, combine_chunks
from omnigraph.execution.read.context import ReadContext
from omnigraph.execution.read.sort import select_candidates, sort_by_keys
from omnigraph.execution.read.sort_keys import encode_sort_key, encode_tie_keys
from omnigraph.plan.expressions import Constant, OutputValue, ParameterValue
from omnigraph.plan.nodes import Slice, Sort, SortKey


def evaluate_row_count(context: ReadContext, value: Constant | ParameterValue, word: str) -> int:
    """How many rows a limit or an offset speaks of."""
    count = context.given.value(value)
    assert isinstance(count, int), "the binder lets only integers through"
    if count >= 0:
        return count
    problem = f"{word} takes a number that is not negative, not {count}"
    if isinstance(value, ParameterValue):
        raise ParameterError(value.name, problem)
    raise BadRequest(problem)


def evaluate_window(context: ReadContext, node: Slice) -> tuple[int, int | None]:
    """How many rows are skipped, and how many then given; None gives all."""
    skipped = 0 if node.offset is None else evaluate_row_count(context, node.offset, "offset")
    return skipped, None if node.limit is None else evaluate_row_count(context, node.limit, "limit")


def slice_batches(
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


def sort_table(table: pa.Table, node: Sort, keep: int | None = None) -> pa.Table:
    """A result ordered by its own columns; with `keep` at least this many of its first rows."""
    if keep is not None and keep < table.num_rows:
        first = (
            _encode_output_keys(table, node.keys[0])
            if node.keys
            else encode_tie_keys(combine_chunks(table.column(node.tie_columns[0])))
        )
        table = table.take(pa.array(select_candidates(first, keep)))
    keys = []
    for key in node.keys:
        keys += _encode_output_keys(table, key)
    for name in node.tie_columns:
        keys += encode_tie_keys(combine_chunks(table.column(name)))
    return table.take(pa.array(sort_by_keys(keys, table.num_rows)[:keep]))


def _encode_output_keys(table: pa.Table, key: SortKey) -> list[Longs]:
    assert isinstance(key.value, OutputValue), "above the output there are only its columns"
    found = encode_sort_key(combine_chunks(table.column(key.value.column)))
    return found.keys(descending=key.descending)

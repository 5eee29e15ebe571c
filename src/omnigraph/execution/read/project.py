"""Project rows to result columns, sort them, and apply offset and limit."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.errors import BadRequest, ParameterError
from omnigraph.execution.read.code_arrays import Longs, combine_chunks, combine_codes, group
from omnigraph.execution.read.expression_values import Values
from omnigraph.execution.read.read_context import ReadContext
from omnigraph.execution.read.row_blocks import Rows
from omnigraph.execution.read.sort import (
    ValueCodes,
    encode_sort_key,
    encode_tie_keys,
    encode_value_codes,
    normalize_zeros,
    select_candidates,
    sort_by_keys,
)
from omnigraph.plan.expressions import (
    AggregateValue,
    Constant,
    ObjectType,
    ObjectValue,
    Operand,
    Output,
    OutputValue,
    ParameterValue,
    ValueType,
)
from omnigraph.plan.plan_nodes import OutputColumn, Slice, Sort, SortKey
from omnigraph.plan.walk import list_leaves
from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.property import PropertyType


def build_output_schema(columns: Sequence[OutputColumn]) -> pa.Schema:
    """Build the schema of a result, in projection order."""
    return pa.schema([pa.field(c.name, get_output_type(c.type), is_nullable(c)) for c in columns])


def is_nullable(column: OutputColumn) -> bool:
    return isinstance(column.value, AggregateValue) or column.type.nullable


def get_output_type(type_: ValueType) -> pa.DataType:
    match type_:
        case PropertyType():
            return to_arrow_type(type_)
        case ObjectType():
            fields = [pa.field(name, to_arrow_type(t), t.nullable) for name, t in type_.fields]
            return pa.struct(fields)
        case _:
            assert_never(type_)


def list_operands(columns: Sequence[OutputColumn]) -> Iterator[Operand]:
    """Yield the operands of the columns."""
    for column in columns:
        yield from list_leaves(column.value)


def project_rows(
    context: ReadContext, rows: Rows, columns: Sequence[OutputColumn], schema: pa.Schema
) -> pa.RecordBatch:
    """Compute one output row for each row."""
    values = Values(context, rows)
    values.prefetch(list_operands(columns))
    arrays = [convert_output_values(values, column.value) for column in columns]
    shaped = [_cast(array, field.type) for array, field in zip(arrays, schema, strict=True)]
    if not shaped:
        return pa.RecordBatch.from_pylist([{}] * rows.size, schema=schema)
    return pa.RecordBatch.from_arrays(shaped, schema=schema)


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    return values if values.type == wanted else values.cast(wanted)


def convert_output_values(values: Values, output: Output) -> pa.Array:
    match output:
        case ObjectValue():
            return _build_objects(values, output)
        case AggregateValue():
            raise AssertionError("aggregates are computed over groups")
        case _:
            return values.of(output)


def _build_objects(values: Values, output: ObjectValue) -> pa.Array:
    kind = get_output_type(output.type)
    members = [
        _cast(values.of(value), kind.field(position).type)
        for position, (_, value) in enumerate(output.fields)
    ]
    missing = values.rows.codes[output.variable] < 0
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=pa.array(missing))


def drop_duplicate_rows(table: pa.Table) -> pa.Table:
    """Drop duplicate rows of a result, in no particular order; zeros have no sign."""
    codes = [encode_column(combine_chunks(column)) for column in table.columns]
    keys, domain = combine_codes([(c.codes, c.size) for c in codes], table.num_rows)
    found = table.take(pa.array(group(keys, domain).first_row))
    arrays = [normalize_zeros(combine_chunks(column)) for column in found.columns]
    return pa.table(arrays, schema=table.schema)


def encode_column(values: pa.Array) -> ValueCodes:
    """Encode equal values as equal codes; objects are equal when all their members are."""
    if not pa.types.is_struct(values.type):
        return encode_value_codes(values)
    members = [encode_column(member) for member in values.flatten()]
    keys, domain = combine_codes([(m.codes, m.size) for m in members], len(values))
    groups = group(keys, domain)
    missing = np.asarray(values.is_null())
    return ValueCodes(np.where(missing, -1, groups.of_row).astype(np.int32), groups.count)


def evaluate_row_count(context: ReadContext, value: Constant | ParameterValue, word: str) -> int:
    """Return the number of rows of a limit or an offset."""
    count = context.given.value(value)
    assert isinstance(count, int), "the binder lets only integers through"
    if count >= 0:
        return count
    problem = f"{word} takes a number that is not negative, not {count}"
    if isinstance(value, ParameterValue):
        raise ParameterError(value.name, problem)
    raise BadRequest(problem)


def evaluate_limits(context: ReadContext, node: Slice) -> tuple[int, int | None]:
    """Return the number of rows skipped and of rows returned after them; None returns all."""
    skipped = 0 if node.offset is None else evaluate_row_count(context, node.offset, "offset")
    return skipped, None if node.limit is None else evaluate_row_count(context, node.limit, "limit")


def slice_batches(
    batches: Iterator[pa.RecordBatch], skipped: int, given: int | None
) -> Iterator[pa.RecordBatch]:
    """Apply offset and limit to batches."""
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
    """Sort a result by its own columns; with `keep`, at least this many of its first rows."""
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

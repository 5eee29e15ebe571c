"""Rows to the columns of a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.execution.read.arrays import combine_chunks, combine_codes, group
from omnigraph.execution.read.context import ReadContext
from omnigraph.execution.read.expression_values import Values
from omnigraph.execution.read.row_blocks import Rows
from omnigraph.execution.read.sort_keys import ValueCodes, encode_value_codes, normalize_zeros
from omnigraph.plan.expressions import (
    AggregateValue,
    ObjectType,
    ObjectValue,
    Operand,
    Output,
    ValueType,
)
from omnigraph.plan.nodes import OutputColumn
from omnigraph.plan.walk import list_leaves
from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.property import PropertyType


def build_output_schema(columns: Sequence[OutputColumn]) -> pa.Schema:
    """The columns of a result, in projection order."""
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
    """The values the columns are made of."""
    for column in columns:
        yield from list_leaves(column.value)


def project_rows(
    context: ReadContext, rows: Rows, columns: Sequence[OutputColumn], schema: pa.Schema
) -> pa.RecordBatch:
    """One output row for each row."""
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
        _cast(values.of(value), kind.field(place).type)
        for place, (_, value) in enumerate(output.fields)
    ]
    missing = values.rows.codes[output.variable] < 0
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=pa.array(missing))


def drop_duplicate_rows(table: pa.Table) -> pa.Table:
    """The rows of a result without repeats, in no particular order; zeros have no sign."""
    codes = [encode_column(combine_chunks(column)) for column in table.columns]
    keys, domain = combine_codes([(c.codes, c.size) for c in codes], table.num_rows)
    found = table.take(pa.array(group(keys, domain).first_row))
    arrays = [normalize_zeros(combine_chunks(column)) for column in found.columns]
    return pa.table(arrays, schema=table.schema)


def encode_column(values: pa.Array) -> ValueCodes:
    """The same code for equal values; objects are equal when all their members are."""
    if not pa.types.is_struct(values.type):
        return encode_value_codes(values)
    members = [encode_column(member) for member in values.flatten()]
    keys, domain = combine_codes([(m.codes, m.size) for m in members], len(values))
    groups = group(keys, domain)
    missing = np.asarray(values.is_null())
    return ValueCodes(np.where(missing, -1, groups.of_row).astype(np.int32), groups.count)

"""Rows to the columns of a result."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import assert_never

import numpy as np
import pyarrow as pa

from omnigraph.execution.read.arrays import combine, group, one_chunk
from omnigraph.execution.read.context import Context
from omnigraph.execution.read.keys import ValueCodes, value_codes, with_one_zero
from omnigraph.execution.read.rows import Rows
from omnigraph.execution.read.values import Values
from omnigraph.plan.expressions import (
    AggregateValue,
    ObjectType,
    ObjectValue,
    Operand,
    Output,
    ValueType,
)
from omnigraph.plan.nodes import OutputColumn
from omnigraph.plan.walk import leaves_of
from omnigraph.types.arrow import arrow_type
from omnigraph.types.property import PropertyType


def output_schema(columns: Sequence[OutputColumn]) -> pa.Schema:
    """The columns of a result, in projection order."""
    return pa.schema([pa.field(c.name, output_type(c.type), is_nullable(c)) for c in columns])


def is_nullable(column: OutputColumn) -> bool:
    return isinstance(column.value, AggregateValue) or column.type.nullable


def output_type(type_: ValueType) -> pa.DataType:
    match type_:
        case PropertyType():
            return arrow_type(type_)
        case ObjectType():
            fields = [pa.field(name, arrow_type(t), t.nullable) for name, t in type_.fields]
            return pa.struct(fields)
        case _:
            assert_never(type_)


def operands_in(columns: Sequence[OutputColumn]) -> Iterator[Operand]:
    """The values the columns are made of."""
    for column in columns:
        yield from leaves_of(column.value)


def projected(
    context: Context, rows: Rows, columns: Sequence[OutputColumn], schema: pa.Schema
) -> pa.RecordBatch:
    """One output row for each row."""
    values = Values(context, rows)
    values.prefetch(operands_in(columns))
    arrays = [output_values(values, column.value) for column in columns]
    shaped = [_cast(array, field.type) for array, field in zip(arrays, schema, strict=True)]
    if not shaped:
        return pa.RecordBatch.from_pylist([{}] * rows.size, schema=schema)
    return pa.RecordBatch.from_arrays(shaped, schema=schema)


def _cast(values: pa.Array, wanted: pa.DataType) -> pa.Array:
    return values if values.type == wanted else values.cast(wanted)


def output_values(values: Values, output: Output) -> pa.Array:
    match output:
        case ObjectValue():
            return _objects(values, output)
        case AggregateValue():
            raise AssertionError("aggregates are computed over groups")
        case _:
            return values.of(output)


def _objects(values: Values, output: ObjectValue) -> pa.Array:
    kind = output_type(output.type)
    members = [
        _cast(values.of(value), kind.field(place).type)
        for place, (_, value) in enumerate(output.fields)
    ]
    missing = values.rows.codes[output.variable] < 0
    return pa.StructArray.from_arrays(members, fields=list(kind), mask=pa.array(missing))


def distinct_table(table: pa.Table) -> pa.Table:
    """The rows of a result without repeats, in no particular order; zeros have no sign."""
    codes = [column_codes(one_chunk(column)) for column in table.columns]
    keys, domain = combine([(c.codes, c.size) for c in codes], table.num_rows)
    found = table.take(pa.array(group(keys, domain).first_row))
    arrays = [with_one_zero(one_chunk(column)) for column in found.columns]
    return pa.table(arrays, schema=table.schema)


def column_codes(values: pa.Array) -> ValueCodes:
    """The same code for equal values; objects are equal when all their members are."""
    if not pa.types.is_struct(values.type):
        return value_codes(values)
    members = [column_codes(member) for member in values.flatten()]
    keys, domain = combine([(m.codes, m.size) for m in members], len(values))
    groups = group(keys, domain)
    missing = np.asarray(values.is_null())
    return ValueCodes(np.where(missing, -1, groups.of_row).astype(np.int32), groups.count)

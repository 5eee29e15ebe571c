"""Columns on their way to Spark and back.

Spark knows no unsigned numbers, no lists of fixed length and no blobs. What it lacks travels as the
next wider thing it has, and comes back exactly.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat

from omnigraph.errors import BadRequest
from omnigraph.types.arrow import BLOB

if TYPE_CHECKING:
    from pyspark.sql.types import StructType

_TIMESTAMP = pa.timestamp("us", tz="UTC")
_U64 = pa.decimal128(20, 0)


def to_spark_type(kind: pa.DataType) -> pa.DataType:
    """The Arrow type Spark holds values of an Arrow type in."""
    if kind == BLOB or pat.is_large_binary(kind):
        return pa.binary()
    if pat.is_uint64(kind):
        return _U64
    if pat.is_uint32(kind):
        return pa.int64()
    if pat.is_timestamp(kind):
        return _TIMESTAMP
    if pat.is_fixed_size_list(kind) or pat.is_list(kind):
        return pa.list_(pa.field("element", to_spark_type(kind.value_type)))
    if pat.is_struct(kind):
        # Members of a missing object are missing too, whatever they are elsewhere.
        return pa.struct([pa.field(f.name, to_spark_type(f.type)) for f in kind])
    return kind


def to_spark_arrow_schema(schema: pa.Schema) -> pa.Schema:
    """A schema with the types Spark holds, names and nullability kept."""
    return pa.schema([pa.field(f.name, to_spark_type(f.type), f.nullable) for f in schema])


def to_struct_type(schema: pa.Schema) -> StructType:
    """The Spark schema of an Arrow schema."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - loads Spark

    return from_arrow_schema(to_spark_arrow_schema(schema))


def make_arrow_schema(schema: StructType) -> pa.Schema:
    """The Arrow schema Spark expects batches of its schema in."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - loads Spark

    return to_arrow_schema(schema, timezone="UTC")


def convert_to_spark(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column in the type Spark asks for; a blob is its bytes."""
    if array.type == BLOB:
        array = pc.if_else(pc.is_valid(array), pc.struct_field(array, "data"), None)
    return array if array.type == wanted else array.cast(wanted)


def cast_to_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns Spark asked for, exactly in the types it asked for."""
    names = batch.schema.names
    for name in schema.names:
        if name not in names:
            raise BadRequest(f"no such column '{name}' among {', '.join(names)}")
    arrays = [convert_to_spark(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def convert_from_spark(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """A column that came back, in the type it had before."""
    if wanted == BLOB and array.type != BLOB:
        parts = [array.cast(pa.large_binary()), pa.nulls(len(array), pa.string())]
        return pa.StructArray.from_arrays(parts, fields=list(BLOB), mask=array.is_null())
    if pat.is_struct(wanted):
        # Not by a cast: in a missing object members are missing that never are elsewhere.
        members = [
            convert_from_spark(one, f.type) for one, f in zip(array.flatten(), wanted, strict=True)
        ]
        return pa.StructArray.from_arrays(members, fields=list(wanted), mask=array.is_null())
    return array if array.type == wanted else array.cast(wanted)


def round_decimals(array: pa.Array) -> pa.Array:
    """Decimals without fractions, which is how unsigned 64-bit numbers travel, as such numbers.

    Others stay what they are and are refused as what they are.
    """
    kind = array.type
    if pat.is_list(kind) and _is_whole(kind.value_type):
        target = pa.list_(pa.field("item", pa.uint64()))
    elif _is_whole(kind):
        target = pa.uint64()
    else:
        return array
    try:
        return array.cast(target)
    except pa.ArrowInvalid:
        return array


def _is_whole(kind: pa.DataType) -> bool:
    return bool(pat.is_decimal(kind)) and kind.scale == 0

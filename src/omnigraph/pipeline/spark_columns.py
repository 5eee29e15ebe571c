"""Data frames of query rows: columns converted to Spark and back, operands as Spark columns."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field, replace
from decimal import Decimal
from itertools import count
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pat
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from omnigraph.errors import BadRequest
from omnigraph.execution.predicates import make_scalar
from omnigraph.execution.read import Given
from omnigraph.plan.expressions import (
    Constant,
    EntityId,
    HopCount,
    NowValue,
    ObjectValue,
    Output,
    ParameterValue,
    PropertyValue,
    TypeNameValue,
)
from omnigraph.types.arrow import BLOB

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame
    from pyspark.sql import Column as SparkColumn
    from pyspark.sql.types import StructType


_TIMESTAMP = pa.timestamp("us", tz="UTC")
_U64 = pa.decimal128(20, 0)


def to_spark_type(kind: pa.DataType) -> pa.DataType:
    """Return the Arrow type Spark holds values of an Arrow type in."""
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
    """Return a schema with the types Spark holds, names and nullability kept."""
    return pa.schema([pa.field(f.name, to_spark_type(f.type), f.nullable) for f in schema])


def to_struct_type(schema: pa.Schema) -> StructType:
    """Return the Spark schema of an Arrow schema."""
    from pyspark.sql.pandas.types import from_arrow_schema  # noqa: PLC0415 - loads Spark

    return from_arrow_schema(to_spark_arrow_schema(schema))


def make_arrow_schema(schema: StructType) -> pa.Schema:
    """Return the Arrow schema Spark expects batches of its schema in."""
    from pyspark.sql.pandas.types import to_arrow_schema  # noqa: PLC0415 - loads Spark

    return to_arrow_schema(schema, timezone="UTC")


def convert_to_spark(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert a column to the type of Spark; a blob becomes its bytes."""
    if array.type == BLOB:
        array = pc.if_else(pc.is_valid(array), pc.struct_field(array, "data"), None)
    return array if array.type == wanted else array.cast(wanted)


def cast_to_schema(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """Return the requested columns in exactly the requested types."""
    names = batch.schema.names
    for name in schema.names:
        if name not in names:
            raise BadRequest(f"no such column '{name}' among {', '.join(names)}")
    arrays = [convert_to_spark(batch.column(field.name), field.type) for field in schema]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)


def convert_from_spark(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Convert a column from Spark back to its type before."""
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
    """Convert decimals without fractions, the form of unsigned 64-bit numbers, to numbers.

    Other decimals are returned unchanged, and refused later.
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


ID, TYPE, HOPS = "#id", "#type", "#hops"
"""Columns of a variable besides its properties; no property can have such a name."""

SMALL_ROWS = 100_000
"""Most rows that are sent to every executor instead of being shuffled."""

Slot = tuple[str, str]
"""A variable, and its property or one of the names above."""


@dataclass(frozen=True, slots=True)
class Held:
    """The column of a value, and its Arrow type outside Spark."""

    column: str
    kind: pa.DataType


@dataclass(frozen=True)
class Frame:
    """Rows, and the columns of their values. `most` is a bound of their number."""

    data: DataFrame
    slots: Mapping[Slot, Held]
    most: float

    def column(self, variable: str, name: str) -> SparkColumn:
        return F.col(self.slots[variable, name].column)

    def with_data(self, data: DataFrame) -> Frame:
        return replace(self, data=data)

    def of(self, variables: Iterable[str]) -> dict[Slot, Held]:
        """Return the columns of some variables."""
        wanted = set(variables)
        return {slot: held for slot, held in self.slots.items() if slot[0] in wanted}


@dataclass
class ColumnNames:
    """Source of unique column names, so that no join is ambiguous."""

    _numbers: Callable[[], int] = field(default_factory=lambda: count().__next__)

    def fresh(self) -> str:
        return f"c{self._numbers()}"


def mark_broadcast(data: DataFrame, most: float) -> DataFrame:
    """Mark a frame to be broadcast if it is small."""
    return F.broadcast(data) if most <= SMALL_ROWS else data


def conjoin(conditions: Iterable[SparkColumn]) -> SparkColumn:
    found = F.lit(True)
    for condition in conditions:
        found = found & condition
    return found


_EPOCH = datetime.date(1970, 1, 1)


def build_column(frame: Frame, value: Output, given: Given) -> Column:
    """Return one value for each row."""
    match value:
        case Constant() | ParameterValue() | NowValue():
            kept = make_scalar(given.value(value), value.type)
            return make_literal(kept.as_py(), kept.type)
        case PropertyValue():
            return frame.column(value.variable, value.property)
        case EntityId():
            return frame.column(value.variable, ID)
        case TypeNameValue():
            return frame.column(value.variable, TYPE)
        case HopCount():
            return frame.column(value.variable, HOPS)
        case ObjectValue():
            members = [
                build_column(frame, field, given).alias(name_member(index))
                for index, (_, field) in enumerate(value.fields)
            ]
            is_there = frame.column(value.variable, ID).isNotNull()
            return F.when(is_there, F.struct(*members))
        case _:
            raise AssertionError(f"{type(value).__name__} is not evaluated on Spark")


def name_member(index: int) -> str:
    """Return a temporary name for a member of an object: Spark's names are case-insensitive."""
    return f"f{index}"


def make_literal(value: object, kind: pa.DataType) -> Column:
    """Return a value that is the same for every row, in the type Spark holds it in."""
    wanted = from_arrow_type(to_spark_type(kind))
    if value is None:
        return F.lit(None).cast(wanted)
    if isinstance(value, list | tuple):
        return F.array(*(make_literal(item, kind.value_type) for item in value)).cast(wanted)
    if isinstance(value, datetime.datetime):
        since = value - datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        return F.timestamp_millis(F.lit(since // datetime.timedelta(milliseconds=1)))
    if isinstance(value, datetime.date):
        # By number: the calendar of Java's dates is another one before 1582.
        return F.date_from_unix_date(F.lit((value - _EPOCH).days))
    if pat.is_uint64(kind):
        assert isinstance(value, int)
        return F.lit(Decimal(value)).cast(wanted)
    return F.lit(value).cast(wanted)


def normalize_zero(column: Column, kind: pa.DataType) -> Column:
    """Return the values with 0.0 for -0.0, also inside lists and objects.

    For where one value represents several equal ones.
    """
    if pat.is_floating(kind):
        zero = F.lit(0.0).cast(from_arrow_type(kind))
        return F.when(column == zero, zero).otherwise(column)
    if (pat.is_list(kind) or pat.is_fixed_size_list(kind)) and pat.is_floating(kind.value_type):
        return F.transform(column, lambda item: normalize_zero(item, kind.value_type))
    if pat.is_struct(kind):
        members = [
            normalize_zero(column.getField(name_member(index)), field.type).alias(
                name_member(index)
            )
            for index, field in enumerate(kind)
        ]
        return F.when(column.isNotNull(), F.struct(*members))
    return column

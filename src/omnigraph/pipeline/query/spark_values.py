"""Operands as Spark columns."""

from __future__ import annotations

import datetime
from decimal import Decimal
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from omnigraph.execution.predicates import make_scalar
from omnigraph.execution.read import Given
from omnigraph.pipeline.query.frame import HOPS, ID, TYPE, Frame
from omnigraph.pipeline.spark_columns import to_spark_type
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

if TYPE_CHECKING:
    from pyspark.sql import Column

_EPOCH = datetime.date(1970, 1, 1)


def build_column(frame: Frame, value: Output, given: Given) -> Column:
    """One value for each row."""
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
                build_column(frame, field, given).alias(name_member(place))
                for place, (_, field) in enumerate(value.fields)
            ]
            is_there = frame.column(value.variable, ID).isNotNull()
            return F.when(is_there, F.struct(*members))
        case _:
            raise AssertionError(f"{type(value).__name__} is not evaluated on Spark")


def name_member(place: int) -> str:
    """What a member of an object is called until the end: Spark's names have no case."""
    return f"f{place}"


def make_literal(value: object, kind: pa.DataType) -> Column:
    """A value that is the same for every row, in the type Spark holds it in."""
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
    """The values with 0.0 for -0.0, also inside lists and objects.

    Where one value stands for several that are equal, it must not matter which of them it was.
    """
    if pat.is_floating(kind):
        zero = F.lit(0.0).cast(from_arrow_type(kind))
        return F.when(column == zero, zero).otherwise(column)
    if (pat.is_list(kind) or pat.is_fixed_size_list(kind)) and pat.is_floating(kind.value_type):
        return F.transform(column, lambda item: normalize_zero(item, kind.value_type))
    if pat.is_struct(kind):
        members = [
            normalize_zero(column.getField(name_member(place)), field.type).alias(
                name_member(place)
            )
            for place, field in enumerate(kind)
        ]
        return F.when(column.isNotNull(), F.struct(*members))
    return column

"""What is computed over groups, as Spark computes it."""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never

from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from omnigraph.execution.read import (
    Given,
    find_aggregate_requirements,
    get_output_type,
    is_row_count,
)
from omnigraph.language.query.query_ast import AggregateName
from omnigraph.pipeline.query.frame import ID, TYPE, Frame
from omnigraph.pipeline.query.spark_values import build_column, normalize_zero
from omnigraph.pipeline.spark_columns import to_spark_type
from omnigraph.plan.expressions import AggregateValue
from omnigraph.plan.nodes import Aggregate
from omnigraph.types.property import FLOATS, INTEGER_BOUNDS, PropertyType

if TYPE_CHECKING:
    from pyspark.sql import Column

SUM_TOO_LARGE = "sum_int(): the sum exceeds"
_WIDE = "decimal(20,0)"


def aggregate_columns(node: Aggregate, value: AggregateValue, rows: Frame, given: Given) -> Column:
    """One value for each group; NULLs are skipped."""
    if is_row_count(value):
        return F.count(F.lit(1))
    argument = build_column(rows, value.argument, given)
    match value.function:
        case AggregateName.COUNT:
            return F.count_distinct(argument) if value.distinct else F.count(argument)
        case AggregateName.SUM | AggregateName.AVG | AggregateName.SUM_INT:
            return _sum_column(value, argument)
        case AggregateName.MIN | AggregateName.MAX:
            extreme = F.min if value.function is AggregateName.MIN else F.max
            return normalize_zero(extreme(argument), get_output_type(value.type))
        case AggregateName.COLLECT:
            return _collect(node, value, argument, rows)
        case _:
            assert_never(value.function)


def _sum_column(value: AggregateValue, argument: Column) -> Column:
    """Whole numbers are added exactly; floats in whatever order Spark meets them."""
    assert isinstance(value.argument.type, PropertyType), "only numbers are added"
    if value.argument.type.scalar in FLOATS:
        total = F.sum(argument.cast("double"))
    else:
        exact = F.sum(argument.cast(_WIDE))
        if value.function is AggregateName.SUM_INT:
            return _sum_integers(value, exact)
        total = exact.cast("double")
    if value.function is AggregateName.AVG:
        return total / F.count(argument)
    return total


def _sum_integers(value: AggregateValue, exact: Column) -> Column:
    low, high = INTEGER_BOUNDS[value.type.scalar]
    kind = from_arrow_type(to_spark_type(get_output_type(value.type)))
    text = F.lit(f"{SUM_TOO_LARGE} {value.type.scalar}")
    bounds = [F.lit(str(bound)).cast("decimal(38,0)") for bound in (low, high)]
    fits = exact.isNull() | exact.between(*bounds)
    return F.when(fits, exact.cast(kind)).otherwise(F.raise_error(text).cast(kind))


def _collect(node: Aggregate, value: AggregateValue, argument: Column, rows: Frame) -> Column:
    """The values of a group that are not NULL, by the ids of the variables the result shows."""
    item_kind = get_output_type(value.type).value_type
    if value.distinct:
        argument = normalize_zero(argument, item_kind)
    variables = sorted(
        v for v in find_aggregate_requirements(node).variables if (v, ID) in rows.slots
    )
    order = [rows.column(variable, name) for name in (ID, TYPE) for variable in variables]
    keys = [column.alias(f"k{place}") for place, column in enumerate(order)]
    items = F.struct(*keys, argument.alias("value"))
    found = F.array_sort(F.collect_list(F.when(argument.isNotNull(), items)))
    values = F.transform(found, lambda item: item.getField("value"))
    return F.array_distinct(values) if value.distinct else values

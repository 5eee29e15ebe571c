"""The end of a plan: rows to output columns; groups, orders and slices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from omnigraph.errors import BadRequest, ParameterError
from omnigraph.execution.read.project import output_type
from omnigraph.execution.read.resolve import Given
from omnigraph.pipeline.query.aggregates import aggregate_columns
from omnigraph.pipeline.query.frame import ID, TYPE, Frame, Names
from omnigraph.pipeline.query.ties import with_texts
from omnigraph.pipeline.query.values import column_of, member, one_zero
from omnigraph.pipeline.spark_columns import spark_type
from omnigraph.plan.expressions import AggregateValue, Constant, OutputValue, ParameterValue
from omnigraph.plan.nodes import Aggregate, OutputColumn, Project, Slice, Sort

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class Results:
    """Output columns, by their place: a name may differ from another one in case only."""

    data: DataFrame
    columns: tuple[OutputColumn, ...]

    def with_data(self, data: DataFrame) -> Results:
        return replace(self, data=data)

    def place(self, name: str) -> int:
        return next(i for i, column in enumerate(self.columns) if column.name == name)

    def kind(self, place: int) -> pa.DataType:
        return output_type(self.columns[place].type)

    def named(self) -> DataFrame:
        """The result as a caller sees it."""
        shown = [
            F.col(_output(place)).cast(from_arrow_type(spark_type(self.kind(place))))
            for place in range(len(self.columns))
        ]
        return self.data.select(*shown).toDF(*(column.name for column in self.columns))


def _output(place: int) -> str:
    return f"o{place}"


# --- rows to output -------------------------------------------------------------------------------


def projected(node: Project, rows: Frame, given: Given) -> Results:
    """One output row for each row, or for each that is different."""
    values = [
        column_of(rows, column.value, given).alias(_output(place))
        for place, column in enumerate(node.columns)
        if not isinstance(column.value, AggregateValue)
    ]
    results = Results(rows.data.select(*values), node.columns)
    if not node.distinct:
        return results
    whole = results.data.distinct()
    return results.with_data(whole.select(*(_unsigned(results, p) for p in range(len(values)))))


def _unsigned(results: Results, place: int) -> Column:
    return one_zero(F.col(_output(place)), results.kind(place)).alias(_output(place))


def aggregated(node: Aggregate, rows: Frame, given: Given) -> Results:
    """One row for each group; without keys exactly one."""
    results = Results(rows.data, node.columns)
    keys, computed = [], []
    for place, column in enumerate(node.columns):
        if isinstance(column.value, AggregateValue):
            found = aggregate_columns(node, column.value, rows, given)
            computed.append(found.alias(_output(place)))
        else:
            key = one_zero(column_of(rows, column.value, given), results.kind(place))
            keys.append(key.alias(_output(place)))
    data = rows.data.groupBy(*keys).agg(*computed) if keys else rows.data.agg(*computed)
    return results.with_data(data)


# --- order ----------------------------------------------------------------------------------------


def sorted_rows(node: Sort, rows: Frame, given: Given) -> Frame:
    """Rows by their keys, then by ids; where ids are equal, by types."""
    order = [
        _ordered(column_of(rows, key.value, given), descending=key.descending) for key in node.keys
    ]
    for name in (ID, TYPE):
        order += [_ordered(rows.column(variable, name)) for variable in node.tie_break]
    return rows.with_data(rows.data.orderBy(*order)) if order else rows


def sorted_output(node: Sort, results: Results, names: Names) -> Results:
    """Output rows by their keys, then by whole columns; lists by the text they make."""
    order = []
    for key in node.keys:
        assert isinstance(key.value, OutputValue), "above the output there are only its columns"
        place = results.place(key.value.column)
        order.append(_ordered(F.col(_output(place)), descending=key.descending))
    ties = [results.place(name) for name in node.tie_columns]
    data, texts = with_texts(results.data, [(_output(p), results.kind(p)) for p in ties], names)
    for place in ties:
        order += _tie_order(F.col(_output(place)), results.kind(place), (_output(place),), texts)
    kept = [_output(place) for place in range(len(results.columns))]
    return results.with_data(data.orderBy(*order).select(*kept) if order else data)


def _tie_order(
    column: Column, kind: pa.DataType, path: tuple[str, ...], texts: dict[tuple[str, ...], str]
) -> list[Column]:
    if path in texts:
        return [_ordered(F.col(texts[path]))]
    if not pat.is_struct(kind):
        return [_ordered(column)]
    found = [_ordered(column.isNotNull())]
    for place, field in enumerate(kind):
        name = member(place)
        found += _tie_order(column.getField(name), field.type, (*path, name), texts)
    return found


def _ordered(column: Column, *, descending: bool = False) -> Column:
    """NULL is smaller than every value."""
    return column.desc_nulls_last() if descending else column.asc_nulls_first()


# --- slices ---------------------------------------------------------------------------------------


def sliced(node: Slice, results: Results, given: Given) -> Results:
    data = results.data
    if node.offset is not None:
        data = data.offset(_row_count(given, node.offset, "offset"))
    if node.limit is not None:
        data = data.limit(_row_count(given, node.limit, "limit"))
    return results.with_data(data)


_MOST_ROWS = 2**31 - 1
"""Spark counts rows of a slice in 32 bits; nobody gets so many to see."""


def _row_count(given: Given, value: Constant | ParameterValue, word: str) -> int:
    count = given.value(value)
    assert isinstance(count, int), "the binder lets only integers through"
    if count >= 0:
        return min(count, _MOST_ROWS)
    problem = f"{word} takes a number that is not negative, not {count}"
    if isinstance(value, ParameterValue):
        raise ParameterError(value.name, problem)
    raise BadRequest(problem)

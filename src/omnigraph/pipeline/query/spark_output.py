"""The end of a plan: rows to output columns; groups, orders and slices."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type

from omnigraph.errors import BadRequest, ParameterError
from omnigraph.execution.read import Given, get_output_type
from omnigraph.pipeline.query.aggregates import aggregate_columns
from omnigraph.pipeline.query.frame import ID, TYPE, ColumnNames, Frame
from omnigraph.pipeline.query.list_ordering import add_text_columns
from omnigraph.pipeline.query.spark_values import build_column, name_member, normalize_zero
from omnigraph.pipeline.spark_columns import to_spark_type
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
        return get_output_type(self.columns[place].type)

    def name_columns(self) -> DataFrame:
        """The result as a caller sees it."""
        shown = [
            F.col(_build_output(place)).cast(from_arrow_type(to_spark_type(self.kind(place))))
            for place in range(len(self.columns))
        ]
        return self.data.select(*shown).toDF(*(column.name for column in self.columns))


def _build_output(place: int) -> str:
    return f"o{place}"


# --- rows to output -------------------------------------------------------------------------------


def project_frame(node: Project, rows: Frame, given: Given) -> Results:
    """One output row for each row, or for each that is different."""
    values = [
        build_column(rows, column.value, given).alias(_build_output(place))
        for place, column in enumerate(node.columns)
        if not isinstance(column.value, AggregateValue)
    ]
    results = Results(rows.data.select(*values), node.columns)
    if not node.distinct:
        return results
    whole = results.data.distinct()
    return results.with_data(whole.select(*(_to_unsigned(results, p) for p in range(len(values)))))


def _to_unsigned(results: Results, place: int) -> Column:
    return normalize_zero(F.col(_build_output(place)), results.kind(place)).alias(
        _build_output(place)
    )


def aggregate_frame(node: Aggregate, rows: Frame, given: Given) -> Results:
    """One row for each group; without keys exactly one."""
    results = Results(rows.data, node.columns)
    keys, computed = [], []
    for place, column in enumerate(node.columns):
        if isinstance(column.value, AggregateValue):
            found = aggregate_columns(node, column.value, rows, given)
            computed.append(found.alias(_build_output(place)))
        else:
            key = normalize_zero(build_column(rows, column.value, given), results.kind(place))
            keys.append(key.alias(_build_output(place)))
    data = rows.data.groupBy(*keys).agg(*computed) if keys else rows.data.agg(*computed)
    return results.with_data(data)


# --- order ----------------------------------------------------------------------------------------


def sort_frame(node: Sort, rows: Frame, given: Given) -> Frame:
    """Rows by their keys, then by ids; where ids are equal, by types."""
    order = [
        _order_column(build_column(rows, key.value, given), descending=key.descending)
        for key in node.keys
    ]
    for name in (ID, TYPE):
        order += [_order_column(rows.column(variable, name)) for variable in node.tie_break]
    return rows.with_data(rows.data.orderBy(*order)) if order else rows


def sort_output(node: Sort, results: Results, names: ColumnNames) -> Results:
    """Output rows by their keys, then by whole columns; lists by the text they make."""
    order = []
    for key in node.keys:
        assert isinstance(key.value, OutputValue), "above the output there are only its columns"
        place = results.place(key.value.column)
        order.append(_order_column(F.col(_build_output(place)), descending=key.descending))
    ties = [results.place(name) for name in node.tie_columns]
    data, texts = add_text_columns(
        results.data, [(_build_output(p), results.kind(p)) for p in ties], names
    )
    for place in ties:
        order += _order_ties(
            F.col(_build_output(place)), results.kind(place), (_build_output(place),), texts
        )
    kept = [_build_output(place) for place in range(len(results.columns))]
    return results.with_data(data.orderBy(*order).select(*kept) if order else data)


def _order_ties(
    column: Column, kind: pa.DataType, path: tuple[str, ...], texts: dict[tuple[str, ...], str]
) -> list[Column]:
    if path in texts:
        return [_order_column(F.col(texts[path]))]
    if not pat.is_struct(kind):
        return [_order_column(column)]
    found = [_order_column(column.isNotNull())]
    for place, field in enumerate(kind):
        name = name_member(place)
        found += _order_ties(column.getField(name), field.type, (*path, name), texts)
    return found


def _order_column(column: Column, *, descending: bool = False) -> Column:
    """NULL is smaller than every value."""
    return column.desc_nulls_last() if descending else column.asc_nulls_first()


# --- slices ---------------------------------------------------------------------------------------


def slice_frame(node: Slice, results: Results, given: Given) -> Results:
    data = results.data
    if node.offset is not None:
        data = data.offset(_evaluate_row_count(given, node.offset, "offset"))
    if node.limit is not None:
        data = data.limit(_evaluate_row_count(given, node.limit, "limit"))
    return results.with_data(data)


_MOST_ROWS = 2**31 - 1
"""Spark counts rows of a slice in 32 bits; no one looks at that many."""


def _evaluate_row_count(given: Given, value: Constant | ParameterValue, word: str) -> int:
    count = given.value(value)
    assert isinstance(count, int), "the binder lets only integers through"
    if count >= 0:
        return min(count, _MOST_ROWS)
    problem = f"{word} takes a number that is not negative, not {count}"
    if isinstance(value, ParameterValue):
        raise ParameterError(value.name, problem)
    raise BadRequest(problem)

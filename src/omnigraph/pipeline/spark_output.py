"""Compute the output of a plan on Spark: groups, aggregates, order and slices; and its result."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, assert_never

import pyarrow as pa
import pyarrow.types as pat
from pyspark.sql import functions as F
from pyspark.sql.pandas.types import from_arrow_type
from pyspark.sql.types import StringType, StructField, StructType

from omnigraph.errors import BadRequest, OmniError, ParameterError, StorageFailure, StorageKind
from omnigraph.execution.read import (
    ExecutionProfile,
    Given,
    ReadResult,
    build_output_schema,
    find_aggregate_requirements,
    get_output_type,
    is_row_count,
    make_comparable,
)
from omnigraph.language.query_ast import AggregateName
from omnigraph.pipeline.spark_columns import (
    ID,
    TYPE,
    ColumnNames,
    Frame,
    build_column,
    convert_from_spark,
    name_member,
    normalize_zero,
    to_spark_type,
)
from omnigraph.pipeline.spark_session import extract_reason, find_raised_text
from omnigraph.plan.expressions import AggregateValue, Constant, OutputValue, ParameterValue
from omnigraph.plan.plan_nodes import Aggregate, OutputColumn, Project, ReadPlan, Slice, Sort
from omnigraph.types.property import FLOATS, INTEGER_BOUNDS, PropertyType

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


SUM_TOO_LARGE = "sum_int(): the sum exceeds"
_WIDE = "decimal(20,0)"


def aggregate_columns(node: Aggregate, value: AggregateValue, rows: Frame, given: Given) -> Column:
    """Return one value for each group; NULLs are skipped."""
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
    """Sum a column: whole numbers exactly, floats in any order."""
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
    keys = [column.alias(f"k{index}") for index, column in enumerate(order)]
    items = F.struct(*keys, argument.alias("value"))
    found = F.array_sort(F.collect_list(F.when(argument.isNotNull(), items)))
    values = F.transform(found, lambda item: item.getField("value"))
    return F.array_distinct(values) if value.distinct else values


Path = tuple[str, ...]


def add_text_columns(
    data: DataFrame, columns: Sequence[tuple[str, pa.DataType]], names: ColumnNames
) -> tuple[DataFrame, dict[Path, str]]:
    """Add a text column for each list in some columns; return the frame and their names."""
    lists = [found for name, kind in columns for found in _render_lists((name,), kind)]
    if not lists:
        return data, {}
    added = {path: names.fresh() for path, _ in lists}
    kinds = dict(lists)
    blob = pickle.dumps((added, kinds))

    def body(batches: Any) -> Any:  # noqa: ANN401 - what Spark hands over
        import pickle  # noqa: PLC0415 - sent by value: it has no module on the other side

        added, kinds = pickle.loads(blob)
        yield from add_texts(added, kinds, batches)

    texts = [StructField(column, StringType()) for column in added.values()]
    return data.mapInArrow(body, StructType([*data.schema.fields, *texts])), added


def _render_lists(path: Path, kind: pa.DataType) -> Iterator[tuple[Path, pa.DataType]]:
    if pat.is_list(kind) or pat.is_fixed_size_list(kind):
        yield path, kind
    elif pat.is_struct(kind):
        for index, field in enumerate(kind):
            yield from _render_lists((*path, name_member(index)), field.type)


def add_texts(
    added: Mapping[Path, str], kinds: Mapping[Path, pa.DataType], batches: Iterable[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    """Add the texts of lists to batches, in a worker."""
    for batch in batches:
        whole = batch
        for path, column in added.items():
            values = batch.column(path[0])
            for name in path[1:]:
                values = pa.compute.struct_field(values, name)
            whole = whole.append_column(
                column, make_comparable(convert_from_spark(values, kinds[path]))
            )
        yield whole


@dataclass(frozen=True)
class Results:
    """Output columns by index, since names may differ only by case."""

    data: DataFrame
    columns: tuple[OutputColumn, ...]

    def with_data(self, data: DataFrame) -> Results:
        return replace(self, data=data)

    def index(self, name: str) -> int:
        return next(i for i, column in enumerate(self.columns) if column.name == name)

    def kind(self, index: int) -> pa.DataType:
        return get_output_type(self.columns[index].type)

    def name_columns(self) -> DataFrame:
        """Return the result with its names."""
        shown = [
            F.col(_build_output(index)).cast(from_arrow_type(to_spark_type(self.kind(index))))
            for index in range(len(self.columns))
        ]
        return self.data.select(*shown).toDF(*(column.name for column in self.columns))


def _build_output(index: int) -> str:
    return f"o{index}"


# --- rows to output -------------------------------------------------------------------------------


def project_frame(node: Project, rows: Frame, given: Given) -> Results:
    """Return one output row for each row, or for each that is different."""
    values = [
        build_column(rows, column.value, given).alias(_build_output(index))
        for index, column in enumerate(node.columns)
        if not isinstance(column.value, AggregateValue)
    ]
    results = Results(rows.data.select(*values), node.columns)
    if not node.distinct:
        return results
    whole = results.data.distinct()
    return results.with_data(whole.select(*(_to_unsigned(results, p) for p in range(len(values)))))


def _to_unsigned(results: Results, index: int) -> Column:
    return normalize_zero(F.col(_build_output(index)), results.kind(index)).alias(
        _build_output(index)
    )


def aggregate_frame(node: Aggregate, rows: Frame, given: Given) -> Results:
    """Return one row for each group; without keys exactly one."""
    results = Results(rows.data, node.columns)
    keys, computed = [], []
    for index, column in enumerate(node.columns):
        if isinstance(column.value, AggregateValue):
            found = aggregate_columns(node, column.value, rows, given)
            computed.append(found.alias(_build_output(index)))
        else:
            key = normalize_zero(build_column(rows, column.value, given), results.kind(index))
            keys.append(key.alias(_build_output(index)))
    data = rows.data.groupBy(*keys).agg(*computed) if keys else rows.data.agg(*computed)
    return results.with_data(data)


# --- order ----------------------------------------------------------------------------------------


def sort_frame(node: Sort, rows: Frame, given: Given) -> Frame:
    """Sort rows by their keys, then by ids, then by types."""
    order = [
        _order_column(build_column(rows, key.value, given), descending=key.descending)
        for key in node.keys
    ]
    for name in (ID, TYPE):
        order += [_order_column(rows.column(variable, name)) for variable in node.tie_break]
    return rows.with_data(rows.data.orderBy(*order)) if order else rows


def sort_output(node: Sort, results: Results, names: ColumnNames) -> Results:
    """Sort output rows by their keys, then by whole columns; lists by their text."""
    order = []
    for key in node.keys:
        assert isinstance(key.value, OutputValue), "above the output there are only its columns"
        index = results.index(key.value.column)
        order.append(_order_column(F.col(_build_output(index)), descending=key.descending))
    ties = [results.index(name) for name in node.tie_columns]
    data, texts = add_text_columns(
        results.data, [(_build_output(p), results.kind(p)) for p in ties], names
    )
    for index in ties:
        order += _order_ties(
            F.col(_build_output(index)), results.kind(index), (_build_output(index),), texts
        )
    kept = [_build_output(index) for index in range(len(results.columns))]
    return results.with_data(data.orderBy(*order).select(*kept) if order else data)


def _order_ties(
    column: Column, kind: pa.DataType, path: tuple[str, ...], texts: dict[tuple[str, ...], str]
) -> list[Column]:
    if path in texts:
        return [_order_column(F.col(texts[path]))]
    if not pat.is_struct(kind):
        return [_order_column(column)]
    found = [_order_column(column.isNotNull())]
    for index, field in enumerate(kind):
        name = name_member(index)
        found += _order_ties(column.getField(name), field.type, (*path, name), texts)
    return found


def _order_column(column: Column, *, descending: bool = False) -> Column:
    """Return the sort order of a column; NULL is smaller than every value."""
    return column.desc_nulls_last() if descending else column.asc_nulls_first()


# --- slices ---------------------------------------------------------------------------------------


def slice_frame(node: Slice, results: Results, given: Given) -> Results:
    data = results.data
    if node.offset is not None:
        data = data.offset(_evaluate_row_count(given, node.offset, "offset"))
    if node.limit is not None:
        data = data.limit(_evaluate_row_count(given, node.limit, "limit"))
    return results.with_data(data)


_MAX_ROWS = 2**31 - 1
"""Most rows of a slice: Spark counts them in 32 bits."""


def _evaluate_row_count(given: Given, value: Constant | ParameterValue, word: str) -> int:
    count = given.value(value)
    assert isinstance(count, int), "the binder lets only integers through"
    if count >= 0:
        return min(count, _MAX_ROWS)
    problem = f"{word} takes a number that is not negative, not {count}"
    if isinstance(value, ParameterValue):
        raise ParameterError(value.name, problem)
    raise BadRequest(problem)


class SparkRead(ReadResult):
    """Rows that stay on Spark until they are fetched, then all at once."""

    def __init__(self, plan: ReadPlan, frame: DataFrame) -> None:
        self.schema, self.profile = build_output_schema(plan.columns), ExecutionProfile(plan.root)
        self.frame = frame

    def batches(self) -> Iterator[pa.RecordBatch]:
        return iter(self._table.to_batches())

    def to_arrow(self) -> pa.Table:
        return self._table

    @cached_property
    def _table(self) -> pa.Table:
        try:
            found = self.frame.toArrow()
        except Exception as error:
            raise _translate_error(error) from error
        columns = [
            _restore_column(column, field.type)
            for column, field in zip(found.columns, self.schema, strict=True)
        ]
        if not columns:
            return pa.Table.from_pylist([{}] * found.num_rows, schema=self.schema)
        return pa.table(columns, schema=self.schema)


def _restore_column(column: pa.ChunkedArray, kind: pa.DataType) -> pa.Array:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):
        whole = pa.concat_arrays(whole.chunks) if whole.num_chunks else pa.array([], whole.type)
    return convert_from_spark(whole, kind)


def _translate_error(error: Exception) -> OmniError:
    """Translate a failure of Spark to the error of the embedded executor."""
    too_large = find_raised_text(error, SUM_TOO_LARGE)
    if too_large is not None:
        return BadRequest(too_large)
    return StorageFailure(
        StorageKind.UNKNOWN, f"the query failed on Spark: {extract_reason(error)}"
    )

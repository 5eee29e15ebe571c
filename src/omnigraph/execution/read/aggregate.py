"""Group rows and compute aggregates over the groups."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, assert_never

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import ConstraintKind
from omnigraph.errors import BadRequest
from omnigraph.execution.read.code_arrays import (
    Flags,
    Groups,
    Integers,
    Longs,
    combine_codes,
    find_distinct,
    find_positions,
    group,
    sum_groups,
)
from omnigraph.execution.read.entities import UnionEntities
from omnigraph.execution.read.expression_values import Values
from omnigraph.execution.read.project import convert_output_values, encode_column
from omnigraph.execution.read.read_context import ReadContext
from omnigraph.execution.read.row_blocks import (
    Demand,
    Rows,
    get_weights,
    join_blocks,
    merge_equal_rows,
)
from omnigraph.execution.read.sort import (
    ValueCodes,
    encode_id_order,
    encode_sort_key,
    normalize_zeros,
    sort_by_keys,
)
from omnigraph.language.query_ast import AggregateName
from omnigraph.plan.expressions import (
    AggregateValue,
    EntityId,
    ObjectValue,
    Operand,
    Output,
    PropertyValue,
)
from omnigraph.plan.plan_nodes import Aggregate
from omnigraph.plan.walk import list_variables
from omnigraph.types.property import FLOATS, INTEGER_BOUNDS, PropertyType, Scalar

_EXACT_IN_DOUBLES = 1 << 53


def find_aggregate_requirements(node: Aggregate) -> Demand:
    """Return what an aggregation requires of a row; counting rows requires nothing."""
    needed: set[str] = set()
    for column in node.columns:
        value = column.value
        if not (isinstance(value, AggregateValue) and is_row_count(value)):
            needed |= list_variables(value)
    return Demand(frozenset(needed), merge=not is_ordered_aggregate(node))


def is_row_count(value: AggregateValue) -> bool:
    """Return whether an aggregate counts rows: its argument is never NULL."""
    argument = value.argument
    is_count = value.function is AggregateName.COUNT and not value.distinct
    return is_count and isinstance(argument, EntityId) and not argument.type.nullable


def is_ordered_aggregate(node: Aggregate) -> bool:
    """Return whether the result exposes single rows of the match in their order."""
    return any(
        isinstance(c.value, AggregateValue) and c.value.function is AggregateName.COLLECT
        for c in node.columns
    )


def aggregate_rows(
    context: ReadContext, node: Aggregate, blocks: Iterator[Rows], schema: pa.Schema
) -> pa.Table:
    """One row for each group, in no particular order; without keys exactly one."""
    found = list(blocks)
    if not found:
        return _aggregate_nothing(node, schema)
    rows = join_blocks(found)
    rows = _sort_by_ids(rows) if is_ordered_aggregate(node) else merge_equal_rows(rows)
    if _has_float_sum(node):
        rows = _sort_for_sums(rows)
    values = Values(context, rows)
    keys = _encode_keys(values, node)
    groups = group(*combine_codes([(k.codes, k.size) for k in keys], rows.size))
    first = Values(context, rows.take(groups.first_row))
    arrays = [
        _compute_value(values, groups, column.value)
        if isinstance(column.value, AggregateValue)
        else normalize_zeros(convert_output_values(first, column.value))
        for column in node.columns
    ]
    return pa.table([a.cast(f.type) for a, f in zip(arrays, schema, strict=True)], schema=schema)


def _aggregate_nothing(node: Aggregate, schema: pa.Schema) -> pa.Table:
    if node.keys:
        return schema.empty_table()
    empty = {AggregateName.COUNT: 0, AggregateName.COLLECT: []}
    arrays = [
        pa.array([empty.get(column.value.function)], field.type)
        for column, field in zip(node.columns, schema, strict=True)
        if isinstance(column.value, AggregateValue)
    ]
    return pa.table(arrays, schema=schema)


def _sort_by_ids(rows: Rows) -> Rows:
    """Sort rows by the ids of all variables: an order that does not depend on the plan."""
    keys = [encode_id_order(rows, name) for name in sorted(rows.entities)]
    return rows.take(sort_by_keys(keys, rows.size))


def _has_float_sum(node: Aggregate) -> bool:
    """Return whether the order of rows can change the last digit of a sum."""
    return any(
        isinstance(c.value, AggregateValue)
        and c.value.function in (AggregateName.SUM, AggregateName.AVG)
        and isinstance(c.value.argument.type, PropertyType)
        and c.value.argument.type.scalar in FLOATS
        for c in node.columns
    )


def _sort_for_sums(rows: Rows) -> Rows:
    """Sort rows in an order that does not depend on the plan, not necessarily that of ids."""
    keys = [
        rows.codes[name].astype(np.int64)
        if name not in rows.entities
        else rows.entities[name].order_codes(rows.codes[name])
        for name in sorted(rows.codes)
    ]
    is_there = len(keys) == 1 and bool((keys[0][1:] >= keys[0][:-1]).all())
    return rows if is_there else rows.take(sort_by_keys(keys, rows.size))


def _encode_keys(values: Values, node: Aggregate) -> list[ValueCodes]:
    """Codes that distinguish the groups; a value that identifies its node suffices."""
    rows, found = values.rows, []
    identified = {
        variable for key in node.keys for variable in _find_identifying_variable(values, key.value)
    }
    for variable in sorted(identified):
        codes, size = rows.with_size(variable)
        found.append(ValueCodes(codes, size))
    for key in node.keys:
        assert not isinstance(key.value, AggregateValue), "keys are values of single rows"
        if not list_variables(key.value) <= identified:
            found.append(_encode_rows(values, key.value))
    return found


def _find_identifying_variable(values: Values, output: Output) -> Iterator[str]:
    """Yield the variable identified by a group key, if distinct nodes never share its value."""
    if not isinstance(output, EntityId | PropertyValue):
        return
    entities = values.rows.entities[output.variable]
    if isinstance(entities, UnionEntities):
        return
    type_ = entities.reader.type_
    unique = type_.of_kind(ConstraintKind.KEY)
    if isinstance(output, EntityId) or any(c.columns == (output.property,) for c in unique):
        yield output.variable


def _encode_rows(values: Values, output: Operand | ObjectValue) -> ValueCodes:
    """Encode the value of every row, evaluated once for each distinct entity."""
    rows, variables = values.rows, list_variables(output)
    only = next(iter(variables)) if len(variables) == 1 else None
    if only is None or only not in rows.entities:
        return encode_column(convert_output_values(values, output))
    entities, codes = rows.entities[only], rows.codes[only]
    wanted = find_distinct(codes, entities.size)
    # The last one is the missing entity.
    asked = np.concatenate([wanted, np.asarray([-1], dtype=np.int32)])
    some = Values(values.context, Rows(len(asked), {only: asked}, {only: entities}))
    found = encode_column(convert_output_values(some, output))
    return ValueCodes(found.codes[find_positions(codes, wanted, entities.size)], found.size)


# --- the functions --------------------------------------------------------------------------------


def _compute_value(values: Values, groups: Groups, value: AggregateValue) -> pa.Array:
    rows = values.rows
    if is_row_count(value):
        return pa.array(sum_groups(groups.of_row, rows.weights, groups.count))
    match value.function:
        case AggregateName.COUNT:
            return _count(values, groups, value)
        case AggregateName.SUM | AggregateName.AVG | AggregateName.SUM_INT:
            return _compute_sum(values, groups, value)
        case AggregateName.MIN | AggregateName.MAX:
            return _compute_extreme(values, groups, value)
        case AggregateName.COLLECT:
            return _collect(values, groups, value)
        case _:
            assert_never(value.function)


def _drop_nulls(array: pa.Array) -> Flags:
    return np.asarray(pc.is_valid(array))


def _count(values: Values, groups: Groups, value: AggregateValue) -> pa.Array:
    if value.distinct:
        codes = _encode_rows(values, value.argument)
        return pa.array(_count_distinct(codes, groups))
    known = _drop_nulls(values.of(value.argument))
    weights = get_weights(values.rows)[known]
    return pa.array(sum_groups(groups.of_row[known], weights, groups.count))


def _count_distinct(codes: ValueCodes, groups: Groups) -> Longs:
    known = codes.codes >= 0
    pairs, domain = combine_codes(
        [(groups.of_row[known], groups.count), (codes.codes[known], codes.size)], int(known.sum())
    )
    first = group(pairs, domain).first_row
    return np.bincount(groups.of_row[known][first], minlength=groups.count).astype(np.int64)


def _compute_sum(values: Values, groups: Groups, value: AggregateValue) -> pa.Array:
    array = values.of(value.argument)
    known = _drop_nulls(array)
    of_row, weights = groups.of_row[known], get_weights(values.rows)[known]
    counts = sum_groups(of_row, weights, groups.count)
    nothing = counts == 0
    assert isinstance(value.argument.type, PropertyType), "only numbers are added"
    if value.argument.type.scalar in FLOATS:
        numbers = np.asarray(array.drop_null().cast(pa.float64()))
        totals = np.bincount(of_row, numbers * weights, groups.count).astype(np.float64)
    else:
        exact = _sum_exactly(np.asarray(array.drop_null()), of_row, weights, groups.count)
        if value.function is AggregateName.SUM_INT:
            return _sum_integers(exact, value, nothing)
        totals = exact.astype(np.float64)
    if value.function is AggregateName.AVG:
        totals = totals / np.maximum(counts, 1)
    return pa.array(totals, mask=nothing)


def _sum_exactly(numbers: Integers, of_row: Longs, weights: Longs, count: int) -> npt.NDArray[Any]:
    """Sum integers by group; as Python integers where 64 bits may overflow."""
    largest = max(abs(int(numbers.min())), abs(int(numbers.max()))) if len(numbers) else 0
    total = largest * int(weights.sum())
    if total < _EXACT_IN_DOUBLES:
        return np.bincount(of_row, numbers * weights, count).astype(np.int64)
    fits = total <= INTEGER_BOUNDS[Scalar.I64][1]
    kind: type[Any] = np.int64 if fits else object
    found = np.zeros(count, dtype=kind)
    np.add.at(found, of_row, numbers.astype(kind) * weights.astype(kind))
    return found


def _sum_integers(exact: npt.NDArray[Any], value: AggregateValue, nothing: Flags) -> pa.Array:
    low, high = INTEGER_BOUNDS[value.type.scalar]
    if len(exact) and not (exact.min() >= low and exact.max() <= high):
        raise BadRequest(f"sum_int(): the sum exceeds {value.type.scalar}")
    width = np.uint64 if value.type.scalar is Scalar.U64 else np.int64
    return pa.array(exact.astype(width), mask=nothing)


def _compute_extreme(values: Values, groups: Groups, value: AggregateValue) -> pa.Array:
    """The smallest or largest value of each group, in sort order."""
    array = values.of(value.argument)
    known = np.flatnonzero(_drop_nulls(array))
    order = encode_sort_key(array.take(pa.array(known))).values
    of_row = groups.of_row[known]
    if value.function is AggregateName.MAX:
        order = ~order
    # The last row written for a group wins, which is the one first in the order.
    best = np.full(groups.count, -1, dtype=np.int64)
    backwards = np.argsort(order, kind="stable")[::-1]
    best[of_row[backwards]] = known[backwards]
    return normalize_zeros(array.take(pa.array(best, mask=best < 0)))


def _collect(values: Values, groups: Groups, value: AggregateValue) -> pa.Array:
    """The values of each group that are not NULL, in the order of the rows."""
    array = values.of(value.argument)
    chosen = np.flatnonzero(_drop_nulls(array))
    if value.distinct:
        codes = _encode_rows(values, value.argument)
        pairs, domain = combine_codes(
            [(groups.of_row[chosen], groups.count), (codes.codes[chosen], codes.size)], len(chosen)
        )
        chosen = np.sort(chosen[group(pairs, domain).first_row])
        array = normalize_zeros(array)
    order = chosen[np.argsort(groups.of_row[chosen], kind="stable")]
    counts = np.bincount(groups.of_row[order], minlength=groups.count)
    offsets = np.concatenate([[0], np.cumsum(counts)]).astype(np.int32)
    return pa.ListArray.from_arrays(pa.array(offsets), array.take(pa.array(order)))

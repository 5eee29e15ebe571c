"""What Python workers do for a query: read tables, and check conditions on rows."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass

import pyarrow as pa

from omnigraph.execution.predicates import RowScope, evaluate_mask
from omnigraph.execution.read import Given, get_scalar_type, map_operands
from omnigraph.pipeline.query.frame import HOPS, ID, TYPE, Held, Slot
from omnigraph.pipeline.spark_columns import convert_from_spark, convert_to_spark
from omnigraph.pipeline.table_scan import TableScan, scan_rows
from omnigraph.plan.expressions import (
    EntityId,
    HopCount,
    Operand,
    Predicate,
    PropertyValue,
    TypeNameValue,
)

TYPE_NAME = "#type"
"""An output of a part that is the same for all of its rows: the name of the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPart:
    """Fragments of a table, and which of its columns come out, in which order."""

    scan: TableScan
    fragments: tuple[int, ...]
    outputs: tuple[str, ...]
    rows: int
    skips_loops: bool = False
    """Whether edges from a node to itself are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """Parts that one task reads one after another."""

    parts: tuple[ScanPart, ...]
    is_set: bool = False
    """Whether rows that are equal come out once."""


def read_task(task: ScanTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """The rows of a task in the schema Spark was promised."""
    batches = (batch for part in task.parts for batch in _read_part(part, schema))
    if not task.is_set:
        yield from batches
        return
    table = pa.Table.from_batches(batches, schema)
    once = table.group_by(schema.names).aggregate([])
    yield from once.select(schema.names).cast(schema).to_batches()


def _read_part(part: ScanPart, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    type_name = part.scan.type_.name
    for batch in scan_rows(part.scan, part.fragments):
        rows = _drop_loops(batch) if part.skips_loops else batch
        arrays = [
            pa.repeat(pa.scalar(type_name), rows.num_rows)
            if name == TYPE_NAME
            else convert_to_spark(rows.column(name), field.type)
            for name, field in zip(part.outputs, schema, strict=True)
        ]
        yield pa.RecordBatch.from_arrays(arrays, schema=schema)


def _drop_loops(batch: pa.RecordBatch) -> pa.RecordBatch:
    return batch.filter(pa.compute.not_equal(batch.column("src"), batch.column("dst")))


@dataclass(frozen=True, slots=True, kw_only=True)
class RowFilter:
    """Conditions on rows of several variables, and where their values are."""

    predicates: tuple[Predicate, ...]
    slots: Mapping[Slot, Held]
    given: Given


def filter_rows(spec: RowFilter, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The rows all conditions are true for."""
    for batch in batches:
        kept = batch
        for predicate in spec.predicates:
            scope = _make_scope(spec, kept)
            kept = kept.filter(evaluate_mask(map_operands(predicate, _as_property), scope))
        if kept.num_rows:
            yield kept


def _make_scope(spec: RowFilter, batch: pa.RecordBatch) -> RowScope:
    def column(variable: str, name: str) -> pa.Array:
        held = spec.slots[variable, ID if name == "id" else name]
        return convert_from_spark(batch.column(held.column), held.kind)

    return RowScope(batch.num_rows, column, spec.given.parameters, spec.given.now)


def _as_property(operand: Operand) -> Operand:
    """What is a column here, under the name it has here."""
    match operand:
        case TypeNameValue():
            return PropertyValue(operand.variable, TYPE, get_scalar_type(operand))
        case HopCount():
            return PropertyValue(operand.variable, HOPS, get_scalar_type(operand))
        case EntityId():
            return PropertyValue(operand.variable, ID, get_scalar_type(operand))
        case _:
            return operand

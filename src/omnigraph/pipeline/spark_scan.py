"""Scan tables of a snapshot as data frames; workers read fragments and filter rows."""

from __future__ import annotations

import pickle
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.catalog.codec import encode_ir
from omnigraph.errors import TypeNotFound
from omnigraph.execution.predicates import RowScope, evaluate_mask
from omnigraph.execution.read import Given, get_scalar_type, map_operands
from omnigraph.execution.stored_rows import build_logical_schema
from omnigraph.identity import TableKey
from omnigraph.pipeline.spark_columns import (
    HOPS,
    ID,
    TYPE,
    ColumnNames,
    Frame,
    Held,
    Slot,
    convert_from_spark,
    convert_to_spark,
    make_arrow_schema,
    to_spark_type,
    to_struct_type,
)
from omnigraph.pipeline.table_scan import (
    ROWS_PER_PARTITION,
    TableScan,
    choose_columns,
    plan_partitions,
    scan_rows,
    scan_type,
)
from omnigraph.pipeline.tasks import allow_missing_pandas
from omnigraph.plan.expressions import (
    EntityId,
    HopCount,
    Operand,
    Predicate,
    PropertyValue,
    TypeNameValue,
)
from omnigraph.plan.plan_nodes import Direction, EdgeStep, NodeScan
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table
from omnigraph.types.arrow import to_arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


TYPE_NAME = "#type"
"""A constant output column of a part: the name of the type."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanPart:
    """Fragments of a table, and the columns to return, in order."""

    scan: TableScan
    fragments: tuple[int, ...]
    outputs: tuple[str, ...]
    rows: int
    skips_loops: bool = False
    """True if edges from a node to itself are left out."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ScanTask:
    """Parts that one task reads sequentially."""

    parts: tuple[ScanPart, ...]
    is_set: bool = False
    """True if equal rows are returned once."""


def read_task(task: ScanTask, schema: pa.Schema) -> Iterator[pa.RecordBatch]:
    """Yield the rows of a task in the schema declared to Spark."""
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
    """Conditions on rows of several variables, and the columns of their values."""

    predicates: tuple[Predicate, ...]
    slots: Mapping[Slot, Held]
    given: Given


def filter_rows(spec: RowFilter, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """Yield the rows all conditions are true for."""
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
    """Convert an operand to the property that holds it in a frame of entities."""
    match operand:
        case TypeNameValue():
            return PropertyValue(operand.variable, TYPE, get_scalar_type(operand))
        case HopCount():
            return PropertyValue(operand.variable, HOPS, get_scalar_type(operand))
        case EntityId():
            return PropertyValue(operand.variable, ID, get_scalar_type(operand))
        case _:
            return operand


_STRUCTURAL = frozenset({"id", "src", "dst", TYPE_NAME})


@dataclass
class SparkTables:
    """Data frames of the tables of one snapshot."""

    session: SparkSession
    snapshot: Snapshot
    catalog: Catalog
    given: Given
    names: ColumnNames = field(default_factory=ColumnNames)

    def __post_init__(self) -> None:
        self._ir = encode_ir(self.catalog)

    # --- nodes -----------------------------------------------------------------------------------

    def nodes(self, node: NodeScan) -> Frame:
        """Return the nodes of some types that pass conditions, with the named properties."""
        types = [self.catalog.nodes[name] for name in node.types]
        outputs = ("id", TYPE_NAME, *node.columns)
        parts = [
            part for type_ in types for part in self._split_parts(type_, outputs, node.filters)
        ]
        kinds = [self._find_kind(types, name) for name in outputs]
        slots = self._count_slots(node.variable, node.columns, kinds)
        most = sum(self._count_rows(type_) for type_ in types)
        return Frame(self._build_frame(parts, [*slots.values()]), slots, most)

    def _count_slots(
        self, variable: str, columns: Sequence[str], kinds: Sequence[pa.DataType]
    ) -> dict[Slot, Held]:
        keys = [(variable, ID), (variable, TYPE), *((variable, name) for name in columns)]
        return {key: Held(self.names.fresh(), kind) for key, kind in zip(keys, kinds, strict=True)}

    # --- edges -----------------------------------------------------------------------------------

    def pairs(self, steps: Sequence[EdgeStep]) -> NodePairs:
        """Return the pairs of nodes that one of the steps connects, each pair once."""
        near, far = Held(self.names.fresh(), pa.string()), Held(self.names.fresh(), pa.string())
        parts = [
            part
            for step in steps
            for ends in list_followed_ends(step.direction)
            for part in self._split_parts(self.catalog.edges[step.edge_type], ends, ())
        ]
        most = self._count_edges(steps)
        is_set = _fits_one_task(parts)
        data = self._build_frame(parts, [near, far], is_set=is_set)
        return NodePairs(data if is_set else data.distinct(), near.column, far.column, most)

    def edges(
        self,
        variable: str,
        steps: Sequence[EdgeStep],
        filters: Sequence[Predicate],
        columns: Sequence[str],
    ) -> tuple[NodePairs, dict[Slot, Held]]:
        """Return every edge that a step follows, once for each way it is followed."""
        near, far = Held(self.names.fresh(), pa.string()), Held(self.names.fresh(), pa.string())
        types = [self.catalog.edges[step.edge_type] for step in steps]
        kinds = [self._find_kind(types, name) for name in ("id", TYPE_NAME, *columns)]
        slots = self._count_slots(variable, columns, kinds)
        parts: list[ScanPart] = []
        for step, type_ in zip(steps, types, strict=True):
            for index, ends in enumerate(list_followed_ends(step.direction)):
                outputs = (*ends, "id", TYPE_NAME, *columns)
                # Followed along already, an edge from a node to itself is not followed back.
                parts += self._split_parts(type_, outputs, filters, skips_loops=index > 0)
        data = self._build_frame(parts, [near, far, *slots.values()])
        return NodePairs(data, near.column, far.column, self._count_edges(steps)), slots

    def _count_edges(self, steps: Sequence[EdgeStep]) -> int:
        counts = [self._count_rows(self.catalog.edges[step.edge_type]) for step in steps]
        return 2 * sum(counts)

    # --- reading ---------------------------------------------------------------------------------

    def _find_entry(self, type_: NodeType | EdgeType) -> tuple[Table, int]:
        entry = self.snapshot.state.by_identity.get(type_.identity)
        if entry is None:
            key = type_.table_key
            raise TypeNotFound(key, f"{key} does not exist at this snapshot")
        return self.snapshot.open_entry(entry), entry.row_count

    def _count_rows(self, type_: NodeType | EdgeType) -> int:
        return self._find_entry(type_)[1]

    def _find_kind(self, types: Sequence[NodeType | EdgeType], name: str) -> pa.DataType:
        if name in _STRUCTURAL:
            return pa.string()
        property_ = types[0].property(name)
        assert property_ is not None, f"{types[0].name} has no property {name}"
        return to_arrow_type(property_.type)

    def _split_parts(
        self,
        type_: NodeType | EdgeType,
        outputs: Sequence[str],
        filters: Sequence[Predicate],
        *,
        skips_loops: bool = False,
    ) -> list[ScanPart]:
        table, _ = self._find_entry(type_)
        read = {name for name in outputs if name != TYPE_NAME}
        if skips_loops:
            read |= {"src", "dst"}
        scan = TableScan(
            ir=self._ir,
            table_key=TableKey(type_.table_key),
            table=table,
            made_at_ns=table.read_commit_time_ns(),
            columns=tuple(sorted(read)),
            given=self.given,
            filters=tuple(filters),
        )
        return [
            ScanPart(
                scan=scan,
                fragments=(fragment.id,),
                outputs=tuple(outputs),
                rows=fragment.rows,
                skips_loops=skips_loops,
            )
            for fragment in table.fragments()
        ]

    def _build_frame(
        self, parts: Sequence[ScanPart], held: Sequence[Held], *, is_set: bool = False
    ) -> DataFrame:
        fields = [pa.field(one.column, to_spark_type(one.kind)) for one in held]
        tasks = [ScanTask(parts=tuple(group), is_set=is_set) for group in _group_parts(parts)]
        return read_in_tasks(self.session, tasks, pa.schema(fields))


def read_in_tasks(session: SparkSession, tasks: Sequence[ScanTask], schema: pa.Schema) -> DataFrame:
    """Return the rows of all tasks, which have these columns, as a frame; nothing is read yet."""
    promised = to_struct_type(schema)
    blob = pickle.dumps((tasks, make_arrow_schema(promised)))

    def body(batches: Any) -> Any:  # noqa: ANN401 - what Spark hands over
        import pickle  # noqa: PLC0415 - sent by value: it has no module on the other side

        tasks, schema = pickle.loads(blob)
        for batch in batches:
            for index in batch.column(0).to_pylist():
                yield from read_task(tasks[index], schema)

    count = len(tasks)
    return session.range(0, count, 1, max(1, count)).mapInArrow(body, promised)


@dataclass(frozen=True)
class NodePairs:
    """Links between nodes by their ends, and a bound of their number."""

    data: DataFrame
    near: str
    far: str
    most: float


def list_followed_ends(direction: Direction) -> tuple[tuple[str, str], ...]:
    """List the (near, far) columns of an edge for each direction of a step."""
    match direction:
        case Direction.OUT:
            return (("src", "dst"),)
        case Direction.IN:
            return (("dst", "src"),)
        case _:
            return (("src", "dst"), ("dst", "src"))


def _group_parts(parts: Sequence[ScanPart]) -> Iterator[list[ScanPart]]:
    """Group neighbouring parts so that each group is worth a task."""
    waiting: list[ScanPart] = []
    rows = 0
    for part in parts:
        if waiting and rows + part.rows > ROWS_PER_PARTITION:
            yield waiting
            waiting, rows = [], 0
        waiting.append(part)
        rows += part.rows
    if waiting:
        yield waiting


def _fits_one_task(parts: Sequence[ScanPart]) -> bool:
    return len(list(_group_parts(parts))) <= 1


def filter_frame(frame: Frame, predicates: Sequence[Predicate], given: Given) -> Frame:
    """Filter a frame by conditions, evaluated on Arrow batches in the workers."""
    blob = pickle.dumps(
        RowFilter(predicates=tuple(predicates), slots=dict(frame.slots), given=given)
    )

    def body(batches: Any) -> Any:  # noqa: ANN401 - what Spark hands over
        import pickle  # noqa: PLC0415 - sent by value: it has no module on the other side

        yield from filter_rows(pickle.loads(blob), batches)

    return frame.with_data(frame.data.mapInArrow(body, frame.data.schema))


def build_type_frame(
    session: SparkSession,
    snapshot: Snapshot,
    catalog: Catalog,
    type_: NodeType | EdgeType,
    columns: Sequence[str] | None,
    where: str | None,
) -> DataFrame:
    """Return the rows of a type that pass a condition, read when the frame is used."""
    allow_missing_pandas()
    scan = scan_type(snapshot, catalog, type_, columns, where)
    rows = {fragment.id: fragment.rows for fragment in scan.table.fragments()}
    tasks = [
        ScanTask(
            parts=(
                ScanPart(
                    scan=scan,
                    fragments=group,
                    outputs=scan.columns,
                    rows=sum(rows[id] for id in group),
                ),
            )
        )
        for group in plan_partitions(scan.table)
    ]
    return read_in_tasks(session, tasks, choose_columns(build_logical_schema(type_), columns))

"""Tables of a snapshot as data frames."""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.catalog.codec import encode_ir
from omnigraph.errors import TypeNotFound
from omnigraph.execution.read import Given
from omnigraph.identity import TableKey
from omnigraph.pipeline.query.frame import ID, TYPE, ColumnNames, Frame, Held, Slot
from omnigraph.pipeline.query.kernels import TYPE_NAME, RowFilter, ScanPart, ScanTask
from omnigraph.pipeline.spark_columns import make_arrow_schema, to_spark_type, to_struct_type
from omnigraph.pipeline.table_scan import ROWS_PER_PARTITION, TableScan
from omnigraph.plan.expressions import Predicate
from omnigraph.plan.nodes import Direction, EdgeStep, NodeScan
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table
from omnigraph.types.arrow import to_arrow_type

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_STRUCTURAL = frozenset({"id", "src", "dst", TYPE_NAME})


@dataclass
class SparkTables:
    """Makes data frames of the tables of one snapshot."""

    session: SparkSession
    snapshot: Snapshot
    catalog: Catalog
    given: Given
    names: ColumnNames = field(default_factory=ColumnNames)

    def __post_init__(self) -> None:
        self._ir = encode_ir(self.catalog)

    # --- nodes -----------------------------------------------------------------------------------

    def nodes(self, node: NodeScan) -> Frame:
        """The nodes of some types that pass conditions, with the properties asked for."""
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
        """Which node leads to which by one of the steps, each pair once."""
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
        """Every edge that a step follows, once for each way it is followed."""
        near, far = Held(self.names.fresh(), pa.string()), Held(self.names.fresh(), pa.string())
        types = [self.catalog.edges[step.edge_type] for step in steps]
        kinds = [self._find_kind(types, name) for name in ("id", TYPE_NAME, *columns)]
        slots = self._count_slots(variable, columns, kinds)
        parts: list[ScanPart] = []
        for step, type_ in zip(steps, types, strict=True):
            for place, ends in enumerate(list_followed_ends(step.direction)):
                outputs = (*ends, "id", TYPE_NAME, *columns)
                # Followed along already, an edge from a node to itself is not followed back.
                parts += self._split_parts(type_, outputs, filters, skips_loops=place > 0)
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
            made_at_ns=table.read_made_at_ns(),
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
    """The rows of all tasks, which have these columns, as a frame; nothing is read yet."""
    promised = to_struct_type(schema)
    blob = pickle.dumps((tasks, make_arrow_schema(promised)))

    def body(batches: Any) -> Any:  # noqa: ANN401 - what Spark hands over
        import pickle  # noqa: PLC0415 - sent by value: it has no module on the other side

        from omnigraph.pipeline.query.kernels import read_task  # noqa: PLC0415

        tasks, schema = pickle.loads(blob)
        for batch in batches:
            for place in batch.column(0).to_pylist():
                yield from read_task(tasks[place], schema)

    count = len(tasks)
    return session.range(0, count, 1, max(1, count)).mapInArrow(body, promised)


@dataclass(frozen=True)
class NodePairs:
    """Links between nodes: where each starts and ends, and at most how many there are."""

    data: DataFrame
    near: str
    far: str
    most: float


def list_followed_ends(direction: Direction) -> tuple[tuple[str, str], ...]:
    """(near, far) columns of an edge for each way it may be followed."""
    match direction:
        case Direction.OUT:
            return (("src", "dst"),)
        case Direction.IN:
            return (("dst", "src"),)
        case _:
            return (("src", "dst"), ("dst", "src"))


def _group_parts(parts: Sequence[ScanPart]) -> Iterator[list[ScanPart]]:
    """Neighbouring parts together, as long as they are worth one task."""
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
    """The rows all conditions are true for, asked of Arrow batches in the workers."""
    blob = pickle.dumps(
        RowFilter(predicates=tuple(predicates), slots=dict(frame.slots), given=given)
    )

    def body(batches: Any) -> Any:  # noqa: ANN401 - what Spark hands over
        import pickle  # noqa: PLC0415 - sent by value: it has no module on the other side

        from omnigraph.pipeline.query.kernels import filter_rows  # noqa: PLC0415

        yield from filter_rows(pickle.loads(blob), batches)

    return frame.with_data(frame.data.mapInArrow(body, frame.data.schema))

"""Context of one execution: its input and limits, fixed operands, profile and result."""

from __future__ import annotations

import datetime
import time
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from enum import StrEnum
from itertools import chain
from typing import Protocol, TypeVar, assert_never

import pyarrow as pa

from omnigraph.catalog.catalog import Catalog
from omnigraph.execution.read.adjacency import (
    Adjacency,
    EdgeCodes,
    NodeCodes,
    build_adjacency,
    encode_edge_ends,
    load_edge_codes,
    load_node_codes,
    make_edge_key,
    make_node_key,
)
from omnigraph.execution.read.code_arrays import Codes, Doubles
from omnigraph.execution.read.entities import IndexedEntities
from omnigraph.execution.read.table_reader import Key, SnapshotTables, Topology
from omnigraph.plan.explain import PlanStep, describe_node
from omnigraph.plan.expressions import (
    BOOL,
    STRING,
    AllOf,
    AnyOf,
    Comparator,
    Compare,
    Constant,
    FusedScore,
    InList,
    IsNull,
    NotP,
    NowValue,
    Operand,
    ParameterValue,
    Predicate,
    TextMatch,
    TypeNameValue,
)
from omnigraph.plan.plan_nodes import Direction, EdgeStep, Node, ReadPlan
from omnigraph.plan.walk import list_children
from omnigraph.storage.snapshot import Snapshot
from omnigraph.types.property import PropertyType

Embedder = Callable[[str, int, str | None], Sequence[float]]
"""Embeds a text, given the dimension and the model recorded in the schema."""

BATCH_ROWS = 65_536


class TraversalMethod(StrEnum):
    """Methods of an expansion to find neighbours; AUTO compares estimated costs."""

    AUTO = "auto"
    INDEXED = "indexed"
    ADJACENCY = "adjacency"


class ReadLimits(Protocol):
    """Limits checked while a query runs; an exception ends the query."""

    def check(self) -> None:
        """Check before every block of rows of an operator."""
        ...

    def admit(self, batch: pa.RecordBatch) -> None:
        """Check every batch of the result."""
        ...


def _read_clock() -> datetime.datetime:
    return datetime.datetime.now(datetime.UTC)


@dataclass(frozen=True)
class ReadInput:
    """Values and settings of one execution.

    `parameters` are coerced and complete. `traversal` forces a method to find neighbours; AUTO
    chooses by estimates, and looks up neighbours of at most `indexed_max_frontier` nodes over at
    most `indexed_max_hops` hops. `topology` is a cache that should outlive single reads.
    """

    parameters: Mapping[str, object] = field(default_factory=dict)
    now: datetime.datetime = field(default_factory=_read_clock)
    traversal: TraversalMethod = TraversalMethod.AUTO
    indexed_max_frontier: int | None = None
    indexed_max_hops: int | None = None
    embed: Embedder | None = None
    topology: Topology = field(default_factory=Topology)
    batch_rows: int = BATCH_ROWS
    limits: ReadLimits | None = None

    def __post_init__(self) -> None:
        # A stored DateTime has milliseconds; a moment with more could not be compared with it.
        milliseconds = self.now.microsecond // 1000 * 1000
        object.__setattr__(self, "now", self.now.replace(microsecond=milliseconds))


@dataclass(frozen=True, slots=True)
class Given:
    """The parameters and the current time of one execution."""

    parameters: Mapping[str, object]
    now: datetime.datetime

    def value(self, operand: Constant | ParameterValue | NowValue) -> object:
        """The value as plain Python; lists and vectors are lists or tuples."""
        match operand:
            case Constant():
                return operand.value
            case ParameterValue():
                return self.parameters[operand.name]
            case NowValue():
                return self.now
            case _:
                assert_never(operand)


def is_fixed(operand: Operand) -> bool:
    """Return whether the operand has one value for all rows."""
    return isinstance(operand, Constant | ParameterValue | NowValue)


def get_scalar_type(operand: Operand) -> PropertyType:
    type_ = operand.type
    assert isinstance(type_, PropertyType), "no object stands in a condition"
    return type_


Change = Callable[[Operand], Operand]


def map_operands(predicate: Predicate, change: Change) -> Predicate:
    """Replace every operand of a predicate by `change(operand)`.

    A text condition is replaced by its replacement as a whole.
    """
    match predicate:
        case Compare(left, op, right):
            return Compare(change(left), op, change(right))
        case InList(value, _):
            return replace(predicate, value=change(value))
        case IsNull(operand):
            return IsNull(change(operand))
        case TextMatch():
            return _as_condition(change(predicate))
        case AllOf(items):
            return AllOf(tuple(map_operands(item, change) for item in items))
        case AnyOf(items):
            return AnyOf(tuple(map_operands(item, change) for item in items))
        case NotP(item):
            return NotP(map_operands(item, change))
        case _:
            assert_never(predicate)


def _as_condition(operand: Operand) -> Predicate:
    if isinstance(operand, TextMatch):
        return operand
    return Compare(operand, Comparator.EQ, Constant(True, BOOL))


def restrict_to_type(predicate: Predicate, type_name: str) -> Predicate:
    """The predicate for nodes of one type: the name of the type is then a constant."""

    def change(operand: Operand) -> Operand:
        if isinstance(operand, TypeNameValue):
            return Constant(type_name, STRING)
        return operand

    return map_operands(predicate, change)


BlockT = TypeVar("BlockT")


@dataclass(slots=True)
class Measure:
    """Rows returned and time spent, including the operators below."""

    rows: int = 0
    seconds: float = 0.0
    notes: dict[str, object] = field(default_factory=dict)


class ExecutionProfile:
    """Metrics of the operators of one execution, complete once its result is consumed.

    Operators are identified as in the description of the plan: `step()` is the tree of `explain`
    with metrics among the facts.
    """

    def __init__(self, root: Node, check: Callable[[], None] | None = None) -> None:
        self.root, self._check = root, check
        self._measures: dict[int, Measure] = {}

    def of(self, node: Node) -> Measure:
        """The measure of one node of the plan, by identity."""
        return self._measures.setdefault(id(node), Measure())

    def measure(
        self, node: Node, blocks: Iterator[BlockT], count: Callable[[BlockT], int]
    ) -> Iterator[BlockT]:
        """Return the blocks, counted and timed as they are consumed."""
        measure, check = self.of(node), self._check
        while True:
            if check is not None:
                check()
            started = time.perf_counter()
            block = next(blocks, None)
            measure.seconds += time.perf_counter() - started
            if block is None:
                return
            measure.rows += count(block)
            yield block

    def step(self) -> PlanStep:
        return self._annotate(self.root, describe_node(self.root))

    def _annotate(self, node: Node, step: PlanStep) -> PlanStep:
        measure = self.of(node)
        facts = {
            **step.facts,
            **measure.notes,
            "rows": measure.rows,
            "milliseconds": round(measure.seconds * 1000, 3),
        }
        below = zip(list_children(node), step.children, strict=True)
        children = tuple(self._annotate(child, described) for child, described in below)
        return PlanStep(step.operator, facts, children)


class ReadResult:
    """The rows of a query, in batches.

    Rows are streamed: each can be read once, and the profile is complete after the last.
    """

    def __init__(
        self, schema: pa.Schema, batches: Iterator[pa.RecordBatch], profile: ExecutionProfile
    ) -> None:
        self.schema, self.profile = schema, profile
        # The first batch is computed eagerly, so that errors in values are raised by the query
        # call.
        first = next(batches, None)
        self._batches = chain([] if first is None else [first], batches)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The rows not yet read, in order."""
        return self._batches

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_batches(self._batches, self.schema)


class ReadContext:
    """State of one execution: the snapshot, the input and cached reads.

    Values too large for the cache are retained here until the execution ends.
    """

    def __init__(
        self, plan: ReadPlan, snapshot: Snapshot, catalog: Catalog, given: ReadInput
    ) -> None:
        self.input = given
        self.given = Given(given.parameters, given.now)
        self.catalog = catalog
        self.topology = given.topology
        self.tables = SnapshotTables(snapshot, catalog, given.topology)
        self.profile = ExecutionProfile(plan.root, given.limits.check if given.limits else None)
        self.fused: dict[FusedScore, tuple[Codes, Doubles]] = {}
        self.searched: dict[Hashable, object] = {}
        self._nodes: dict[str, NodeCodes] = {}
        self._edges: dict[str, EdgeCodes] = {}
        self._adjacencies: dict[Key, Adjacency] = {}
        self._indexed: dict[str, IndexedEntities] = {}

    # --- entity codes ----------------------------------------------------------------------------

    def nodes(self, type_name: str) -> NodeCodes:
        """The nodes of a type, numbered."""
        found = self._nodes.get(type_name)
        if found is None:
            found = load_node_codes(self.tables.node(type_name), self.topology)
            self._nodes[type_name] = found
        return found

    def edges(self, type_name: str) -> EdgeCodes:
        found = self._edges.get(type_name)
        if found is None:
            found = load_edge_codes(self.tables.edge(type_name), self.topology)
            self._edges[type_name] = found
        return found

    def list_entities(self, type_name: str) -> IndexedEntities:
        """Return all nodes of a type as entities, the same object on every call."""
        found = self._indexed.get(type_name)
        if found is None:
            reader = self.tables.node(type_name)
            found = IndexedEntities(reader, self.nodes(type_name), self.topology)
            self._indexed[type_name] = found
        return found

    # --- neighbours ------------------------------------------------------------------------------

    def ends(self, step: EdgeStep) -> tuple[Codes, Codes]:
        """The codes of the nodes at both ends of every edge, as the edge is declared."""
        edge = self.catalog.edges[step.edge_type]
        edges = self.edges(step.edge_type)
        return encode_edge_ends(edges, self.nodes(edge.from_type), self.nodes(edge.to_type))

    def adjacency(self, steps: Sequence[EdgeStep]) -> Adjacency:
        """Return the adjacency of one hop along any of the steps."""
        key = self.adjacency_key(steps)
        found = self._adjacencies.get(key)
        if found is None:
            found = self.topology.get(key, lambda: self._build(steps))
            self._adjacencies[key] = found
        return found

    def adjacency_key(self, steps: Sequence[EdgeStep]) -> Key:
        """Return the cache key of an adjacency: the versions of edges and endpoints."""
        edges = [(step.direction, self.tables.edge(step.edge_type).key) for step in steps]
        nodes = {end for step in steps for end in self.ends_of(step)}
        return (
            "adjacency",
            *sorted(edges),
            *sorted((name, self.tables.node(name).key) for name in nodes),
        )

    def ends_of(self, step: EdgeStep) -> tuple[str, str]:
        """The node types a step leads from and to."""
        edge = self.catalog.edges[step.edge_type]
        if step.direction is Direction.IN:
            return edge.to_type, edge.from_type
        return edge.from_type, edge.to_type

    def _build(self, steps: Sequence[EdgeStep]) -> Adjacency:
        sides: list[tuple[Codes, Codes]] = []
        for step in steps:
            sources, targets = self.ends(step)
            if step.direction is not Direction.IN:
                sides.append((sources, targets))
            if step.direction is not Direction.OUT:
                sides.append((targets, sources))
        source_type, _ = self.ends_of(steps[0])
        return build_adjacency(sides, self.nodes(source_type).size)

    # --- in memory -------------------------------------------------------------------------------

    def has_adjacency(self, steps: Sequence[EdgeStep]) -> bool:
        key = self.adjacency_key(steps)
        return key in self._adjacencies or self.topology.holds(key)

    def has_nodes(self, type_name: str) -> bool:
        reader = self.tables.node(type_name)
        return type_name in self._nodes or self.topology.holds(make_node_key(reader))

    def has_edges(self, type_name: str) -> bool:
        reader = self.tables.edge(type_name)
        return type_name in self._edges or self.topology.holds(make_edge_key(reader))

"""Execute a plan on Spark: one match over the plan's nodes, and joins for expansions."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, assert_never

import pyarrow as pa
from pyspark.sql import functions as F

from omnigraph.catalog.catalog import Catalog
from omnigraph.execution.read import Given, find_join_condition
from omnigraph.pipeline.spark_columns import (
    HOPS,
    ID,
    TYPE,
    Frame,
    Held,
    Slot,
    build_column,
    conjoin,
    mark_broadcast,
)
from omnigraph.pipeline.spark_output import (
    Results,
    aggregate_frame,
    project_frame,
    slice_frame,
    sort_frame,
    sort_output,
)
from omnigraph.pipeline.spark_scan import NodePairs, SparkTables, filter_frame
from omnigraph.pipeline.tasks import allow_missing_pandas
from omnigraph.plan.expressions import (
    FusedScore,
    Output,
    Predicate,
    TextMatch,
    TextScore,
    VectorDistance,
)
from omnigraph.plan.plan_nodes import (
    Aggregate,
    AntiJoin,
    CrossJoin,
    Direction,
    EdgeStep,
    Expand,
    FilterRows,
    Match,
    Node,
    NodeScan,
    OptionalJoin,
    OuterRows,
    Project,
    Rank,
    ReadPlan,
    Slice,
    Sort,
)
from omnigraph.plan.walk import list_children, list_leaves, list_operands_of
from omnigraph.storage.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession


_SEARCH = VectorDistance | TextScore | FusedScore | TextMatch


def is_search_plan(plan: ReadPlan) -> bool:
    """Return whether a plan ranks or searches text.

    Both need whole tables and their indexes; the embedded executor runs such a plan in the
    driver.
    """
    return any(_is_search(node) for node in _walk_nodes(plan.root))


def _walk_nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in list_children(node):
        yield from _walk_nodes(child)


def _is_search(node: Node) -> bool:
    if isinstance(node, Rank):
        return True
    leaves = (leaf for value in _list_values(node) for leaf in list_leaves(value))
    return any(isinstance(leaf, _SEARCH) for leaf in leaves)


def _list_values(node: Node) -> Iterator[Output]:
    match node:
        case NodeScan():
            yield from _list_operands(node.filters)
        case Expand():
            yield from _list_operands((*node.target_filters, *node.edge_filters))
        case FilterRows():
            yield from list_operands_of(node.predicate)
        case Project() | Aggregate():
            yield from (column.value for column in node.columns)
        case Sort():
            yield from (key.value for key in node.keys)
        case _:
            return


def _list_operands(predicates: tuple[Predicate, ...]) -> Iterator[Output]:
    for predicate in predicates:
        yield from list_operands_of(predicate)


@dataclass(frozen=True)
class SparkLinks:
    """Result of an expansion: pairs of nodes, and what is bound besides the target."""

    pairs: NodePairs
    extra: dict[Slot, Held]


def expand(tables: SparkTables, node: Expand, child: Frame) -> Frame:
    """Join each row with every neighbour of its source, or with every edge if edges are bound."""
    source_type, target_type = _list_ends(tables, node.steps[0])
    maximum = node.maximum if source_type == target_type else min(node.maximum, 1)
    links = _build_links(tables, node, child, source_type, maximum)
    conditions = [
        child.column(node.source, ID) == F.col(links.pairs.near),
        child.column(node.source, TYPE) == F.lit(source_type),
    ]
    if node.closes:
        conditions += [
            child.column(node.target, ID) == F.col(links.pairs.far),
            child.column(node.target, TYPE) == F.lit(target_type),
        ]
    pairs = mark_broadcast(links.pairs.data, links.pairs.most)
    joined = child.data.join(pairs, conjoin(conditions), "inner").drop(links.pairs.near)
    slots = {**child.slots, **links.extra}
    if node.closes:
        return Frame(joined.drop(links.pairs.far), slots, child.most * links.pairs.most)
    return _join_target(tables, node, target_type, Frame(joined, slots, child.most), links)


def _join_target(
    tables: SparkTables, node: Expand, target_type: str, rows: Frame, links: SparkLinks
) -> Frame:
    """Return the target variable bound to the far ends, as far as they pass their filters."""
    most = rows.most * links.pairs.most
    if node.target_columns or node.target_filters:
        scan = NodeScan(node.target, (target_type,), node.target_filters, node.target_columns)
        targets = tables.nodes(scan)
        matches = F.col(links.pairs.far) == targets.column(node.target, ID)
        found = rows.data.join(mark_broadcast(targets.data, targets.most), matches, "inner")
        return Frame(found.drop(links.pairs.far), {**rows.slots, **targets.slots}, most)
    type_column = tables.names.fresh()
    slots = {
        **rows.slots,
        (node.target, ID): Held(links.pairs.far, pa.string()),
        (node.target, TYPE): Held(type_column, pa.string()),
    }
    return Frame(rows.data.withColumn(type_column, F.lit(target_type)), slots, most)


def _list_ends(tables: SparkTables, step: EdgeStep) -> tuple[str, str]:
    """Return the node types a step leads from and to."""
    edge = tables.catalog.edges[step.edge_type]
    if step.direction is Direction.IN:
        return edge.to_type, edge.from_type
    return edge.from_type, edge.to_type


def _build_links(
    tables: SparkTables, node: Expand, child: Frame, source_type: str, maximum: int
) -> SparkLinks:
    if node.edge_variable is not None:
        pairs, slots = tables.edges(
            node.edge_variable, node.steps, node.edge_filters, node.edge_columns
        )
        return SparkLinks(pairs, slots)
    pairs = tables.pairs(node.steps)
    if (node.minimum, maximum) == (1, 1):
        return _count_pairs(tables, node, pairs, pairs.data, F.lit(1))
    walk = _Walk(tables, pairs, node.minimum, maximum, is_backward=node.asked_from_target)
    is_source = child.column(node.source, TYPE) == F.lit(source_type)
    starts = child.data.where(is_source).select(child.column(node.source, ID)).distinct()
    reached = walk.walk(starts)
    return _count_pairs(tables, node, walk.ends(child.most), reached, F.col(walk.hops))


def _count_pairs(
    tables: SparkTables, node: Expand, pairs: NodePairs, data: DataFrame, hops: Column
) -> SparkLinks:
    """Return the pairs, with the number of hops if a variable asks for it."""
    if node.hop_variable is None:
        kept = data.select(pairs.near, pairs.far)
        return SparkLinks(NodePairs(kept, pairs.near, pairs.far, pairs.most), {})
    column = tables.names.fresh()
    kept = data.select(pairs.near, pairs.far, hops.cast("long").alias(column))
    slots = {(node.hop_variable, HOPS): Held(column, pa.int64())}
    return SparkLinks(NodePairs(kept, pairs.near, pairs.far, pairs.most), slots)


class _Walk:
    """Nodes within a number of hops of some starts, at their shortest distance.

    Every hop is computed once and cached by the executors; only whether it found anything comes
    to the driver. An edge from a node to itself leads nowhere new, but a node one hop below the
    lower bound may spend a hop on it: forward the node that is reached, backward the start.
    """

    def __init__(
        self,
        tables: SparkTables,
        pairs: NodePairs,
        minimum: int,
        maximum: int,
        *,
        is_backward: bool,
    ) -> None:
        self._tables, self._minimum, self._maximum = tables, minimum, maximum
        self._is_backward = is_backward
        self._near, self._far, self._most = pairs.near, pairs.far, pairs.most
        self._pairs = pairs.data.localCheckpoint() if maximum >= minimum else pairs.data
        names = tables.names
        self.start, self.node, self.hops = names.fresh(), names.fresh(), names.fresh()

    def ends(self, starts: float) -> NodePairs:
        """Return the columns of the reached nodes; at most every node from every start."""
        return NodePairs(self._pairs, self.start, self.node, starts * self._most)

    def walk(self, starts: DataFrame) -> DataFrame:
        """Return (start, node, hops) for every reached node."""
        begin = F.col(starts.columns[0])
        level = starts.select(begin.alias(self.start), begin.alias(self.node)).localCheckpoint()
        known, found = level, [self._project_at(level.where(F.lit(False)), 0)]
        for hop in range(1, self._maximum + 1):
            if hop == self._minimum:
                found.append(self._project_at(self._take_loops(level), hop))
            fresh = self._take_hop(level, known).localCheckpoint()
            if hop >= self._minimum:
                found.append(self._project_at(fresh, hop))
            if fresh.isEmpty():
                break
            level, known = fresh, known.union(fresh)
        everything = found[0]
        for part in found[1:]:
            everything = everything.union(part)
        return everything

    def _project_at(self, level: DataFrame, hop: int) -> DataFrame:
        return level.select(self.start, self.node, F.lit(hop).alias(self.hops))

    def _take_hop(self, level: DataFrame, known: DataFrame) -> DataFrame:
        near, far = F.col(self._near), F.col(self._far)
        steps = mark_broadcast(self._pairs.where(near != far), self._most)
        moved = level.join(steps, F.col(self.node) == near, "inner")
        fresh = moved.select(F.col(self.start), far.alias(self.node)).distinct()
        return fresh.join(known, [self.start, self.node], "left_anti")

    def _take_loops(self, level: DataFrame) -> DataFrame:
        """Return the nodes just below the lower bound that a loop lifts to it."""
        near = F.col(self._near)
        loops = mark_broadcast(self._pairs.where(near == F.col(self._far)), self._most)
        at = self.start if self._is_backward else self.node
        return level.join(loops, F.col(at) == near, "left_semi")


_IDENTITY = frozenset({ID, TYPE, HOPS})


def run_plan(
    plan: ReadPlan, snapshot: Snapshot, catalog: Catalog, given: Given, session: SparkSession
) -> DataFrame:
    """Run a plan; return the result as a data frame, in the order of the plan.

    Walks of more than one hop are computed now; everything else when rows are fetched.
    """
    allow_missing_pandas()
    return (
        _SparkRun(SparkTables(session, snapshot, catalog, given), given)
        .output(plan.root)
        .name_columns()
    )


class _SparkRun:
    """One execution: `output` makes result columns, `rows` the rows below them."""

    def __init__(self, tables: SparkTables, given: Given) -> None:
        self._tables, self._given = tables, given

    # --- output ----------------------------------------------------------------------------------

    def output(self, node: Node) -> Results:
        match node:
            case Slice():
                return slice_frame(node, self.output(node.child), self._given)
            case Project():
                return project_frame(node, self._order(node.child), self._given)
            case Aggregate():
                return aggregate_frame(node, self.rows(node.child, None), self._given)
            case Sort():
                return sort_output(node, self.output(node.child), self._tables.names)
            case _:
                raise AssertionError(f"{type(node).__name__} gives rows, not output")

    def _order(self, node: Node) -> Frame:
        if isinstance(node, Sort):
            return sort_frame(node, self.rows(node.child, None), self._given)
        return self.rows(node, None)

    # --- rows ------------------------------------------------------------------------------------

    def rows(self, node: Node, outer: Frame | None) -> Frame:
        match node:
            case NodeScan():
                return self._tables.nodes(node)
            case OuterRows():
                assert outer is not None, "only a nested block has rows around it"
                return outer
            case Expand():
                return expand(self._tables, node, self.rows(node.child, outer))
            case CrossJoin():
                return self._join(node, [], outer)
            case FilterRows():
                return self._filter(node, outer)
            case AntiJoin():
                return self._run_anti_join(node, self.rows(node.child, outer))
            case OptionalJoin():
                return self._with_optional(node, self.rows(node.child, outer))
            case Match() | Rank() | Project() | Aggregate() | Sort() | Slice():
                raise AssertionError(f"{type(node).__name__} does not stand among rows")
            case _:
                assert_never(node)

    def _filter(self, node: FilterRows, outer: Frame | None) -> Frame:
        """Apply consecutive filters at once; equalities between two parts join them."""
        predicates, child = [node.predicate], node.child
        while isinstance(child, FilterRows):
            predicates.insert(0, child.predicate)
            child = child.child
        if not isinstance(child, CrossJoin):
            return filter_frame(self.rows(child, outer), predicates, self._given)
        left, right = child.left, child.right
        joining = [p for p in predicates if find_join_condition(p, left, right) is not None]
        rest = [p for p in predicates if p not in joining]
        rows = self._join(child, joining, outer)
        return filter_frame(rows, rest, self._given) if rest else rows

    def _join(self, node: CrossJoin, joining: list[Predicate], outer: Frame | None) -> Frame:
        left, right = self.rows(node.left, outer), self.rows(node.right, outer)
        pairs = (find_join_condition(predicate, node.left, node.right) for predicate in joining)
        conditions = [
            build_column(left, pair.left, self._given)
            == build_column(right, pair.right, self._given)
            for pair in pairs
            if pair is not None
        ]
        other = mark_broadcast(right.data, right.most)
        if conditions:
            data = left.data.join(other, conjoin(conditions), "inner")
        else:
            data = left.data.crossJoin(other)
        return Frame(data, {**left.slots, **right.slots}, left.most * right.most)

    # --- blocks ----------------------------------------------------------------------------------

    def _run_anti_join(self, node: AntiJoin, child: Frame) -> Frame:
        inner, same = self._run_block(node.inner, child)
        data = child.data.join(mark_broadcast(inner.data, inner.most), same, "left_anti")
        return child.with_data(data)

    def _with_optional(self, node: OptionalJoin, child: Frame) -> Frame:
        inner, same = self._run_block(node.inner, child)
        added = inner.of(node.introduces)
        data = child.data.join(mark_broadcast(inner.data, inner.most), same, "left")
        slots = {**child.slots, **added}
        kept = data.select(*(held.column for held in slots.values()))
        return Frame(kept, slots, child.most * max(1.0, inner.most))

    def _run_block(self, inner: Node, child: Frame) -> tuple[Frame, Column]:
        """Run a block for each distinct combination of outer variables; return rows and join."""
        around = self._run_around(child, set(_list_outer_variables(inner)))
        rows = self.rows(inner, around)
        keys = [slot for slot in around.slots if slot[1] in _IDENTITY]
        same = [child.column(*slot).eqNullSafe(F.col(around.slots[slot].column)) for slot in keys]
        return rows, conjoin(same)

    def _run_around(self, child: Frame, variables: set[str]) -> Frame:
        """Return the combinations of some variables, under names of their own."""
        if not variables:
            return Frame(self._tables.session.range(1).toDF(self._tables.names.fresh()), {}, 1)
        slots: dict[Slot, Held] = {
            slot: Held(self._tables.names.fresh(), held.kind)
            for slot, held in child.of(variables).items()
        }
        columns = [child.column(*slot).alias(held.column) for slot, held in slots.items()]
        return Frame(child.data.select(*columns).distinct(), slots, child.most)


def _list_outer_variables(node: Node) -> Iterator[str]:
    """Yield the variables of the rows around a block that it is about."""
    if isinstance(node, OuterRows):
        yield from node.variables
    for child in list_children(node):
        if not (isinstance(node, AntiJoin | OptionalJoin) and child is node.inner):
            yield from _list_outer_variables(child)

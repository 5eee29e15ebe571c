"""A plan and a snapshot to a data frame: one match over the plan's nodes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, assert_never

from pyspark.sql import functions as F

from omnigraph.catalog.catalog import Catalog
from omnigraph.execution.read import Given, find_join_condition
from omnigraph.pipeline.query.frame import (
    HOPS,
    ID,
    TYPE,
    Frame,
    Held,
    Slot,
    conjoin,
    mark_broadcast,
)
from omnigraph.pipeline.query.spark_expand import expand
from omnigraph.pipeline.query.spark_output import (
    Results,
    aggregate_frame,
    project_frame,
    slice_frame,
    sort_frame,
    sort_output,
)
from omnigraph.pipeline.query.spark_scan import SparkTables, filter_frame
from omnigraph.pipeline.query.spark_values import build_column
from omnigraph.pipeline.tasks import allow_missing_pandas
from omnigraph.plan.expressions import Predicate
from omnigraph.plan.nodes import (
    Aggregate,
    AntiJoin,
    CrossJoin,
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
from omnigraph.plan.walk import list_children
from omnigraph.storage.snapshot import Snapshot

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

_IDENTITY = frozenset({ID, TYPE, HOPS})


def run_plan(
    plan: ReadPlan, snapshot: Snapshot, catalog: Catalog, given: Given, session: SparkSession
) -> DataFrame:
    """The result of a plan as a data frame, in the order the plan asks for.

    Walks of more than one hop are worked out now; everything else when rows are asked for.
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
        """Filters in a row, asked in one go; equalities between two parts join them."""
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
        """The rows of a block for every different combination around it, and how they fit."""
        around = self._run_around(child, set(_list_outer_variables(inner)))
        rows = self.rows(inner, around)
        keys = [slot for slot in around.slots if slot[1] in _IDENTITY]
        same = [child.column(*slot).eqNullSafe(F.col(around.slots[slot].column)) for slot in keys]
        return rows, conjoin(same)

    def _run_around(self, child: Frame, variables: set[str]) -> Frame:
        """The combinations of some variables, under names of their own."""
        if not variables:
            return Frame(self._tables.session.range(1).toDF(self._tables.names.fresh()), {}, 1)
        slots: dict[Slot, Held] = {
            slot: Held(self._tables.names.fresh(), held.kind)
            for slot, held in child.of(variables).items()
        }
        columns = [child.column(*slot).alias(held.column) for slot, held in slots.items()]
        return Frame(child.data.select(*columns).distinct(), slots, child.most)


def _list_outer_variables(node: Node) -> Iterator[str]:
    """The variables of the rows around a block that it is about."""
    if isinstance(node, OuterRows):
        yield from node.variables
    for child in list_children(node):
        if not (isinstance(node, AntiJoin | OptionalJoin) and child is node.inner):
            yield from _list_outer_variables(child)

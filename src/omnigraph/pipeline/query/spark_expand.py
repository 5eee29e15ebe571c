"""From the nodes of a variable to their neighbours, with joins."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pyarrow as pa
from pyspark.sql import functions as F

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
from omnigraph.pipeline.query.spark_scan import NodePairs, SparkTables
from omnigraph.plan.nodes import Direction, EdgeStep, Expand, NodeScan

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame


@dataclass(frozen=True)
class SparkLinks:
    """What an expansion found: pairs of nodes, and what is bound besides the target."""

    pairs: NodePairs
    extra: dict[Slot, Held]


def expand(tables: SparkTables, node: Expand, child: Frame) -> Frame:
    """Each row once for every neighbour of its source, or for every edge if those are bound."""
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
    """The target variable bound to the far ends, as far as they pass their filters."""
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
    """The node types a step leads from and to."""
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
    """The pairs, with the number of hops if a variable asks for it."""
    if node.hop_variable is None:
        kept = data.select(pairs.near, pairs.far)
        return SparkLinks(NodePairs(kept, pairs.near, pairs.far, pairs.most), {})
    column = tables.names.fresh()
    kept = data.select(pairs.near, pairs.far, hops.cast("long").alias(column))
    slots = {(node.hop_variable, HOPS): Held(column, pa.int64())}
    return SparkLinks(NodePairs(kept, pairs.near, pairs.far, pairs.most), slots)


class _Walk:
    """Everything within a number of hops of some starts, at its shortest distance.

    Every hop is worked out once and kept by the executors; only whether it found anything comes
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
        """The columns of what is reached; at most every node from every start."""
        return NodePairs(self._pairs, self.start, self.node, starts * self._most)

    def walk(self, starts: DataFrame) -> DataFrame:
        """(start, node, hops) for everything in reach."""
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
        """Of the nodes just below the lower bound those that a loop lifts to it."""
        near = F.col(self._near)
        loops = mark_broadcast(self._pairs.where(near == F.col(self._far)), self._most)
        at = self.start if self._is_backward else self.node
        return level.join(loops, F.col(at) == near, "left_semi")

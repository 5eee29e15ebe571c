"""Estimates of row counts, from statistics if available, otherwise from constants."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import assert_never

from omnigraph.catalog.catalog import Catalog, ConstraintKind, NodeType
from omnigraph.identity import EntityKind, make_table_key
from omnigraph.plan.expressions import (
    AllOf,
    AnyOf,
    Comparator,
    Compare,
    EntityId,
    InList,
    IsNull,
    NotP,
    Operand,
    Predicate,
    PropertyValue,
    TextMatch,
)
from omnigraph.plan.plan_nodes import (
    Aggregate,
    AntiJoin,
    CrossJoin,
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
    Slice,
    Sort,
)

UNKNOWN_NODES = 100_000
UNKNOWN_DEGREE = 10
_LIST_FACTOR = 10

_KEEPS: Mapping[Comparator, float] = {
    Comparator.EQ: 0.02,
    Comparator.NE: 0.95,
    Comparator.LT: 0.3,
    Comparator.LE: 0.3,
    Comparator.GT: 0.3,
    Comparator.GE: 0.3,
    Comparator.HAS: 0.05,
    Comparator.CONTAINS: 0.1,
    Comparator.STARTS_WITH: 0.05,
    Comparator.ENDS_WITH: 0.1,
}


@dataclass(frozen=True)
class Statistics:
    """Row counts by table key; an absent table is of unknown size."""

    rows: Mapping[str, int] = field(default_factory=dict)

    @property
    def known(self) -> bool:
        return bool(self.rows)

    def nodes(self, types: Iterable[str]) -> float:
        keys = [make_table_key(EntityKind.NODE, name) for name in types]
        return float(sum(self.rows.get(key, UNKNOWN_NODES) for key in keys))

    def edges(self, steps: Iterable[EdgeStep]) -> float:
        keys = [make_table_key(EntityKind.EDGE, step.edge_type) for step in steps]
        unknown = UNKNOWN_NODES * UNKNOWN_DEGREE
        return float(sum(self.rows.get(key, unknown) for key in keys))


@dataclass(frozen=True)
class Estimator:
    """Estimates row counts, as orders of magnitude."""

    catalog: Catalog
    statistics: Statistics = field(default_factory=Statistics)

    def scan(self, types: tuple[str, ...], filters: Iterable[Predicate]) -> float:
        total = self.statistics.nodes(types)
        for predicate in filters:
            if self._is_point(types, predicate):
                return min(1.0, total)
            total *= self._estimate_kept(types, predicate)
        return max(total, 0.1)

    def rows(self, node: Node) -> float:
        match node:
            case Match() | OuterRows():
                return 1.0
            case NodeScan():
                return self.scan(node.types, node.filters)
            case CrossJoin(left, right):
                return self.rows(left) * self.rows(right)
            case Expand():
                return self.estimate_expanded(node, self.rows(node.child))
            case FilterRows(child, _) | AntiJoin(child, _):
                return self.rows(child) * 0.5
            case OptionalJoin(child, inner):
                return self.rows(child) * max(1.0, self.rows(inner))
            case Rank() | Project() | Aggregate() | Sort() | Slice():
                return self.rows(node.child)
            case _:
                assert_never(node)

    def degree(self, steps: tuple[EdgeStep, ...]) -> float:
        """The mean number of edges followed from one node."""
        edges = self.statistics.edges(steps)
        starts = {self._start_type(step) for step in steps}
        return edges / max(1.0, self.statistics.nodes(starts))

    def _start_type(self, step: EdgeStep) -> str:
        edge = self.catalog.edges[step.edge_type]
        return edge.to_type if step.direction == "in" else edge.from_type

    def estimate_expanded(self, node: Expand, reached: float) -> float:
        """Estimate the rows after an expansion with `reached` rows before it."""
        if node.closes:
            return reached * 0.1
        hops = min(node.maximum, 8)
        everyone = self.statistics.nodes(node.target_types)
        fan_out = min(max(self.degree(node.steps), 0.1) ** hops, everyone)
        for predicate in node.target_filters:
            if self._is_point(node.target_types, predicate):
                return min(reached, fan_out)
            fan_out *= self._estimate_kept(node.target_types, predicate)
        return reached * fan_out

    def _is_point(self, types: tuple[str, ...], predicate: Predicate) -> bool:
        """Return whether at most one node of each type can pass: its id or whole key is fixed."""
        if not isinstance(predicate, Compare) or predicate.op is not Comparator.EQ:
            return False
        return any(self._is_identifying(types, side) for side in (predicate.left, predicate.right))

    def _is_identifying(self, types: tuple[str, ...], operand: Operand) -> bool:
        if isinstance(operand, EntityId):
            return True
        if not isinstance(operand, PropertyValue):
            return False
        return all(self._is_unique(self.catalog.nodes.get(t), operand.property) for t in types)

    def _is_unique(self, node_type: NodeType | None, column: str) -> bool:
        if node_type is None:
            return False
        unique = (ConstraintKind.KEY, ConstraintKind.UNIQUE)
        return any(c.columns == (column,) for kind in unique for c in node_type.of_kind(kind))

    def _estimate_kept(self, types: tuple[str, ...], predicate: Predicate) -> float:
        match predicate:
            case Compare(_, op, _):
                return _KEEPS[op]
            case InList():
                return _KEEPS[Comparator.EQ] * _LIST_FACTOR
            case IsNull():
                return 0.2
            case TextMatch():
                return 0.05
            case AllOf(items):
                kept = 1.0
                for item in items:
                    kept *= self._estimate_kept(types, item)
                return kept
            case AnyOf(items):
                return min(1.0, sum(self._estimate_kept(types, item) for item in items))
            case NotP(item):
                return max(0.05, 1.0 - self._estimate_kept(types, item))
            case _:
                assert_never(predicate)

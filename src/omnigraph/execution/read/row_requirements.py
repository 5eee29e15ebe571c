"""What the operators above need of a row, and in what order rows come out below.

Rows that differ only in variables that are no longer needed can be merged and counted, which is
what makes counting paths cheap. Where every row must come out by itself, such columns are merely
dropped.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import assert_never

from omnigraph.execution.read.row_blocks import Rows
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
    Slice,
    Sort,
)
from omnigraph.plan.walk import list_children, list_predicate_variables


@dataclass(frozen=True, slots=True)
class Demand:
    """The variables somebody above asks for; `merge` says equal rows may be counted instead."""

    variables: frozenset[str]
    merge: bool = False

    def also(self, *variables: str) -> Demand:
        return replace(self, variables=self.variables | set(variables))

    def with_shape(self, rows: Rows) -> Rows:
        """A block without the columns that are not needed."""
        if rows.codes.keys() <= self.variables:
            return rows
        return rows.only(self.variables)


def list_outer_variables(inner: Node) -> frozenset[str]:
    """The variables a nested block takes from the rows around it."""
    if isinstance(inner, OuterRows):
        return frozenset(inner.variables)
    if isinstance(inner, AntiJoin | OptionalJoin):
        return list_outer_variables(inner.child)
    found: frozenset[str] = frozenset()
    for child in list_children(inner):
        found |= list_outer_variables(child)
    return found


def derive_child_requirements(node: Node, demand: Demand) -> Demand:
    """What a node asks of its child, given what is asked of itself."""
    match node:
        case Expand():
            needed = {node.source} | ({node.target} if node.closes else set())
            return demand.also(*needed)
        case FilterRows():
            return demand.also(*list_predicate_variables(node.predicate))
        case AntiJoin() | OptionalJoin():
            return demand.also(*list_outer_variables(node.inner))
        case _:
            return demand


@dataclass(frozen=True, slots=True)
class RowOrder:
    """Rows are sorted by the ids of these variables; `is_total` if that leaves no ties."""

    variables: tuple[str, ...] = ()
    is_total: bool = False

    def then(self, *variables: str, total: bool = True) -> RowOrder:
        if not self.is_total:
            return self
        return RowOrder((*self.variables, *variables), total)

    def without(self, demand: Demand) -> RowOrder:
        """What is left to see of the order when some columns are dropped."""
        for place, variable in enumerate(self.variables):
            if variable not in demand.variables:
                return RowOrder(self.variables[:place])
        return self


def find_row_order(node: Node, demand: Demand) -> RowOrder:
    """The order in which an operator gives its rows."""
    asked = derive_child_requirements(node, demand)
    match node:
        case NodeScan():
            order = (
                RowOrder((node.variable,), is_total=True) if len(node.types) == 1 else RowOrder()
            )
        case CrossJoin(left, right):
            first, second = find_row_order(left, asked), find_row_order(right, asked)
            order = first.then(*second.variables, total=second.is_total)
        case Expand():
            order = find_row_order(node.child, asked)
            if not node.closes:
                order = order.then(node.target, total=node.edge_variable is None)
            elif node.edge_variable is not None:
                order = RowOrder(order.variables)
        case FilterRows() | AntiJoin():
            order = find_row_order(node.child, asked)
        case OptionalJoin():
            order = RowOrder(find_row_order(node.child, asked).variables)
        case OuterRows() | Match() | Rank() | Project() | Aggregate() | Sort() | Slice():
            order = RowOrder()
        case _:
            assert_never(node)
    return order.without(demand)

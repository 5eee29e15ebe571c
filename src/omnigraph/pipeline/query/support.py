"""Which plans can be executed with data frames."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.plan.expressions import (
    FusedScore,
    Output,
    Predicate,
    TextMatch,
    TextScore,
    VectorDistance,
)
from omnigraph.plan.nodes import (
    Aggregate,
    Expand,
    FilterRows,
    Node,
    NodeScan,
    Project,
    Rank,
    ReadPlan,
    Sort,
)
from omnigraph.plan.walk import children_of, leaves_of, operands_of

_SEARCH = VectorDistance | TextScore | FusedScore | TextMatch


def uses_search(plan: ReadPlan) -> bool:
    """Whether a plan ranks or looks for words.

    Both speak about all rows of a table at once, through its indexes; the embedded executor does
    that, in the driver.
    """
    return any(_searches(node) for node in _nodes(plan.root))


def _nodes(node: Node) -> Iterator[Node]:
    yield node
    for child in children_of(node):
        yield from _nodes(child)


def _searches(node: Node) -> bool:
    if isinstance(node, Rank):
        return True
    leaves = (leaf for value in _values(node) for leaf in leaves_of(value))
    return any(isinstance(leaf, _SEARCH) for leaf in leaves)


def _values(node: Node) -> Iterator[Output]:
    match node:
        case NodeScan():
            yield from _operands(node.filters)
        case Expand():
            yield from _operands((*node.target_filters, *node.edge_filters))
        case FilterRows():
            yield from operands_of(node.predicate)
        case Project() | Aggregate():
            yield from (column.value for column in node.columns)
        case Sort():
            yield from (key.value for key in node.keys)
        case _:
            return


def _operands(predicates: tuple[Predicate, ...]) -> Iterator[Output]:
    for predicate in predicates:
        yield from operands_of(predicate)

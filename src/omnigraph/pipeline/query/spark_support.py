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
from omnigraph.plan.walk import list_children, list_leaves, list_operands_of

_SEARCH = VectorDistance | TextScore | FusedScore | TextMatch


def is_search_plan(plan: ReadPlan) -> bool:
    """Whether a plan ranks or looks for words.

    Both speak about all rows of a table at once, through its indexes; the embedded executor does
    that, in the driver.
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

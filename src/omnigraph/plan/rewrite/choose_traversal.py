"""Choose how each expansion finds neighbours, when the counts are known."""

from __future__ import annotations

from dataclasses import replace

from omnigraph.plan.nodes import Expand, Node, Traversal
from omnigraph.plan.statistics import Estimator
from omnigraph.plan.walk import map_children

MAX_INDEXED_HOPS = 6
MAX_INDEXED_FRONTIER = 1024
BUILD_FACTOR = 1.5
"""Building an adjacency reads every edge once and sorts it."""


def choose_traversal(node: Node, estimator: Estimator) -> Node:
    """Mark expansions from few rows as indexed look-ups and from many as adjacency walks.

    Without row counts the choice is left to the executor, which also may change its mind when a
    frontier turns out larger than guessed.
    """
    node = map_children(node, lambda child: choose_traversal(child, estimator))
    if isinstance(node, Expand) and estimator.statistics.known:
        return replace(node, traversal=_choice(node, estimator))
    return node


def _choice(node: Expand, estimator: Estimator) -> Traversal:
    frontier = estimator.rows(node.child)
    if node.maximum > MAX_INDEXED_HOPS or frontier > MAX_INDEXED_FRONTIER:
        return Traversal.ADJACENCY
    looked_up = node.maximum * frontier * estimator.degree(node.steps)
    built = BUILD_FACTOR * estimator.statistics.edges(node.steps)
    return Traversal.INDEXED if looked_up < built else Traversal.ADJACENCY

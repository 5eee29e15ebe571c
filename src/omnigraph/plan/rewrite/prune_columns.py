"""Read only the properties that something above needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import assert_never

from omnigraph.plan.expressions import Output
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
from omnigraph.plan.statistics import Estimator
from omnigraph.plan.walk import list_children, list_operands_of, list_used_properties, map_children

Needs = frozenset[tuple[str, str]]


def prune_columns(node: Node, _estimator: Estimator) -> Node:
    """Give every scan and expansion the properties used outside its own filters.

    Conditions pushed into a scan are evaluated by it, so their properties need not be read out.
    """
    return _prune(node, frozenset(find_needed_columns(node)))


def find_needed_columns(node: Node) -> Iterator[tuple[str, str]]:
    for value in _list_values(node):
        yield from list_used_properties(value)
    for child in list_children(node):
        yield from find_needed_columns(child)


def _list_values(node: Node) -> Iterable[Output]:
    """The expressions a node evaluates on rows, pushed-down filters left out."""
    match node:
        case FilterRows(_, predicate):
            return list_operands_of(predicate)
        case Project() | Aggregate():
            return (column.value for column in node.columns)
        case Sort():
            return (key.value for key in node.keys)
        case Rank():
            return (key.value for key in node.keys)
        case (
            Match()
            | OuterRows()
            | NodeScan()
            | CrossJoin()
            | Expand()
            | AntiJoin()
            | OptionalJoin()
            | Slice()
        ):
            return ()
        case _:
            assert_never(node)


def _prune(node: Node, needs: Needs) -> Node:
    node = map_children(node, lambda child: _prune(child, needs))
    match node:
        case NodeScan():
            return replace(node, columns=_list_columns(node.variable, needs))
        case Expand():
            return replace(
                node,
                target_columns=() if node.closes else _list_columns(node.target, needs),
                edge_columns=_list_columns(node.edge_variable, needs),
            )
        case _:
            return node


def _list_columns(variable: str | None, needs: Needs) -> tuple[str, ...]:
    return tuple(sorted(name for owner, name in needs if owner == variable))

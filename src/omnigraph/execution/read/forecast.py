"""How the expansions of a plan would find neighbours, by expected instead of counted rows."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.catalog.catalog import Catalog
from omnigraph.execution.read.context import ReadContext
from omnigraph.execution.read.expansion_path import build_expansion_path
from omnigraph.execution.read.input import ReadInput
from omnigraph.execution.read.traversal_choice import choose_traversal
from omnigraph.plan.explain import Notes
from omnigraph.plan.nodes import Expand, Node, ReadPlan
from omnigraph.plan.statistics import Estimator
from omnigraph.plan.walk import list_children
from omnigraph.storage.snapshot import Snapshot


def forecast_traversals(
    plan: ReadPlan, snapshot: Snapshot, catalog: Catalog, given: ReadInput, estimator: Estimator
) -> Notes:
    """What the executor would choose now for each expansion, and why.

    The executor asks the same question again with the rows that really arrive.
    """
    context = ReadContext(plan, snapshot, catalog, given)
    notes: dict[int, dict[str, object]] = {}
    for node in _list_expansions(plan.root):
        way = build_expansion_path(node, context)
        if way.is_possible:
            nodes = context.tables.node(way.source_type).row_count
            frontier = round(min(max(1.0, estimator.rows(node.child)), nodes))
            choice = choose_traversal(context, way, frontier)
            notes[id(node)] = choice.facts(f"{frontier} expected")
    return notes


def _list_expansions(node: Node) -> Iterator[Expand]:
    if isinstance(node, Expand):
        yield node
    for child in list_children(node):
        yield from _list_expansions(child)

"""How the expansions of a plan would find neighbours, by expected instead of counted rows."""

from __future__ import annotations

from collections.abc import Iterator

from omnigraph.catalog.model import Catalog
from omnigraph.execution.read.context import Context
from omnigraph.execution.read.input import ReadInput
from omnigraph.execution.read.strategy import choose
from omnigraph.execution.read.way import way_of
from omnigraph.plan.explain import Notes
from omnigraph.plan.nodes import Expand, Node, ReadPlan
from omnigraph.plan.statistics import Estimator
from omnigraph.plan.walk import children_of
from omnigraph.storage.snapshot import Snapshot


def forecast_traversals(
    plan: ReadPlan, snapshot: Snapshot, catalog: Catalog, given: ReadInput, estimator: Estimator
) -> Notes:
    """What the executor would choose now for each expansion, and why.

    The executor asks the same question again with the rows that really arrive.
    """
    context = Context(plan, snapshot, catalog, given)
    notes: dict[int, dict[str, object]] = {}
    for node in _expansions(plan.root):
        way = way_of(node, context)
        if way.is_possible:
            nodes = context.tables.node(way.source_type).row_count
            frontier = round(min(max(1.0, estimator.rows(node.child)), nodes))
            choice = choose(context, way, frontier)
            notes[id(node)] = choice.facts(f"{frontier} expected")
    return notes


def _expansions(node: Node) -> Iterator[Expand]:
    if isinstance(node, Expand):
        yield node
    for child in children_of(node):
        yield from _expansions(child)

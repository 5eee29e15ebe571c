"""The plans one query can be run by, from barely changed to fully optimized."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from differential.data import GraphData
from omnigraph.catalog.catalog import Catalog
from omnigraph.plan.plan_nodes import ReadPlan
from omnigraph.plan.rewrite_rules import optimize, order_clauses, prune_columns
from omnigraph.plan.statistics import Estimator, Statistics

Variant = Callable[[ReadPlan, Catalog, GraphData], ReadPlan]


def plain(plan: ReadPlan, catalog: Catalog, _data: GraphData) -> ReadPlan:
    """The plan with an order and columns, which an engine needs, and filters where they were."""
    estimator = Estimator(catalog, Statistics())
    ordered = order_clauses(plan.root, estimator)
    return replace(plan, root=prune_columns(ordered, estimator))


def optimized(plan: ReadPlan, catalog: Catalog, _data: GraphData) -> ReadPlan:
    """The plan after every rule, nothing known about row counts."""
    found = optimize(plan, catalog)
    assert isinstance(found, ReadPlan)
    return found


def counted(plan: ReadPlan, catalog: Catalog, data: GraphData) -> ReadPlan:
    """The plan after every rule, with the row counts of all tables."""
    counts = {catalog.nodes[name].table_key: len(rows) for name, rows in data.nodes.items()}
    counts |= {catalog.edges[name].table_key: len(rows) for name, rows in data.edges.items()}
    found = optimize(plan, catalog, Statistics(counts))
    assert isinstance(found, ReadPlan)
    return found


VARIANTS: tuple[Variant, ...] = (plain, optimized, counted)

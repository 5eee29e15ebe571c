"""The rules in the order they run."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from omnigraph.catalog.catalog import Catalog
from omnigraph.plan.nodes import Node, Plan, ReadPlan
from omnigraph.plan.rewrite.fuse_rankings import fuse_rankings
from omnigraph.plan.rewrite.order_clauses import order_clauses
from omnigraph.plan.rewrite.prune_columns import prune_columns
from omnigraph.plan.rewrite.push_filters import push_filters
from omnigraph.plan.statistics import Estimator, Statistics

RewriteRule = Callable[[Node, Estimator], Node]

RULES: tuple[RewriteRule, ...] = (
    push_filters,  # before ordering: what a variable keeps decides where to start
    order_clauses,  # patterns become scans and expansions here
    fuse_rankings,
    prune_columns,  # last: it counts what the others left in use
)


def optimize(plan: Plan, catalog: Catalog, statistics: Statistics | None = None) -> Plan:
    """The plan after every rule; a mutation has nothing to reorder and comes back as it is."""
    if not isinstance(plan, ReadPlan):
        return plan
    estimator = Estimator(catalog, statistics or Statistics())
    root = plan.root
    for rule in RULES:
        root = rule(root, estimator)
    return replace(plan, root=root)

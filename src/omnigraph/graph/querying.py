"""Running queries: one query reads one snapshot."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from omnigraph.errors import BadRequest
from omnigraph.execution.read import (
    Embedder,
    ReadInput,
    ReadLimits,
    Topology,
    TraversalMethod,
    execute,
    forecast_traversals,
)
from omnigraph.graph.branch_snapshots import CatalogSnapshot
from omnigraph.graph.engines import require_engine
from omnigraph.graph.query_result import QueryResult
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_plan
from omnigraph.plan.explain import Notes
from omnigraph.plan.nodes import Plan, ReadPlan
from omnigraph.plan.statistics import Estimator, Statistics
from omnigraph.settings import TraversalMode, TraversalSettings
from omnigraph.types.parameters import coerce_parameters

_FORCED = {
    TraversalMode.AUTO: TraversalMethod.AUTO,
    TraversalMode.INDEXED: TraversalMethod.INDEXED,
    TraversalMode.CSR: TraversalMethod.ADJACENCY,
}


@dataclass(frozen=True)
class QuerySettings:
    """What all queries of one graph share: what is kept warm, and how texts are embedded."""

    topology: Topology
    embed: Embedder | None
    traversal: TraversalSettings


@dataclass(frozen=True, slots=True)
class GraphQueryRequest:
    """A query, as a caller asks for it."""

    source: SourceText
    name: str | None
    parameters: Mapping[str, object] | None
    now: datetime.datetime
    engine: str = "local"
    session: object | None = None
    """A Spark session of the caller's."""
    spark_conf: Mapping[str, str] = field(default_factory=dict)
    limits: ReadLimits | None = None


def collect_statistics(view: CatalogSnapshot) -> Statistics:
    """The row counts the manifest knows; choosing an order by them costs no read."""
    return Statistics(view.snapshot.state.row_counts)


def plan_query(view: CatalogSnapshot, source: SourceText, name: str | None) -> ReadPlan:
    """The plan of a read against this view."""
    plan = compile_plan(source, view.catalog, name, collect_statistics(view))
    if not isinstance(plan, ReadPlan):
        raise BadRequest(f"query '{plan.name}' changes the graph; run it with `mutate`")
    return plan


def run_query(
    view: CatalogSnapshot,
    request: GraphQueryRequest,
    settings: QuerySettings,
    target: Mapping[str, str | None],
) -> QueryResult:
    """Run one read query on the view's snapshot."""
    plan = plan_query(view, request.source, request.name)
    declared = [(p.name, p.type) for p in plan.parameters]
    parameters = coerce_parameters(declared, request.parameters)
    given = _make_input(settings, parameters, request.now, request.limits)
    require_engine(request.engine)
    if request.engine == "spark":
        from omnigraph.graph.spark_querying import query_on_spark

        session: Any = request.session
        return query_on_spark(plan, view, given, target, session, request.spark_conf)
    read = execute(plan, view.snapshot, view.catalog, given)
    return QueryResult(plan, read, target, view.snapshot.head)


def explain_traversals(view: CatalogSnapshot, plan: Plan, settings: QuerySettings) -> Notes:
    """How the expansions of a plan would find neighbours if it ran now, and why."""
    if not isinstance(plan, ReadPlan):
        return {}
    given = _make_input(settings, {}, datetime.datetime.now(datetime.UTC))
    estimator = Estimator(view.catalog, collect_statistics(view))
    return forecast_traversals(plan, view.snapshot, view.catalog, given, estimator)


def _make_input(
    settings: QuerySettings,
    parameters: Mapping[str, object],
    now: datetime.datetime,
    limits: ReadLimits | None = None,
) -> ReadInput:
    return ReadInput(
        parameters=parameters,
        now=now,
        traversal=_FORCED[settings.traversal.mode],
        indexed_max_frontier=settings.traversal.indexed_max_frontier,
        indexed_max_hops=settings.traversal.indexed_max_hops,
        embed=settings.embed,
        topology=settings.topology,
        limits=limits,
    )

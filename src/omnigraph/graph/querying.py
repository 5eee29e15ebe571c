"""Running queries: one query reads one snapshot."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass

from omnigraph.errors import BadRequest
from omnigraph.execution.read.input import Embedder, ReadInput
from omnigraph.execution.read.run import execute
from omnigraph.execution.read.topology import Topology
from omnigraph.graph.query_result import QueryResult
from omnigraph.graph.view import View
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_plan
from omnigraph.plan.nodes import ReadPlan, Traversal
from omnigraph.plan.statistics import Statistics
from omnigraph.types.parameters import coerce_parameters


@dataclass(frozen=True)
class QuerySettings:
    """What all queries of one graph share: what is kept warm, and how texts are embedded."""

    topology: Topology
    embed: Embedder | None
    traversal: Traversal = Traversal.AUTO


@dataclass(frozen=True, slots=True)
class QueryRequest:
    source: SourceText
    name: str | None
    parameters: Mapping[str, object] | None
    now: datetime.datetime


def statistics(view: View) -> Statistics:
    """The row counts the manifest knows; choosing an order by them costs no read."""
    return Statistics({str(key): entry.row_count for key, entry in view.snapshot.entries.items()})


def plan_query(view: View, source: SourceText, name: str | None) -> ReadPlan:
    """The plan of a read against this view."""
    plan = compile_plan(source, view.catalog, name, statistics(view))
    if not isinstance(plan, ReadPlan):
        raise BadRequest(f"query '{plan.name}' changes the graph; run it with `mutate`")
    return plan


def query(
    view: View,
    request: QueryRequest,
    settings: QuerySettings,
    target: Mapping[str, str | None],
) -> QueryResult:
    """Run one read query on the view's snapshot."""
    plan = plan_query(view, request.source, request.name)
    declared = [(p.name, p.type) for p in plan.parameters]
    given = ReadInput(
        parameters=coerce_parameters(declared, request.parameters),
        now=request.now,
        traversal=settings.traversal,
        embed=settings.embed,
        topology=settings.topology,
    )
    read = execute(plan, view.snapshot, view.catalog, given)
    return QueryResult(plan, read, target, view.snapshot.head)

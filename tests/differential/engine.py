"""The engine under test, as one call: a plan and a graph to rows."""

from __future__ import annotations

import traceback
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from pathlib import Path

import pyarrow as pa

from differential.compare_engines import difference
from differential.generate import GraphCase, QueryCase
from differential.interpreter import NOW
from differential.model_aggregates import same_value
from differential.plan_variants import Variant, counted, optimized, plain
from differential.random_histories import write
from omnigraph.errors import OmniError
from omnigraph.execution.read.executor import execute
from omnigraph.execution.read.read_context import BATCH_ROWS, Embedder, ReadInput, TraversalMethod
from omnigraph.execution.read.table_reader import Topology
from omnigraph.graph.branch_snapshots import BranchSnapshots, CatalogSnapshot
from omnigraph.identity import MAIN
from omnigraph.plan.expressions import ObjectType, ValueType
from omnigraph.plan.plan_nodes import ReadPlan
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.to_json import encode_rows

Row = dict[str, object]

MODES: tuple[tuple[Variant, TraversalMethod], ...] = (
    (plain, TraversalMethod.ADJACENCY),
    (optimized, TraversalMethod.INDEXED),
    (counted, TraversalMethod.AUTO),
)
"""Every query runs once in each: barely changed and optimized, by look-ups and by adjacency."""

FEW_ROWS = 3
"""Batches so small that most results have several."""


@dataclass(frozen=True)
class Engine:
    """An open graph, with one cache for each way of walking."""

    view: CatalogSnapshot
    topologies: Mapping[TraversalMethod, Topology] = field(
        default_factory=lambda: {traversal: Topology() for traversal in TraversalMethod}
    )

    def cold(self) -> Engine:
        """Return the graph with empty caches."""
        return Engine(self.view)

    def run(
        self,
        plan: ReadPlan,
        parameters: Mapping[str, object],
        *,
        now: datetime = NOW,
        traversal: TraversalMethod = TraversalMethod.AUTO,
        embed: Embedder | None = None,
        javascript: bool = False,
        batch_rows: int = BATCH_ROWS,
    ) -> tuple[pa.Schema, list[Row]]:
        """The columns and rows of a plan."""
        given = ReadInput(
            parameters=parameters,
            now=now,
            traversal=traversal,
            embed=embed,
            topology=self.topologies[traversal],
            batch_rows=batch_rows,
        )
        table = execute(plan, self.view.snapshot, self.view.catalog, given).to_arrow()
        return table.schema, encode_rows(table, javascript=javascript)


def open_engine(place: Path | str) -> Engine:
    return Engine(BranchSnapshots(GraphRoot.at(str(place))).read_newest(MAIN))


def open_copy(graph: GraphCase, folder: Path) -> Engine:
    """A graph in a folder with the contents of a random one."""
    place = folder / "random.omni"
    write(graph, place)
    return open_engine(place)


def problems_of(engine: Engine, graph: GraphCase, case: QueryCase) -> str | None:
    """Return how the engine differs from the interpreter in the first mode that does.

    Where a query leaves the order of rows open, it must still be the same in every mode.
    """
    first: list[Row] | None = None
    for variant, traversal in MODES:
        plan = variant(case.plan, graph.catalog, graph.data)
        found = _run(engine, plan, traversal, case)
        problem = found if isinstance(found, str) else _problem(found, first, plan, case)
        if problem is not None:
            return f"{variant.__name__} plan, {traversal}: {problem}"
        if not isinstance(found, str | None):
            first = first or found[1]
    return None


def _run(
    engine: Engine, plan: ReadPlan, traversal: TraversalMethod, case: QueryCase
) -> tuple[pa.Schema, list[Row]] | str | None:
    """Run the engine: its rows, a text where it fails, None where it refuses as expected."""
    batch_rows = FEW_ROWS if traversal is TraversalMethod.INDEXED else BATCH_ROWS
    try:
        return engine.run(plan, case.values, traversal=traversal, batch_rows=batch_rows)
    except OmniError as error:
        return None if case.answer is None else f"refused: {error}"
    except Exception as error:  # noqa: BLE001  # whatever it is, the case must be printed
        return "".join(traceback.format_exception(error)[-5:])


def _problem(
    found: tuple[pa.Schema, list[Row]] | None,
    first: list[Row] | None,
    plan: ReadPlan,
    case: QueryCase,
) -> str | None:
    if found is None:
        return None
    schema, rows = found
    if case.answer is None:
        # Rows beyond a limit of 0 need not be summed.
        return "accepted, although the sum does not fit its type" if rows else None
    problem = wrong_types(schema, plan) or difference(case.answer, rows)
    if problem is None and first is not None and same_value(rows) != same_value(first):
        return "the order of rows or items is not that of the first mode"
    return problem


def wrong_types(schema: pa.Schema, plan: ReadPlan) -> str | None:
    """The first column with another type than the plan declares."""
    for found, column in zip(schema, plan.columns, strict=True):
        wanted = _arrow_type(column.type)
        if found.type != wanted:
            return f"column {found.name} is {found.type} instead of {wanted}"
        if not found.nullable and column.type.nullable:
            return f"column {found.name} is said to have no NULLs"
    return None


def _arrow_type(type_: ValueType) -> pa.DataType:
    if isinstance(type_, ObjectType):
        return pa.struct([pa.field(name, to_arrow_type(t), t.nullable) for name, t in type_.fields])
    return to_arrow_type(type_)

"""Running queries on a graph of this process, whichever way neighbours are found."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import pyarrow as pa

from omnigraph.execution.read.executor import execute
from omnigraph.execution.read.read_context import ReadInput, ReadResult, TraversalMethod
from omnigraph.execution.read.table_reader import Topology
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.graph import Graph, init
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_plan
from omnigraph.plan.plan_nodes import ReadPlan
from omnigraph.plan.statistics import Statistics
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.types.parameters import coerce_parameters
from omnigraph.types.to_json import encode_rows

HERE = Path(__file__).parent
NOW = datetime.datetime(2024, 6, 1, 12, 30, 15, 250_500, tzinfo=datetime.UTC)

Json = dict[str, object]


@dataclass
class Reading:
    """Queries against one graph: `rows` gives JSON objects, `column` the values of one column."""

    uri: str
    traversal: TraversalMethod = TraversalMethod.AUTO
    statistics: Statistics | None = None
    given: ReadInput = field(default_factory=lambda: ReadInput(now=NOW, topology=Topology()))

    def __post_init__(self) -> None:
        self.views = BranchSnapshots(GraphRoot.at(self.uri))

    def plan(self, body: str, branch: str = "main") -> ReadPlan:
        text = body if body.lstrip().startswith("query ") else f"query q() {{ {body} }}"
        catalog = self.views.read_newest(branch).catalog
        plan = compile_plan(SourceText(text, "q.gq"), catalog, None, self.statistics)
        assert isinstance(plan, ReadPlan)
        return plan

    def run(
        self, body: str, params: Mapping[str, object] | None = None, branch: str = "main"
    ) -> ReadResult:
        plan, view = self.plan(body, branch), self.views.read_newest(branch)
        return self.run_plan(plan, params, view)

    def run_plan(self, plan: ReadPlan, params=None, view=None) -> ReadResult:
        view = view or self.views.read_newest("main")
        declared = [(p.name, p.type) for p in plan.parameters]
        given = replace(
            self.given,
            parameters=coerce_parameters(declared, params or {}),
            traversal=self.traversal,
        )
        return execute(plan, view.snapshot, view.catalog, given)

    def table(self, body: str, params=None, **given) -> pa.Table:
        return self.run(body, params, **given).to_arrow()

    def rows(self, body: str, params=None, **given) -> list[Json]:
        return encode_rows(self.table(body, params, **given))

    def tuples(self, body: str, params=None, **given) -> list[tuple[object, ...]]:
        return [tuple(row.values()) for row in self.rows(body, params, **given)]

    def column(self, body: str, params=None, **given) -> list[object]:
        return [row[0] for row in self.tuples(body, params, **given)]


def make_graph(path: Path, schema: str, records: object = None) -> Graph:
    graph = init(str(path), schema)
    if records is not None:
        graph.load(records, "append")
    return graph


def music_graph(path: Path) -> Graph:
    return make_graph(path, (HERE / "music.pg").read_text(), (HERE / "music.jsonl").read_bytes())

"""Run queries, each on one snapshot, in this process or on Spark; and their results."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, Protocol

import pyarrow as pa

from omnigraph.errors import BadRequest
from omnigraph.execution.read import (
    Embedder,
    Given,
    ReadInput,
    ReadLimits,
    ReadResult,
    Topology,
    TraversalMethod,
    execute,
    forecast_traversals,
)
from omnigraph.graph.branch_snapshots import CatalogSnapshot
from omnigraph.graph.conversion.graph_formats import Svg, draw_rows
from omnigraph.graph.conversion.row_formats import RowForms, convert_rows
from omnigraph.graph.engines import require_engine
from omnigraph.language.source import SourceText
from omnigraph.pipeline.spark_session import spark
from omnigraph.plan.compile import compile_plan
from omnigraph.plan.explain import Notes, PlanStep
from omnigraph.plan.plan_nodes import Plan, ReadPlan
from omnigraph.plan.statistics import Estimator, Statistics
from omnigraph.settings import TraversalMode, TraversalSettings
from omnigraph.types.parameters import coerce_parameters
from omnigraph.types.to_json import encode_rows
from omnigraph.wire.read_results import QueryRows, ReadTarget

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


_FORCED = {
    TraversalMode.AUTO: TraversalMethod.AUTO,
    TraversalMode.INDEXED: TraversalMethod.INDEXED,
    TraversalMode.CSR: TraversalMethod.ADJACENCY,
}


@dataclass(frozen=True)
class QuerySettings:
    """The state shared by the queries of a graph: caches, and the embedder of query texts."""

    topology: Topology
    embed: Embedder | None
    traversal: TraversalSettings


@dataclass(frozen=True, slots=True)
class GraphQueryRequest:
    """A query request: text, name, parameters and options."""

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
    """Return the row counts of the manifest, by which the join order is chosen without a read."""
    return Statistics(view.snapshot.state.row_counts)


def plan_query(view: CatalogSnapshot, source: SourceText, name: str | None) -> ReadPlan:
    """Plan a read against this view."""
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
        session: Any = request.session
        return query_on_spark(plan, view, given, target, session, request.spark_conf)
    read = execute(plan, view.snapshot, view.catalog, given)
    return QueryResult(plan, read, target, view.snapshot.head)


def explain_traversals(view: CatalogSnapshot, plan: Plan, settings: QuerySettings) -> Notes:
    """Describe the access path that each expansion would use now, with the reason."""
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


# --- results --------------------------------------------------------------------------------------


class RowSource(Protocol):
    """The source of result rows: the columns are known at once, rows are produced on demand."""

    @property
    def schema(self) -> pa.Schema: ...

    def batches(self) -> Iterator[pa.RecordBatch]: ...

    def to_arrow(self) -> pa.Table: ...


class QueryResult(RowForms):
    """The rows of a query. Iteration yields dictionaries of Python values.

    >>> result = graph.query("query q() { match { $p: Person } return { $p.name, $p.age } }")
    >>> result.columns, len(result), result[0]
    (['p.name', 'p.age'], 2, {'p.name': 'Ada', 'p.age': 36})
    >>> result.to_arrow().column_names, result.engine
    (['p.name', 'p.age'], 'local')
    >>> print(result)
    p.name | p.age
    -------+------
    Ada    | 36
    Ben    |
    (2 rows)
    >>> graph.query("query q() { match { $p: Person } return { count($p) as n } }").scalar()
    2

    Rows are produced on demand: `batches()` streams a result of any size once, every
    other form holds all rows and can be used repeatedly.
    """

    def __init__(
        self,
        plan: ReadPlan,
        read: ReadResult,
        target: Mapping[str, str | None],
        commit_id: str | None,
    ) -> None:
        self.plan, self._profile = plan, read.profile
        self._take_rows(read, target, commit_id)

    def _take_rows(
        self, read: RowSource, target: Mapping[str, str | None], commit_id: str | None
    ) -> None:
        self.target, self.commit_id = dict(target), commit_id
        self._read = read
        self._is_streamed = False
        self._failure: Exception | None = None

    @property
    def query_name(self) -> str:
        return self.plan.name

    @property
    def engine(self) -> str:
        """The engine of the query: `local` or `spark`."""
        return "local"

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns with their Arrow types, known before any row is read."""
        return self._read.schema

    @cached_property
    def _table(self) -> pa.Table:
        if self._failure is not None:
            raise self._failure
        self._require_unread()
        self._is_streamed = True  # whatever ends it early: the rest would pass for the answer
        try:
            return self._read.to_arrow()
        except Exception as error:
            self._failure = error
            raise

    def _require_unread(self) -> None:
        if self._is_streamed:
            raise BadRequest(
                "the rows have already been streamed; run the query again, or call `to_arrow()` "
                "before `batches()`, `write_arrow()` or `write_parquet()`"
            )

    @cached_property
    def rows(self) -> list[dict[str, object]]:
        """Every row, as iteration yields it; `wire()` has them as JSON values."""
        return convert_rows(self._table)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """Stream the rows in batches, once, with bounded memory.

        >>> result = graph.query("query q() { match { $p: Person } return { $p.name } }")
        >>> sum(batch.num_rows for batch in result.batches())
        2
        """
        if "_table" in self.__dict__:
            return iter(self._table.to_batches())
        self._require_unread()
        self._is_streamed = True
        return self._read.batches()

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table, with the types of the schema."""
        return self._table

    def to_networkx(self, source: str | None = None, target: str | None = None) -> Any:  # noqa: ANN401
        """Return a directed NetworkX graph: each row is an edge between the values of two columns.

        By default, the first two columns. The others become attributes of the edges.

        >>> pairs = "query q() { match { $a: Person  $a knows $b } return { $a.name, $b.name } }"
        >>> list(graph.query(pairs).to_networkx().edges())
        [('Ada', 'Ben')]
        """
        from omnigraph.graph.conversion.graph_formats import make_networkx_pairs

        return make_networkx_pairs(self._table, source, target)

    def write_arrow(self, target: str | Path | BinaryIO) -> None:
        """Write the rows as an Arrow IPC file, batch by batch."""
        with _make_writable(target) as file, pa.ipc.new_file(file, self._read.schema) as writer:
            for batch in self.batches():
                writer.write_batch(batch)

    def write_parquet(self, target: str | Path | BinaryIO) -> None:
        """Write the rows as a Parquet file, batch by batch.

        >>> from pyarrow import parquet
        >>> result = graph.query("query q() { match { $p: Person } return { $p.name } }")
        >>> result.write_parquet("names.parquet")
        >>> parquet.read_table("names.parquet").num_rows
        2
        """
        from pyarrow import parquet

        with (
            _make_writable(target) as file,
            parquet.ParquetWriter(file, self._read.schema, compression="zstd") as writer,
        ):
            for batch in self.batches():
                writer.write_batch(batch)

    def profile(self) -> PlanStep:
        """Return the plan with the rows and time of each operator, once all rows are read.

        >>> result = graph.query("query q() { match { $p: Person } return { $p.name } }")
        >>> len(result.profile().lines()) > 1
        True
        """
        if not self._is_streamed:
            assert self._table is not None, "reading everything completes the profile"
        return self._profile.step()

    def wire(self, *, javascript: bool = False) -> dict[str, object]:
        """Return the JSON document of the command line and the server.

        >>> document = graph.query("query q() { match { $p: Person } return { $p.name } }").wire()
        >>> document["query_name"], document["target"]["branch"], document["row_count"]
        ('q', 'main', 2)
        """
        return self.document(javascript=javascript).wire()

    def document(self, *, javascript: bool = False) -> QueryRows:
        """Return the rows in one document, with JSON values.

        >>> found = graph.query("query q() { match { $p: Person } return { $p.name } }").document()
        >>> found.row_count, found.rows[0]
        (2, {'p.name': 'Ada'})
        """
        rows = encode_rows(self._table, javascript=javascript)
        return QueryRows(
            query_name=self.query_name,
            target=ReadTarget(**self.target),
            row_count=len(rows),
            columns=self.columns,
            rows=rows,
            graph_commit_id=self.commit_id,
        )

    def __repr__(self) -> str:
        return f"QueryResult({self.query_name!r}, columns={self.columns})"

    def plot(self, source: str | None = None, target: str | None = None) -> Svg:
        """Draw the rows, each as an arrow between the values of two columns.

        By default, the first two columns. Notebooks show the drawing; as a string it is an SVG
        document. At most 300 nodes and 2,000 arrows are drawn.

        >>> pairs = "query q() { match { $a: Person  $a knows $b } return { $a.name, $b.name } }"
        >>> graph.query(pairs).plot().startswith("<svg")
        True
        """
        return draw_rows(self._table, source, target)


def _make_writable(target: str | Path | BinaryIO) -> AbstractContextManager[BinaryIO]:
    return Path(target).open("wb") if isinstance(target, str | Path) else nullcontext(target)


# --- Spark ----------------------------------------------------------------------------------------


class SparkQueryResult(QueryResult):
    """A result whose rows Spark has, or can be given."""

    def __init__(
        self,
        plan: ReadPlan,
        read: ReadResult,
        target: Mapping[str, str | None],
        commit_id: str | None,
        session: SparkSession,
    ) -> None:
        super().__init__(plan, read, target, commit_id)
        self._session = session

    @property
    def engine(self) -> str:
        """The engine that computed the rows: `spark`, or `local` for a search."""
        from omnigraph.pipeline.spark_output import SparkRead

        return "spark" if isinstance(self._read, SparkRead) else "local"

    def __repr__(self) -> str:
        name, columns = self.query_name, self.columns
        return f"SparkQueryResult({name!r}, columns={columns}, engine={self.engine!r})"

    def to_spark(self) -> DataFrame:
        """Return the rows as a data frame, with unsigned numbers and vectors in types of Spark."""
        from omnigraph.pipeline.spark_columns import cast_to_schema, to_spark_arrow_schema
        from omnigraph.pipeline.spark_output import SparkRead

        if isinstance(self._read, SparkRead):
            return self._read.frame
        table = self.to_arrow()
        wanted = to_spark_arrow_schema(table.schema)
        batches = [cast_to_schema(batch, wanted) for batch in table.to_batches()]
        return self._session.createDataFrame(pa.Table.from_batches(batches, wanted))

    def profile(self) -> PlanStep:
        from omnigraph.pipeline.spark_output import SparkRead

        if isinstance(self._read, SparkRead):
            raise BadRequest("queries on Spark are profiled by Spark itself; see its plans")
        return super().profile()


def query_on_spark(
    plan: ReadPlan,
    view: CatalogSnapshot,
    given: ReadInput,
    target: Mapping[str, str | None],
    session: SparkSession | None,
    conf: Mapping[str, str],
) -> SparkQueryResult:
    """Run a plan with data frames.

    A plan that ranks or searches text is executed in the driver: both need whole tables and their
    indexes.
    """
    from omnigraph.pipeline.spark_executor import is_search_plan, run_plan
    from omnigraph.pipeline.spark_output import SparkRead
    from omnigraph.pipeline.tasks import check_executors

    snapshot = view.snapshot
    chosen = spark(session, settings=snapshot.root.settings, conf=conf)
    check_executors(chosen)
    read: ReadResult
    if is_search_plan(plan):
        read = execute(plan, snapshot, view.catalog, given)
    else:
        values = Given(given.parameters, given.now)
        read = SparkRead(plan, run_plan(plan, snapshot, view.catalog, values, chosen))
    return SparkQueryResult(plan, read, target, snapshot.head, chosen)

"""Running queries on Spark."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.errors import BadRequest
from omnigraph.execution.read import Given, ReadInput, ReadResult, execute
from omnigraph.graph.branch_snapshots import CatalogSnapshot
from omnigraph.graph.query_result import QueryResult
from omnigraph.pipeline.spark_columns import cast_to_schema, to_spark_arrow_schema
from omnigraph.pipeline.spark_executor import is_search_plan, run_plan
from omnigraph.pipeline.spark_output import SparkRead
from omnigraph.pipeline.spark_session import spark
from omnigraph.pipeline.tasks import check_executors
from omnigraph.plan.explain import PlanStep
from omnigraph.plan.nodes import ReadPlan

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class SparkQueryResult(QueryResult):
    """A result whose rows are with Spark, or can be handed to it."""

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
        """Who made the rows: `spark`, or `local` where the query searches."""
        return "spark" if isinstance(self._read, SparkRead) else "local"

    def __repr__(self) -> str:
        name, columns = self.query_name, self.columns
        return f"SparkQueryResult({name!r}, columns={columns}, engine={self.engine!r})"

    def to_spark(self) -> DataFrame:
        """The rows as a data frame; unsigned numbers and vectors as Spark can hold them."""
        if isinstance(self._read, SparkRead):
            return self._read.frame
        table = self.to_arrow()
        wanted = to_spark_arrow_schema(table.schema)
        batches = [cast_to_schema(batch, wanted) for batch in table.to_batches()]
        return self._session.createDataFrame(pa.Table.from_batches(batches, wanted))

    def profile(self) -> PlanStep:
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

    A plan that ranks or looks for words is run by the embedded executor in the driver: both are
    about whole tables and their indexes.
    """
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

"""`spark.read.format("omnigraph")` and `df.write.format("omnigraph")`.

A data source runs in several processes that Spark starts: one that plans, those of the executors,
one that commits. None of them shares anything with the caller, so each opens the graph by its
address. Executors read fragments of pinned table versions and stage rows; the process that commits
checks them and publishes one commit, under the graph's own fence.

    from omnigraph.spark_source import register

    register(session)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.pipeline.spark_environment import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(session: SparkSession) -> None:
    """Register the format `omnigraph` with a session.

    Raises:
        MissingPackage: Spark is not installed.
    """
    require_spark("the data source")
    from omnigraph.spark_source.datasource import GraphSource  # noqa: PLC0415 - loads Spark

    session.dataSource.register(GraphSource)

"""How a session learns of the data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

from omnigraph.pipeline.spark_environment import require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def register(session: SparkSession) -> None:
    """Make the format `omnigraph` known to a session.

    Raises:
        MissingPackage: Spark is not installed.
    """
    require_spark("the data source")
    from omnigraph.spark_source.datasource import GraphSource  # noqa: PLC0415 - loads Spark

    session.dataSource.register(GraphSource)

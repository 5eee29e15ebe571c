"""How a session learns of the data source."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


def register(session: SparkSession) -> None:
    """Make the format `omnigraph` known to a session.

    Where the session keeps filters from Python sources (`spark.sql.python.filterPushdown.enabled`
    is off, as it is by default), the source that is registered takes none. Who turns the setting
    on or off later registers again.
    """
    from omnigraph.pipeline.source import datasource  # noqa: PLC0415 - loads Spark

    enabled = str(session.conf.get(_PUSHDOWN, "false")).lower() == "true"
    session.dataSource.register(datasource.FilteringSource if enabled else datasource.PlainSource)

"""One small Spark session for all tests of a process."""

from __future__ import annotations

import pytest

from omnigraph.pipeline.session import spark as make_session

SPARK_CONF = {
    "spark.master": "local[2,4]",
    "spark.driver.memory": "1g",
    "spark.sql.shuffle.partitions": "2",
}


@pytest.fixture(scope="session")
def spark():
    """Two cores, four attempts; started once, since starting takes longer than any test."""
    session = make_session(conf=SPARK_CONF)
    yield session
    session.stop()

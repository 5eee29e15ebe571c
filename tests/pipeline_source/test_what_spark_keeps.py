"""The parts of a source that PySpark runs in Python; the data source is built around them.

If one of these fails after an upgrade, Spark has changed: read `spark_source/datasource.py` again.
"""

from __future__ import annotations

import pytest

from pipeline_source.toy_source import FilteringToy, PlainToy

PUSHDOWN = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture
def session(spark):
    """Filters are offered to sources."""
    before = spark.conf.get(PUSHDOWN)
    spark.conf.set(PUSHDOWN, "true")
    spark.dataSource.register(PlainToy)
    spark.dataSource.register(FilteringToy)
    yield spark
    spark.conf.set(PUSHDOWN, before)


def column(frame, name: str) -> str:
    (row,) = frame.select(name).distinct().collect()
    return row[0]


def test_spark_gives_a_query_the_partitions_another_querys_filter_left(session):
    frame = session.read.format("filtering_toy").load()
    counts = [frame.count(), frame.where("n >= 90").count(), frame.count()]
    assert counts == [100, 10, 10], "the last one is wrong, and Spark's"
    assert frame.union(frame.where("n >= 50")).count() == 100, "and not 150"


def test_spark_makes_a_source_once_for_each_load_and_keeps_it(session):
    frame = session.read.format("plain_toy").load()
    made = column(frame, "made")
    assert column(frame.where("n >= 90"), "made") == made
    frame.createOrReplaceTempView("toy")
    session.catalog.refreshTable("toy")
    assert column(session.table("toy"), "made") == made, "a refresh does not load again"
    assert column(session.read.format("plain_toy").load(), "made") != made


def test_spark_makes_a_source_with_a_given_schema_once_too(session):
    reader = session.read.format("plain_toy").schema("n long, made string, planned string")
    frame = reader.load()
    assert column(frame, "made") == column(frame.where("n >= 90"), "made")


def test_spark_plans_a_frame_once_but_again_when_it_offers_filters(session):
    frame = session.read.format("plain_toy").load()
    planned = column(frame, "planned")
    assert column(frame, "planned") == planned
    again = column(frame.where("n >= 90"), "planned")
    assert again != planned
    assert column(frame, "planned") == again, "and the newer plan replaces the one that was kept"

"""Queries on one frame do not see each other's filters, whatever Spark caches of the reader."""

from __future__ import annotations

import pytest

import omnigraph
from pipeline_source.frames_of_people import SCHEMA, people


@pytest.fixture(scope="module")
def hundred(tmp_path_factory):
    """A hundred people, aged 0 to 99."""
    graph = omnigraph.init(tmp_path_factory.mktemp("hundred") / "g.omni", SCHEMA)
    graph.load(people(0, 100), "append")
    return graph


@pytest.fixture(params=["format", "to_spark", "view", "SQL view"])
def frame(session, hundred, request):
    """Return the hundred people as every kind of frame."""
    if request.param == "to_spark":
        return hundred.nodes("Person").to_spark(session)
    if request.param == "SQL view":
        session.sql("drop view if exists people")
        session.sql(
            "create temporary view people using omnigraph "
            f"options (path '{hundred.uri}', type 'Person')"
        )
        return session.table("people")
    loaded = session.read.format("omnigraph").option("type", "Person").load(hundred.uri)
    if request.param == "view":
        loaded.createOrReplaceTempView("people")
        return session.table("people")
    return loaded


def test_a_count_after_a_filtered_count_counts_everything(frame):
    counts = [frame.count(), frame.where("age >= 90").count(), frame.count()]
    assert counts == [100, 10, 100]


def test_a_condition_spark_does_not_push_down_is_evaluated_on_every_row(frame):
    assert frame.where("age >= 90").count() == 10
    assert frame.where("upper(k) like 'P1%'").count() == 11


def test_a_union_of_a_frame_and_its_older_half_has_both(frame):
    assert frame.union(frame.where("age >= 50")).count() == 150
    assert frame.where("age >= 50").union(frame).count() == 150
    assert frame.where("age < 10").union(frame.where("age >= 90")).count() == 20


def test_a_left_anti_join_with_itself_leaves_the_other_half(frame):
    older = frame.where("age >= 50").select("k")
    assert frame.join(older, "k", "left_anti").count() == 50
    assert older.join(frame.where("age < 50"), "k", "left_anti").count() == 50


def test_views_in_sql_do_not_see_the_filters_of_one_another(session, frame):
    frame.createOrReplaceTempView("everyone")
    frame.where("age >= 90").createOrReplaceTempView("eldest")
    texts = [
        "select count(*) from everyone",
        "select count(*) from eldest",
        "select count(*) from everyone where age < 5",
        "select count(*) from everyone",
        "select count(*) from everyone where k not in (select k from eldest)",
    ]
    counts = [session.sql(text).collect()[0][0] for text in texts]
    assert counts == [100, 10, 5, 100, 90]

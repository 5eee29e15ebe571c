"""A frame is pinned when it is loaded: later commits, views and re-made graphs do not move it."""

from __future__ import annotations

import shutil
from datetime import UTC, datetime, timedelta

import pytest

import omnigraph
from pipeline_source.frames_of_people import SCHEMA, people


@pytest.fixture
def growing(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    graph.load(people(0, 10), "append")
    return graph


def load(session, graph, **options: str):
    reader = session.read.format("omnigraph").option("type", "Person")
    for name, value in options.items():
        reader = reader.option(name, value)
    return reader.load(graph.uri)


def test_a_frame_is_pinned_when_it_is_loaded_not_when_it_is_first_used(session, growing):
    frame = load(session, growing)
    growing.load(people(10, 20), "append")
    counts = [frame.count(), frame.where("age >= 0").count(), frame.count()]
    assert counts == [10, 10, 10]
    assert load(session, growing).count() == 20


def test_a_filtered_query_does_not_move_a_frame_to_a_newer_commit(session, growing):
    frame = load(session, growing)
    assert frame.count() == 10
    growing.load(people(10, 20), "append")
    assert frame.where("age >= 0").count() == 10
    assert frame.union(frame.where("age >= 0")).count() == 20


def test_a_frame_with_a_given_schema_is_pinned_when_it_is_first_used(session, growing):
    reader = session.read.format("omnigraph").option("type", "Person")
    frame = reader.schema("k string, age int").load(growing.uri)
    growing.load(people(10, 20), "append")
    assert frame.count() == 20
    growing.load(people(20, 30), "append")
    assert [frame.count(), frame.where("age >= 0").count()] == [20, 20]


def test_a_view_is_unchanged_until_it_is_created_again(session, growing):
    statement = (
        "create or replace temporary view pinned_people using omnigraph "
        f"options (path '{growing.uri}', type 'Person')"
    )
    session.sql(statement)
    growing.load(people(10, 20), "append")

    def count() -> int:
        return session.sql("select count(*) from pinned_people").collect()[0][0]

    assert count() == 10
    session.catalog.refreshTable("pinned_people")
    assert count() == 10, "Spark does not load a view again when it is refreshed"
    session.sql(statement)
    assert count() == 20


def test_a_query_as_a_frame_is_pinned_too(session, growing):
    text = "query q() { match { $p: Person } return { $p.k } }"
    frame = session.read.format("omnigraph").option("query", text).load(growing.uri)
    growing.load(people(10, 20), "append")
    assert [frame.count(), frame.where("`p.k` >= 'p'").count()] == [10, 10]


def test_a_frame_of_a_graph_that_was_recreated_at_its_address_is_refused(session, growing):
    used, unused = load(session, growing), load(session, growing)
    assert used.count() == 10
    shutil.rmtree(growing.uri.removeprefix("file://"))
    again = omnigraph.init(growing.uri, SCHEMA)
    again.load(people(50, 53), "append")
    with pytest.raises(Exception, match="no table at"):
        used.count()
    with pytest.raises(Exception, match="CommitNotFound"):
        unused.count()
    assert load(session, again).count() == 3


def test_a_tables_worth_of_sql_is_refused_because_spark_forgets_its_options(session, growing):
    with pytest.raises(Exception, match="CREATE TEMPORARY VIEW"):
        session.sql(
            f"create table kept using omnigraph options (path '{growing.uri}', type 'Person')"
        )


def test_time_travel_goes_by_version_and_by_time(session, growing):
    first = growing.commits()[0]
    growing.load(people(10, 20), "append")
    second = growing.commits()[0]
    assert load(session, growing, versionAsOf=str(first.manifest_version)).count() == 10
    assert load(session, growing, versionAsOf=str(second.manifest_version)).count() == 20
    exactly = moment(second.created_at)
    just_before = exactly - timedelta(microseconds=1)
    assert load(session, growing, timestampAsOf=exactly.isoformat()).count() == 20
    assert load(session, growing, timestampAsOf=just_before.isoformat()).count() == 10
    with pytest.raises(Exception, match="no commit at or before"):
        load(session, growing, timestampAsOf="2001-01-01T00:00:00Z")
    with pytest.raises(Exception, match="manifest versions up to"):
        load(session, growing, versionAsOf="99")


def moment(microseconds: int) -> datetime:
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(microseconds=microseconds)


def test_a_condition_in_an_option_leaves_rows_unread_and_belongs_to_its_frame(session, growing):
    old = load(session, growing, where="age >= 7")
    everyone = load(session, growing)
    assert [old.count(), everyone.count(), old.where("age < 9").count(), old.count()] == [
        3,
        10,
        2,
        3,
    ]
    assert everyone.join(old, "k", "left_anti").count() == 7
    same = growing.nodes("Person").to_spark(session, columns=["k"], where="age >= 7")
    assert sorted(row.k for row in same.collect()) == ["p7", "p8", "p9"]

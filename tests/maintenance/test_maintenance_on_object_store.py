"""Maintenance of a graph in a bucket, where a lease excludes other writers."""

from __future__ import annotations

import random
import time
from contextlib import suppress
from dataclasses import replace

import pyarrow as pa
import pytest

import omnigraph
from crash.fault_points import parked
from maintenance.library_graph import (
    BOOK,
    READER,
    SCHEMA,
    book,
    by_key,
    entry,
    fragments,
    reader,
    rows_of,
    run,
    table,
    unindexed,
    write_a_little,
)
from omnigraph.errors import (
    ConflictError,
    HistoricalVersionReclaimed,
    OmniError,
    StorageFailure,
)
from omnigraph.graph.graph import Graph
from omnigraph.storage.graph_root import GraphRoot, read_clock_us
from omnigraph.storage.orphans import OrphanCandidates
from omnigraph.storage.staging_heartbeat import list_heartbeats
from omnigraph.storage.tables.fragments import write_uncommitted
from omnigraph.storage.tables.remove_versions import list_versions

pytestmark = pytest.mark.object_store


@pytest.fixture
def graph(s3_server):
    graph = omnigraph.init(s3_server.new_root(), SCHEMA, settings=s3_server.settings)
    graph.load([book("a", cover="base64:aGk="), book("b"), reader("ann")], "append")
    return graph


def later(graph, s3_server, minutes):
    """Return the graph opened after a while."""
    settings = replace(s3_server.settings, cleanup_grace_s=0)
    root = replace(
        GraphRoot.at(graph.uri, settings), now_us=lambda: read_clock_us() + minutes * 60_000_000
    )
    return Graph(root)


def versions(graph, key):
    one = entry(graph, key)
    return list_versions(graph._open.views.root.location(one.path, one.owner_branch))


def test_a_graph_in_a_bucket_is_optimized_cleaned_and_verified(graph, s3_server):
    graph.create_branch("dev")
    write_a_little(graph)
    write_a_little(graph, branch="dev", mark="d")
    before, dev = rows_of(graph), rows_of(graph, "dev")
    done = by_key(graph.optimize().tables)
    assert done[BOOK].fragments_removed == 5
    assert fragments(graph, BOOK) == [6]
    assert not any(unindexed(graph, BOOK).values())
    graph.optimize(branch="dev")
    old = graph.commits()[3].commit_id
    late = later(graph, s3_server, 10)
    removed = by_key(late.cleanup(keep=1, confirm=True).tables)
    assert removed[BOOK].old_versions_removed > 0
    assert removed["__manifest"].old_versions_removed > 0
    assert (rows_of(late), rows_of(late, "dev")) == (before, dev)
    with pytest.raises(HistoricalVersionReclaimed):
        late.at(commit=old)
    assert late.verify(deep=True).findings == ()
    run(late, 'update Book set {year: 3} where slug = "a"')


def test_files_that_a_suspended_writer_may_still_use_stay(graph):
    write_a_little(graph)
    before = versions(graph, READER)
    graph.cleanup(keep=1, confirm=True)
    assert versions(graph, READER) == before


@pytest.mark.parametrize("count", [1, 10**6], ids=["one", "all from one on"])
def test_a_cleanup_of_which_requests_are_refused_takes_nothing_that_is_needed(
    graph, s3_server, count
):
    seed = random.randrange(10**6)
    print(f"seed {seed}")
    chance = random.Random(seed)
    graph.create_branch("dev")
    for turn in range(3):
        write_a_little(graph, mark=f"m{turn}")
        write_a_little(graph, branch="dev", mark=f"d{turn}")
        before, dev = rows_of(graph), rows_of(graph, "dev")
        late = later(graph, s3_server, 10 * turn + 10)
        s3_server.refuse(chance.randrange(1, 200), count)
        try:
            with suppress(OmniError):
                late.cleanup(keep=1, confirm=True)
        finally:
            s3_server.refuse(0)
        again = later(graph, s3_server, 10 * turn + 10)
        assert (rows_of(again), rows_of(again, "dev")) == (before, dev)
        assert again.verify(deep=True, history=True).findings == ()
    done = later(graph, s3_server, 100).cleanup(keep=1, confirm=True)
    assert [row.error for row in done.tables if row.error] == []
    assert len(versions(graph, BOOK)) <= 2


def test_leftovers_in_a_bucket_are_removed(graph, s3_server):
    graph.create_branch("dev")
    write_a_little(graph, branch="dev")
    fork = entry(graph, BOOK, "dev")
    graph.delete_branch("dev")
    opened = table(graph, READER)
    stray = write_uncommitted(opened, opened.scan().slice(0, 1))[0].files[0].path
    first = later(graph, s3_server, 10).cleanup(keep=1, confirm=True)
    assert f"{fork.path}/tree/{fork.owner_branch}" in first.reclaimed
    second = later(graph, s3_server, 20).cleanup(keep=1, confirm=True)
    assert f"{entry(graph, READER).path}/data/{stray}" in second.reclaimed
    assert later(graph, s3_server, 30).verify(deep=True).findings == ()


def test_a_fork_that_a_cleanup_saw_in_the_making_is_written_once_it_is_shown(graph):
    """The list is saved at the end of a cleanup, and its writer may have published since."""
    graph.create_branch("dev")
    write_a_little(graph, branch="dev")
    fork = entry(graph, BOOK, "dev")
    listed = OrphanCandidates(graph._open.views.root.store, read_clock_us, 0.0)
    assert listed.due([f"{fork.path}/tree/{fork.owner_branch}"]) == []
    listed.save()
    graph.load([book("late")], "append", branch="dev")
    assert graph.verify(deep=True).findings == ()


def loading(graph, s3_server):
    """A bulk load that is parked when it has written rows."""
    slugs = [f"bulk{number}" for number in range(20)]
    rows = pa.table({"slug": slugs, "name": slugs})

    def work():
        loader = omnigraph.open(graph.uri, settings=s3_server.settings)
        return lambda: loader.load(rows, "append", type="Reader")

    return parked("after", "write_fragments", "*/nodes/*", work)


def heartbeat_of(graph):
    (heartbeat,) = list_heartbeats(graph._open.views.root.store)
    return heartbeat


def test_a_load_that_shows_signs_of_life_keeps_its_files(graph, s3_server, monkeypatch):
    monkeypatch.setattr("omnigraph.storage.staging_heartbeat.HEARTBEAT_INTERVAL_S", 0.05)
    with loading(graph, s3_server) as load:
        for minutes in (10, 20, 30):
            before = heartbeat_of(graph)
            later(graph, s3_server, minutes).cleanup(keep=1, confirm=True)
            while heartbeat_of(graph) == before:
                time.sleep(0.05)
        load.finish()
    assert len(rows_of(graph)) == 3 + 20
    assert list_heartbeats(graph._open.views.root.store) == []
    assert graph.verify(deep=True).findings == ()


def test_a_load_that_seemed_dead_is_refused(graph, s3_server):
    before = rows_of(graph)
    with loading(graph, s3_server) as load:
        for minutes in (10, 20, 30):
            later(graph, s3_server, minutes).cleanup(keep=1, confirm=True)
        assert list_heartbeats(graph._open.views.root.store) == []
        # Which of them is raised depends on the next step of the load.
        with pytest.raises((ConflictError, StorageFailure)):
            load.finish()
    assert rows_of(graph) == before
    assert graph.verify(deep=True).findings == ()

"""Writers that were declared dead and act again.

Where the fence is a lease, a writer may be suspended between its last check of the lease and its
effect. Another takes over, recovers the operation and continues; then the suspended writer resumes.
"""

from __future__ import annotations

import threading
from dataclasses import replace
from datetime import timedelta

import pytest

import omnigraph
from crash.crash_checks import check, check_order, content_of, drift, intents
from crash.crash_scenario import MORE_TYPES, SCHEMA, create, person, run
from crash.fault_points import (
    EDGES,
    INTENTS,
    MANIFEST,
    NODES,
    TABLES,
    At,
    Stopped,
    parked,
    stop,
    watched,
)
from crash.foreign_writers import append_raw
from omnigraph.errors import (
    ConflictError,
    ReadSetChanged,
    RecoveryRequired,
    UncoveredDrift,
)
from omnigraph.graph.graph import Graph
from omnigraph.settings import FenceMode
from omnigraph.storage.graph_root import GraphRoot, read_clock_us
from omnigraph.storage.manifest.manifest_reader import read_newest
from omnigraph.storage.objects.local_store import LocalObjectStore
from omnigraph.storage.refs import MAIN_REF
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.writer_fence import make_fence_lost
from store_places import init_graph, open_graph, settings_of

INSERT = 'insert Person {slug: "eve", name: "E"}'
PAIR = INSERT + ' insert Knows {from: "eve", to: "ada"}'
WITHOUT_CITIES = """
node Person { slug: String @key  name: String  age: I32?  tags: [String]? }
edge Knows: Person -> Person { since: I32? }
"""
UPDATE = "update Person set {age: 99} where age = 30"


class LostLease:
    """A guard that another writer has taken over: once lost, every check raises."""

    epoch, took_over = 1, False

    def __init__(self) -> None:
        self.is_lost = False

    def check(self) -> None:
        if self.is_lost:
            raise make_fence_lost(self.epoch, "epoch 2")

    def release(self) -> None: ...

    def __enter__(self):
        return self

    def __exit__(self, *_: object) -> None: ...


class LeaseInNameOnly:
    """A fence that excludes no writer, as a lease whose term has expired."""

    spans_processes = True

    def __init__(self, guard: LostLease) -> None:
        self._guard = guard

    def acquire(self, wait_s: float) -> LostLease:
        return self._guard


class SuspendedWriter:
    """A writer on a lease that will be lost."""

    def __init__(self, place) -> None:
        self.guard, self._place = LostLease(), place

    def opens(self, **settings):
        root = GraphRoot.at(str(self._place), replace(settings_of(self._place), **settings))
        root.__dict__["fence"] = LeaseInNameOnly(self.guard)
        return Graph(root, actor="suspended")

    def applies(self, schema):
        """Return the change of a schema that writes an intent for every effect."""

        def open_and_work():
            graph = self.opens(writer_fence=FenceMode.OFF)
            return lambda: graph.apply_schema(schema)

        return open_and_work

    def mutates(self, statements, branch="main"):
        def open_and_work():
            graph = self.opens()
            return lambda: run(graph, statements, branch)

        return open_and_work

    def resume(self, parked_thread):
        """Resume it: its effect happens, and then it learns that it lost its lease."""
        self.guard.is_lost = True
        return parked_thread.finish()


@pytest.fixture
def place(tmp_path):
    create(tmp_path / "town")
    return tmp_path / "town"


@pytest.fixture
def graph(place):
    return open_graph(place, actor="other")


@pytest.fixture
def suspended(place):
    return SuspendedWriter(place)


def drifted(place):
    root = GraphRoot.at(str(place))
    return sorted(drift(Snapshot(root, MAIN_REF, read_newest(root.manifest()))))


def kinds(graph, branch="main"):
    return [str(audit.kind) for audit in graph.recovery_list(branch)]


def leave_late_effect(place, suspended, statements, path, recoveries):
    """Leave a table version that arrives after recovery, and return the content before."""
    with parked("before", "commit", path, suspended.mutates(statements)) as paused:
        graph = open_graph(place, actor="other")
        assert kinds(graph) == recoveries
        before = content_of(graph)
        with pytest.raises(RecoveryRequired):
            suspended.resume(paused)
    assert content_of(graph) == before, "readers do not see what arrived late"
    return before


@pytest.mark.parametrize("statements", [INSERT, UPDATE, 'delete Person where slug = "cy"'])
def test_a_late_effect_is_undone_by_the_next_writer_which_then_succeeds(
    place, suspended, statements
):
    before = leave_late_effect(place, suspended, INSERT, NODES, ["Abandoned"])
    assert drifted(place) == ["node:Person"]
    graph = open_graph(place, actor="other")
    run(graph, statements)
    assert drifted(place) == []
    assert "RevokedEffect" in kinds(graph)
    assert content_of(graph) != before
    check_order(place, graph)


def quarantine_pending(place):
    (name,) = intents(place)
    omnigraph.quarantine(str(place), name.removesuffix(".json"), settings=settings_of(place))


def test_a_late_effect_of_a_write_that_was_set_aside_is_undone(place, graph, suspended):
    with parked("before", "commit", NODES, suspended.mutates(INSERT)) as paused:
        before = content_of(graph)
        quarantine_pending(place)
        assert (kinds(graph), intents(place)) == (["Abandoned"], [])
        with pytest.raises(RecoveryRequired):
            suspended.resume(paused)
    assert drifted(place) == ["node:Person"]
    assert content_of(graph) == before
    run(graph, UPDATE)
    assert "RevokedEffect" in kinds(graph)
    check_order(place, graph)


def test_a_late_publish_of_a_write_that_was_set_aside_fails(place, graph, suspended):
    with parked("before", "commit", MANIFEST, suspended.applies(MORE_TYPES)) as paused:
        before = content_of(graph)
        quarantine_pending(place)
        with pytest.raises(ReadSetChanged, match="writer_fence"):
            suspended.resume(paused)
    assert kinds(graph) == ["Abandoned"]
    assert check(place, {"without the suspended write": before})


def test_a_write_that_is_visible_already_is_set_aside_without_a_word(place, graph, suspended):
    with parked("before", "delete", INTENTS, suspended.mutates(PAIR)) as paused:
        after = content_of(graph)
        quarantine_pending(place)
        assert (kinds(graph), intents(place)) == ([], [])
        suspended.resume(paused)
    assert check(place, {"with the suspended write": after})


def test_a_write_to_a_deleted_branch_is_abandoned_silently(place, graph, suspended):
    graph.create_branch("dev")
    with parked("before", "put", INTENTS, suspended.mutates(INSERT, "dev")) as paused:
        graph.delete_branch("dev")
        before = content_of(graph)
        with pytest.raises(RecoveryRequired):
            suspended.resume(paused)
    quarantine_pending(place)
    assert (kinds(graph), intents(place)) == ([], [])
    assert check(place, {"without the suspended write": before})


def test_a_late_effect_on_one_table_does_not_stop_writers_of_others(place, suspended):
    leave_late_effect(place, suspended, INSERT, NODES, ["Abandoned"])
    graph = open_graph(place)
    run(graph, 'insert City {slug: "lima", name: "L"}')
    assert drifted(place) == ["node:Person"]


def test_a_late_effect_after_a_rollback_is_undone(place, suspended):
    """It had committed one of two tables, which was undone, and then commits the other."""
    before = leave_late_effect(place, suspended, PAIR, NODES, ["RolledBack"])
    assert drifted(place) == ["node:Person"]
    graph = open_graph(place)
    run(graph, PAIR)
    assert kinds(graph)[0] == "RolledBack"
    assert "RevokedEffect" in kinds(graph)
    assert len(content_of(graph)["main"]) == len(before["main"]) + 2
    check_order(place, graph)


def test_a_writer_that_had_moved_a_table_before_it_met_a_late_effect_succeeds(place, suspended):
    """The first of its tables is undone and moved again; its restore is not mistaken for drift."""
    leave_late_effect(place, suspended, INSERT, NODES, ["Abandoned"])
    graph = open_graph(place, actor="other")
    run(graph, PAIR)
    revoked = [audit for audit in graph.recovery_list() if str(audit.kind) == "RevokedEffect"]
    assert [t.table_key for audit in revoked for t in audit.tables] == ["node:Person"]
    assert "RolledBack" in kinds(graph)
    check_order(place, graph)


def test_late_effects_on_two_tables_are_undone_one_after_the_other(place):
    city = 'insert City {slug: "lima", name: "L"}'
    leave_late_effect(place, SuspendedWriter(place), city, NODES, ["Abandoned"])
    leave_late_effect(place, SuspendedWriter(place), INSERT, NODES, ["Abandoned"] * 2)
    assert drifted(place) == ["node:City", "node:Person"]
    graph = open_graph(place)
    run(graph, f"{city} {INSERT}")
    revoked = [audit for audit in graph.recovery_list() if str(audit.kind) == "RevokedEffect"]
    assert {t.table_key for audit in revoked for t in audit.tables} == {"node:City", "node:Person"}
    check_order(place, graph)


def test_two_late_effects_of_one_operation_are_both_revoked_and_reported(
    place, suspended, monkeypatch
):
    """Its tables are committed concurrently, so it may be suspended before both of them."""
    monkeypatch.setenv("OMNIGRAPH_WRITE_CONCURRENCY", "8")
    arrived, go, finished = threading.Semaphore(0), threading.Event(), []

    def pause():
        arrived.release()
        assert go.wait(600)

    def write(graph):
        with pytest.raises(RecoveryRequired):
            run(graph, PAIR)
        finished.append(True)

    with watched(At("before", "commit", TABLES, pause, times=2)):
        paused = threading.Thread(target=write, args=(suspended.opens(),), daemon=True)
        paused.start()
        for _ in range(2):
            assert arrived.acquire(timeout=600)
    graph = open_graph(place, actor="other")
    before = content_of(graph)
    suspended.guard.is_lost = True
    go.set()
    paused.join(600)
    assert finished
    assert (kinds(graph), drifted(place)) == (["Abandoned"], ["edge:Knows", "node:Person"])
    assert content_of(graph) == before
    run(graph, PAIR)
    (revoked,) = [audit for audit in graph.recovery_list() if str(audit.kind) == "RevokedEffect"]
    assert {table.table_key for table in revoked.tables} == {"edge:Knows", "node:Person"}
    assert len(content_of(graph)["main"]) == len(before["main"]) + 2
    check_order(place, graph)


def test_a_late_effect_after_the_branch_moved_on_conflicts(place, graph, suspended):
    with parked("before", "commit", NODES, suspended.mutates(INSERT)) as paused:
        run(graph, 'insert Person {slug: "fay", name: "F"}')
        before = content_of(graph)
        with pytest.raises(RecoveryRequired):
            suspended.resume(paused)
    assert content_of(graph) == before
    assert drifted(place) == []
    assert check(place, {"without the suspended write": before})


def test_a_late_intent_is_abandoned_by_the_next_writer(place, graph, suspended):
    with parked("before", "put", INTENTS, suspended.mutates(PAIR)) as paused:
        run(graph, 'insert Person {slug: "fay", name: "F"}')
        before = content_of(graph)
        with pytest.raises(RecoveryRequired):
            suspended.resume(paused)
    assert len(intents(place)) == 1
    assert check(place, {"without the suspended write": before})


def clean_up_days_later(place, days):
    root = GraphRoot.at(str(place), replace(settings_of(place), cleanup_grace_s=60.0))
    object.__setattr__(root, "now_us", lambda: read_clock_us() + days * 86_400_000_000)
    Graph(root).cleanup(keep=1, confirm=True)


@pytest.mark.parametrize(
    "cleanups",
    [
        pytest.param([-1], id="versions removed before"),
        pytest.param([1], id="versions removed after"),
        pytest.param([1, 2, 3], id="table removed"),
    ],
)
def test_a_late_intent_for_a_type_that_was_dropped_is_abandoned(place, graph, suspended, cleanups):
    city = 'insert City {{slug: "{}", name: "L"}}'
    with parked("before", "put", INTENTS, suspended.mutates(city.format("late"))) as paused:
        for slug in ("lima", "bern", "kyiv"):
            run(graph, city.format(slug))
        for days in (day for day in cleanups if day < 0):
            clean_up_days_later(place, -days)
        graph.apply_schema(WITHOUT_CITIES)
        for days in (day for day in cleanups if day > 0):
            clean_up_days_later(place, days)
        before = content_of(graph)
        with pytest.raises(RecoveryRequired):
            suspended.resume(paused)
    assert len(intents(place)) == 1
    graph = open_graph(place)
    assert kinds(graph) == ["Abandoned"]
    assert content_of(graph) == before
    run(graph, PAIR)
    check_order(place, graph, is_cleaned=True)


def test_a_late_publish_fails_and_its_write_is_visible_once(place, graph, suspended):
    """The process that took over completed the write, so its writer may report success."""
    with parked("before", "commit", MANIFEST, suspended.mutates(PAIR)) as paused:
        graph.recover()
        assert kinds(graph) == ["RolledForward"]
        after = content_of(graph)
        suspended.resume(paused)
    assert check(place, {"with the suspended write": after})


def test_a_late_publish_after_others_went_on_is_no_second_commit(place, graph, suspended):
    with parked("before", "commit", MANIFEST, suspended.mutates(PAIR)) as paused:
        run(graph, 'insert Person {slug: "fay", name: "F"}')
        after = content_of(graph)
        suspended.resume(paused)
    assert check(place, {"both writes": after})


def test_a_late_publish_without_a_conflict_is_a_whole_commit(place, graph, suspended):
    with parked("before", "commit", MANIFEST, suspended.mutates(PAIR)) as paused:
        before = content_of(graph)
        suspended.resume(paused)
    after = content_of(graph)
    assert len(after["main"]) == len(before["main"]) + 2
    assert check(place, {"with the suspended write": after})


def test_a_late_publish_of_what_is_being_given_up_is_a_whole_commit(place, graph, suspended):
    """Another writer finds no effect of it, and it comes right before that is recorded."""
    with (
        parked("before", "commit", MANIFEST, suspended.applies(MORE_TYPES)) as paused,
        watched(At("before", "commit", MANIFEST, lambda: suspended.resume(paused))),
    ):
        open_graph(place)
    assert kinds(graph) == []
    assert graph.verify(deep=True, history=True).findings == ()
    assert graph.schema == MORE_TYPES
    assert check(place, {"with another schema": content_of(graph)})


def test_a_late_publish_of_what_was_given_up_says_that_the_fence_was_lost(place, graph, suspended):
    """There is nothing to recover: the holder of the fence has recovered it."""
    with parked("before", "commit", MANIFEST, suspended.applies(MORE_TYPES)) as paused:
        open_graph(place)
        assert kinds(graph) == ["Abandoned"]
        before = content_of(graph)
        with pytest.raises(ReadSetChanged, match="writer_fence"):
            suspended.resume(paused)
    assert graph.schema == SCHEMA
    assert check(place, {"without the schema": before})


def test_a_late_record_of_a_consumer_replaces_no_other(place, graph, suspended, monkeypatch):
    late, find = suspended.opens(), LocalObjectStore.find_versioned

    def find_late(store, path):
        if "consumers" in path and not suspended.guard.is_lost:
            suspended.guard.is_lost = True
            graph.set_consumer("reader", lasts=timedelta(days=30))
        return find(store, path)

    monkeypatch.setattr(LocalObjectStore, "find_versioned", find_late)
    with pytest.raises(ReadSetChanged, match="writer_fence"):
        late.set_consumer("reader", lasts=timedelta(seconds=1))
    (consumer,) = graph.consumers()
    assert consumer.expires_at - consumer.updated_at == timedelta(days=30) / timedelta(
        microseconds=1
    )


def test_a_late_removal_of_an_intent_affects_no_writer(place, graph, suspended):
    with parked("before", "delete", INTENTS, suspended.mutates(PAIR)) as paused:
        run(graph, 'insert Person {slug: "fay", name: "F"}')
        after = content_of(graph)
        suspended.resume(paused)
    assert check(place, {"both writes": after})


def test_a_late_publish_of_a_recovery_is_no_second_commit(place, suspended):
    """The recovering writer is suspended: another finishes the write and continues."""
    with watched(At("before", "commit", MANIFEST, stop)), pytest.raises(Stopped):
        run(open_graph(place), PAIR)
    with parked("before", "commit", MANIFEST, lambda: suspended.opens) as paused:
        graph = open_graph(place)
        run(graph, INSERT.replace("eve", "fay"))
        after = content_of(graph)
        with pytest.raises(ConflictError):
            suspended.resume(paused)
    assert kinds(graph) == ["RolledForward"]
    assert check(place, {"finished once": after})


def test_a_late_restore_of_a_recovery_is_undone(place, suspended):
    """The recovering writer is suspended: another recovers, then its restore arrives."""
    with watched(At("after", "commit", EDGES, stop)), pytest.raises(Stopped):
        run(open_graph(place), PAIR)
    before = content_of(open_graph(place, read_only=True))
    with parked("before", "restore", EDGES, lambda: suspended.opens) as paused:
        graph = open_graph(place)
        assert kinds(graph) == ["RolledBack"]
        with pytest.raises(ReadSetChanged, match="writer_fence"):
            suspended.resume(paused)
    assert drifted(place) == ["edge:Knows"]
    run(graph, PAIR)
    assert kinds(graph)[-1] == "RevokedEffect"
    assert len(content_of(graph)["main"]) == len(before["main"]) + 2
    check_order(place, graph)


def leave_late_restore_on_top(place, suspended):
    """The recovering writer is suspended, another recovers, and a third dies in a write to the same
    table; then the restore arrives. Return the content of the graph.
    """
    with watched(At("after", "commit", EDGES, stop)), pytest.raises(Stopped):
        run(open_graph(place), PAIR)
    with parked("before", "restore", EDGES, lambda: suspended.opens) as paused:
        graph = open_graph(place)
        assert kinds(graph) == ["RolledBack"]
        before = content_of(graph)
        with watched(At("before", "commit", MANIFEST, stop)), pytest.raises(Stopped):
            run(open_graph(place), 'insert Knows {from: "ada", to: "cy"}')
        with pytest.raises(ReadSetChanged, match="writer_fence"):
            suspended.resume(paused)
    return before


def test_a_late_restore_on_top_of_an_interrupted_write_is_undone_together_with_it(place, suspended):
    before = leave_late_restore_on_top(place, suspended)
    (pending,) = open_graph(place, read_only=True).recovery_pending()
    assert pending.decision == "roll_back"
    assert check(place, {"without both": before})
    assert kinds(open_graph(place)) == ["RolledBack"] * 2


@pytest.mark.parametrize("moment", ["before", "after"])
def test_undoing_a_late_restore_with_a_write_may_itself_be_stopped(place, suspended, moment):
    before = leave_late_restore_on_top(place, suspended)
    with watched(At(moment, "restore", EDGES, stop)), pytest.raises(Stopped):
        open_graph(place)
    assert check(place, {"without both": before})


def test_a_foreign_version_on_top_of_both_is_never_undone(place, suspended):
    before = leave_late_restore_on_top(place, suspended)
    graph = open_graph(place, read_only=True)
    append_raw(place, graph, "edge:Knows")
    with pytest.raises(RecoveryRequired, match="buried"):
        open_graph(place)
    assert drifted(place) == ["edge:Knows"]
    assert content_of(graph) == before


@pytest.fixture
def indexed(tmp_path):
    """A graph whose optimization compacts a table and then makes an index of it."""
    place = tmp_path / "indexed"
    graph = init_graph(place, "node Person { slug: String @key  name: String?  age: I32? @index }")
    for batch in range(3):
        graph.load([person(f"p{batch}-{n}", n) for n in range(50)], "append")
    return place


def optimizes_late(suspended):
    """Suspend an optimize right before it commits an index, on whatever version is newest."""
    return parked("before", "commit", NODES, lambda: suspended.opens().optimize, nth=2)


def test_a_late_index_on_top_of_an_interrupted_write_is_undone_together_with_it(indexed):
    suspended = SuspendedWriter(indexed)
    with optimizes_late(suspended) as paused:
        graph = open_graph(indexed)
        assert kinds(graph) == ["Abandoned"]
        before = content_of(graph)
        with watched(At("before", "commit", MANIFEST, stop)), pytest.raises(Stopped):
            run(open_graph(indexed), INSERT)
        with pytest.raises(RecoveryRequired):
            suspended.resume(paused)
    graph = open_graph(indexed)
    assert kinds(graph) == ["Abandoned", "RolledBack"]
    assert content_of(graph) == before
    run(graph, INSERT)
    check_order(indexed, graph)


def test_a_late_index_right_before_the_commit_of_a_writer_is_undone_and_the_writer_succeeds(
    indexed,
):
    suspended = SuspendedWriter(indexed)

    def arrive():
        with pytest.raises(RecoveryRequired):
            suspended.resume(paused)

    with optimizes_late(suspended) as paused, watched(At("before", "commit", NODES, arrive)):
        graph = open_graph(indexed)
        before = content_of(graph)
        run(graph, INSERT)
    assert kinds(graph) == ["Abandoned", "RolledBack"]
    assert len(content_of(graph)["main"]) == len(before["main"]) + 1
    check_order(indexed, graph)


def test_a_late_effect_on_a_fork_that_was_removed_is_never_visible(place, graph, suspended):
    graph.create_branch("dev")
    fault_point = ("before", "commit", NODES)
    with parked(*fault_point, suspended.mutates(INSERT, "dev")) as paused:
        open_graph(place)
        before = content_of(graph)
        with pytest.raises(RecoveryRequired):
            suspended.resume(paused)
    assert kinds(graph, "dev") == ["Abandoned"]
    assert check(place, {"without the suspended write": before})


def test_a_late_effect_on_a_branch_is_undone_on_that_branch(place, graph, suspended):
    graph.create_branch("dev")
    run(graph, INSERT.replace("eve", "fay"), "dev")
    fault_point = ("before", "commit", NODES)
    with parked(*fault_point, suspended.mutates(INSERT, "dev")) as paused:
        open_graph(place)
        with pytest.raises(RecoveryRequired):
            suspended.resume(paused)
    main = content_of(graph)["main"]
    run(graph, INSERT.replace("eve", "gus"), "dev")
    assert "RevokedEffect" in kinds(graph, "dev")
    assert kinds(graph) == []
    assert content_of(graph)["main"] == main
    check_order(place, graph)


@pytest.mark.parametrize("moment", ["before", "after"])
def test_undoing_a_late_effect_may_itself_be_stopped(place, suspended, moment):
    leave_late_effect(place, suspended, INSERT, NODES, ["Abandoned"])
    with watched(At(moment, "restore", NODES, stop)), pytest.raises(Stopped):
        run(open_graph(place), UPDATE)
    graph = open_graph(place)
    run(graph, UPDATE)
    assert "RevokedEffect" in kinds(graph)
    check_order(place, graph)


def test_a_foreign_version_is_never_undone(place, graph):
    before = content_of(graph)
    append_raw(place, graph, "node:Person")
    for statements in (INSERT, UPDATE):
        with pytest.raises(UncoveredDrift, match="omnigraph repair"):
            run(graph, statements)
    assert drifted(place) == ["node:Person"]
    assert content_of(graph) == before
    assert "RevokedEffect" not in kinds(graph)
    assert content_of(open_graph(place)) == before
    run(graph, 'insert City {slug: "lima", name: "L"}')


def test_a_late_effect_with_a_foreign_version_on_top_is_left_alone(place, suspended):
    before = leave_late_effect(place, suspended, INSERT, NODES, ["Abandoned"])
    graph = open_graph(place)
    append_raw(place, graph, "node:Person")
    with pytest.raises(UncoveredDrift):
        run(graph, UPDATE)
    assert "RevokedEffect" not in kinds(graph)
    assert drifted(place) == ["node:Person"]
    assert content_of(graph) == before

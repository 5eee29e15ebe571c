"""Writes interleaved with others at chosen moments."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from crash.crash_checks import check, check_order, content_of
from crash.crash_scenario import create, person, run
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
    BranchNotFound,
    ConstraintViolated,
    KeyConflict,
    OmniError,
    PreconditionFailed,
    ReadSetChanged,
    RecoveryRequired,
    UncoveredDrift,
)
from omnigraph.graph.graph import Graph
from omnigraph.storage.graph_root import GraphRoot, read_clock_us
from store_places import open_graph

STAGED = ("after", "write_fragments", TABLES)
"""Rows are written to files, and the fence is not held yet."""
MARKED = ("after", "write_deletions", TABLES)
ANNOUNCED = ("after", "put", INTENTS)
"""The fence is held, and nothing has moved yet."""


@pytest.fixture
def place(tmp_path):
    create(tmp_path / "town")
    return tmp_path / "town"


@pytest.fixture
def graph(place):
    return open_graph(place, actor="other")


def mutation(place, statements, branch="main", **given):
    """A graph of its own, and the mutation to run on it."""

    def open_and_work():
        graph = open_graph(place, actor="parked")
        query = f"query q() {{ {statements} }}"
        return lambda: graph.mutate(query, branch=branch, **given)

    return open_and_work


def load(place, records, mode, branch="main"):
    def open_and_work():
        graph = open_graph(place, actor="parked")
        return lambda: graph.load(records, mode, branch=branch)

    return open_and_work


def people(graph, branch="main"):
    return {r["data"]["slug"]: r["data"]["age"] for r in graph.export(["Person"], branch=branch)}


def test_an_insert_that_lost_the_race_is_checked_against_what_won(place, graph):
    home = 'insert LivesIn {from: "cy", to: "oslo"}'
    with parked(*STAGED, mutation(place, home)) as late:
        run(graph, home)
        with pytest.raises(ConstraintViolated, match="@card"):
            late.finish()
    check_order(place, graph)


def test_an_append_that_lost_the_race_for_an_id_is_a_key_conflict(place, graph):
    with parked(*STAGED, load(place, [person("eve", 1)], "append")) as late:
        run(graph, 'insert Person {slug: "eve", name: "E", age: 2}')
        with pytest.raises(KeyConflict, match="eve"):
            late.finish()
    assert people(graph)["eve"] == 2
    check_order(place, graph)


def test_an_append_of_other_ids_is_prepared_again_and_succeeds(place, graph):
    with parked(*STAGED, load(place, [person("eve")], "append")) as late:
        run(graph, 'insert Person {slug: "fay", name: "F"}')
        late.finish()
    assert {"eve", "fay"} <= people(graph).keys()
    check_order(place, graph)


def test_a_merge_that_lost_the_race_is_prepared_again_and_wins_late(place, graph):
    with parked(*STAGED, load(place, [person("ada", 77)], "merge")) as late:
        run(graph, 'update Person set {age: 55} where slug = "ada"')
        late.finish()
    assert people(graph)["ada"] == 77
    check_order(place, graph)


@pytest.mark.parametrize(
    ("fault_point", "statements"),
    [
        (STAGED, 'update Person set {age: 1} where slug = "ada"'),
        (MARKED, 'delete Person where slug = "ada"'),
    ],
    ids=["update", "delete"],
)
def test_a_change_of_rows_that_moved_concurrently_is_run_again(
    place, graph, fault_point, statements
):
    with parked(*fault_point, mutation(place, statements)) as late:
        run(graph, 'insert Person {slug: "eve", name: "E"}')
        late.finish()
    found = people(graph)
    assert "eve" in found
    assert found.get("ada") == (1 if fault_point == STAGED else None)
    check_order(place, graph)


def test_an_overwrite_of_rows_that_moved_concurrently_is_refused_and_leaves_nothing(place, graph):
    people_alone = [person(slug) for slug in ("ada", "ben", "cy", "dee")]
    with parked(*STAGED, load(place, people_alone, "overwrite")) as late:
        run(graph, 'insert Person {slug: "eve", name: "E"}')
        before = content_of(graph)
        with pytest.raises(ReadSetChanged):
            late.finish()
    assert check(place, {"untouched": before})


def test_a_conditional_write_whose_head_moved_after_it_was_staged_is_refused(place, graph):
    head = graph.snapshot().graph_commit_id
    change = mutation(place, "update Person set {age: 1} where age = 30", expected_head=head)
    with parked(*STAGED, change) as late:
        run(graph, 'insert City {slug: "lima", name: "L"}')
        before = content_of(graph)
        with pytest.raises(PreconditionFailed) as refused:
            late.finish()
    assert refused.value.expected == head
    assert check(place, {"untouched": before})


def test_a_second_writer_waits_until_the_first_has_published(place, graph):
    insert = 'insert Person {slug: "eve", name: "E", age: 1}'
    with parked(*ANNOUNCED, mutation(place, insert)) as first:
        update = 'update Person set {age: 2} where slug = "eve"'
        second = threading.Thread(target=run, args=(graph, insert.replace("eve", "fay")))
        second.start()
        second.join(0.3)
        assert second.is_alive(), "the second writer must wait for the first"
        assert content_of(graph).keys() == {"main"}, "readers wait for no writer"
        first.finish()
        second.join(600)
        run(graph, update)
    assert people(graph)["eve"] == 2
    assert "fay" in people(graph)
    check_order(place, graph)


def test_of_two_first_writes_on_a_branch_the_late_one_is_prepared_again(place, graph):
    graph.create_branch("dev")
    eve = mutation(place, 'insert Person {slug: "eve", name: "E"}', "dev")
    with parked("after", "create_branch", NODES, eve) as late:
        run(graph, 'insert Person {slug: "fay", name: "F"}', "dev")
        late.finish()
    assert {"eve", "fay"} <= people(graph, "dev").keys()
    assert "eve" not in people(graph)
    trees = [tree for path in (place / "nodes").iterdir() for tree in path.glob("tree/*")]
    assert len(trees) == 1, "the fork of the lost attempt was not removed"
    check_order(place, graph)


def test_a_write_on_a_branch_deleted_concurrently_changes_nothing(place, graph):
    graph.create_branch("dev")
    before = content_of(graph)
    with parked(*STAGED, mutation(place, 'insert City {slug: "x", name: "X"}', "dev")) as late:
        graph.delete_branch("dev")
        with pytest.raises(BranchNotFound):
            late.finish()
    del before["dev"]
    assert check(place, {"without the branch": before})


def test_a_write_prepared_on_an_earlier_branch_of_a_name_does_not_reach_the_new_one(place, graph):
    graph.create_branch("dev")
    update = mutation(place, "update Person set {age: 1} where age = 30", "dev")
    with parked(*STAGED, update) as late:
        graph.delete_branch("dev")
        graph.create_branch("dev")
        before = content_of(graph)
        with pytest.raises(ReadSetChanged, match="branch_identifier:dev"):
            late.finish()
    assert check(place, {"the new branch": before})


def test_a_branch_created_while_its_source_is_written_shows_one_side_of_the_write(place, graph):
    before = content_of(graph)["main"]
    insert = mutation(place, 'insert Person {slug: "eve", name: "E"}')
    with parked(*ANNOUNCED, insert) as first:
        made = threading.Thread(target=graph.create_branch, args=("dev",))
        made.start()
        made.join(0.3)
        assert made.is_alive(), "creating a branch must wait for the writer"
        first.finish()
        made.join(600)
    assert content_of(graph)["dev"] == before, "the branch starts at what its creator saw"
    check_order(place, graph)


def test_a_branch_is_deleted_only_after_the_write_under_way(place, graph):
    graph.create_branch("dev")
    before = content_of(graph)["main"]
    with parked(*ANNOUNCED, mutation(place, 'insert City {slug: "x", name: "X"}', "dev")) as first:
        deleted = threading.Thread(target=graph.delete_branch, args=("dev",))
        deleted.start()
        deleted.join(0.3)
        assert deleted.is_alive(), "deleting a branch must wait for its writer"
        first.finish()
        deleted.join(600)
    assert content_of(graph) == {"main": before}
    assert graph.recovery_list() == (), "the write was finished, not discarded"
    check_order(place, graph)


WORK_ON_A_BRANCH = {
    "mutate": lambda graph: run(graph, 'insert City {slug: "x", name: "X"}', "dev"),
    "load": lambda graph: graph.load([person("eve")], "append", branch="dev"),
    "optimize": lambda graph: graph.optimize(branch="dev"),
    "ensure_indices": lambda graph: graph.ensure_indices(branch="dev"),
}


@pytest.mark.parametrize("verb", WORK_ON_A_BRANCH)
def test_work_on_a_branch_that_is_being_deleted_waits_and_finds_it_deleted(place, graph, verb):
    graph.create_branch("dev")
    run(graph, 'insert Person {slug: "fay", name: "F"}', "dev")
    before, refused = content_of(graph)["main"], []

    def work():
        try:
            WORK_ON_A_BRANCH[verb](graph)
        except OmniError as error:
            refused.append(error)

    def deletion():
        deleter = open_graph(place)
        return lambda: deleter.delete_branch("dev")

    with parked("before", "delete", "_refs/branches/*", deletion) as deleting:
        waiting = threading.Thread(target=work)
        waiting.start()
        waiting.join(0.3)
        assert waiting.is_alive(), "it must wait until the deletion is over"
        deleting.finish()
        waiting.join(600)
    assert [type(error) for error in refused] == [BranchNotFound]
    assert content_of(graph) == {"main": before}
    check_order(place, graph)


def test_a_table_with_a_foreign_version_undoes_the_tables_committed_before_it(place, graph):
    """The second of two tables is found ahead of the graph: the first is brought back."""
    pair = 'insert Person {slug: "eve", name: "E"} insert Knows {from: "eve", to: "ada"}'
    before = content_of(graph)
    with parked("after", "commit", EDGES, mutation(place, pair)) as late:
        append_raw(place, graph, "node:Person")
        with pytest.raises(UncoveredDrift, match="node:Person"):
            late.finish()
    assert content_of(graph) == before
    assert [str(audit.kind) for audit in graph.recovery_list()] == ["RolledBack"]
    run(graph, 'insert Knows {from: "cy", to: "ada"}')


def test_a_write_above_a_foreign_version_is_neither_finished_nor_undone(place, graph):
    """Lance rebases ours over a bare append: undoing ours would take the other with it."""
    before = content_of(graph)
    eve = mutation(place, 'insert Person {slug: "eve", name: "E"}')
    with parked("before", "commit", NODES, eve) as late:
        append_raw(place, graph, "node:Person")
        with pytest.raises(RecoveryRequired, match="buried"):
            late.finish()
    assert content_of(open_graph(place, read_only=True)) == before
    (left,) = graph.recovery_pending()
    assert (left.decision, left.tables) == ("refuse", {"node:Person": "buried"})
    with pytest.raises(RecoveryRequired):
        open_graph(place)


def test_a_conditional_write_of_nothing_whose_head_moved_is_refused(place, graph):
    """It found nothing to change, while the head moved."""
    head = graph.snapshot().graph_commit_id

    def now_us():
        if graph.snapshot().graph_commit_id == head:
            run(graph, 'insert City {slug: "lima", name: "L"}')
        return read_clock_us()

    late = Graph(replace(GraphRoot.at(str(place)), now_us=now_us))
    nothing = "query q() { update Person set {age: 1} where age = 999 }"
    with pytest.raises(PreconditionFailed):
        late.mutate(nothing, expected_head=head)
    assert late.mutate(nothing, expected_head=graph.snapshot().graph_commit_id).commit is None
    check_order(place, graph)


DIED = {
    "finished": ("before", "commit", MANIFEST, True),
    "undone": ("after", "commit", EDGES, False),
}


@pytest.mark.parametrize("end", DIED)
def test_an_insert_prepared_while_another_writer_died_recovers_it_and_continues(place, graph, end):
    moment, action, path, is_done = DIED[end]
    with parked(*STAGED, mutation(place, 'insert Person {slug: "fay", name: "F"}')) as late:
        die(place, moment, action, path)
        late.finish()
    assert ("eve" in people(graph)) is is_done
    assert "fay" in people(graph)
    check_order(place, graph)


@pytest.mark.parametrize("end", DIED)
def test_a_change_prepared_while_another_writer_died_recovers_it_and_is_run_again(
    place, graph, end
):
    moment, action, path, is_done = DIED[end]
    change = mutation(place, 'update Person set {age: 1} where slug = "ada"')
    with parked(*STAGED, change) as late:
        die(place, moment, action, path)
        late.finish()
    assert ("eve" in people(graph)) is is_done
    assert people(graph)["ada"] == 1
    check_order(place, graph)


def die(place, moment, action, path):
    """Let a writer of two tables end in the middle."""
    with watched(At(moment, action, path, stop)):
        victim = open_graph(place, actor="victim")
        with pytest.raises(Stopped):
            run(
                victim,
                'insert Person {slug: "eve", name: "E"} insert Knows {from: "eve", to: "ada"}',
            )

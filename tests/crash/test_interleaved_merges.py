"""Merges, reverts and restores interleaved with writers, faults and crashes at chosen moments."""

from __future__ import annotations

from contextlib import suppress

import pytest

from crash.crash_checks import check, check_order, content_of
from crash.crash_scenario import MORE, create, knows, person, run
from crash.fault_points import (
    EDGES,
    INTENTS,
    MANIFEST,
    TABLES,
    At,
    Stopped,
    fail,
    parked,
    stop,
    watched,
)
from crash.foreign_writers import append_raw, replace_fork, table_place
from omnigraph.errors import (
    BranchNotFound,
    MergeBaseUnavailable,
    MergeConflicts,
    OmniError,
    PreconditionFailed,
    ReadSetChanged,
    RecoveryRequired,
    StorageFailure,
    StorageKind,
    UncoveredDrift,
)
from omnigraph.storage.tables.table import find_latest_version
from store_places import open_graph

STAGED = ("after", "write_fragments", TABLES)
"""Rows are written to files, and the fence is not held yet."""
FRIENDS = [knows("vic", "ada")]


@pytest.fixture
def place(tmp_path):
    """A branch and main, each with changes of its own to several tables, and tags on them."""
    graph = create(tmp_path / "town")
    graph.tag("loaded")
    graph.create_branch("dev")
    graph.load(MORE, "append", branch="dev")
    graph.tag("more", "branch:dev")
    run(graph, 'delete Person where slug = "ben"', "dev")
    run(graph, 'delete Person where slug = "dee"')
    graph.tag("mistake")
    graph.load([person("zed")], "append")
    return tmp_path / "town"


@pytest.fixture
def graph(place):
    return open_graph(place, actor="other")


VERBS = {
    "merge": lambda g, **given: g.merge("dev", **given),
    "revert": lambda g, **given: g.revert("mistake", **given),
    "cherry_pick": lambda g, **given: g.cherry_pick("more", **given),
    "restore": lambda g, **given: g.restore("loaded", **given),
}
EACH = pytest.mark.parametrize("verb", VERBS)


def working(place, verb, **given):
    def open_and_work():
        graph = open_graph(place, actor="parked")
        return lambda: VERBS[verb](graph, **given)

    return open_and_work


def people(graph, branch="main"):
    return {r["data"]["slug"]: r["data"]["age"] for r in graph.export(["Person"], branch=branch)}


# --- other writers --------------------------------------------------------------------------------


@EACH
def test_a_branch_that_moved_concurrently_is_planned_on_again(place, graph, verb):
    with parked(*STAGED, working(place, verb)) as late:
        run(graph, 'insert City {slug: "bonn", name: "B"}')
        late.finish()
    found = {r["data"]["slug"] for r in graph.export(["City"])}
    assert ("bonn" in found) is (verb != "restore"), "a restore takes what came since along"
    check_order(place, graph)


@EACH
def test_a_merge_with_an_expected_head_is_refused_when_it_moved(place, graph, verb):
    head = graph.commits()[0].commit_id
    with parked(*STAGED, working(place, verb, expected_head=head)) as late:
        run(graph, 'insert City {slug: "bonn", name: "B"}')
        before = content_of(graph)
        with pytest.raises(PreconditionFailed):
            late.finish()
    assert check(place, {"untouched": before})


def test_a_change_that_contradicts_a_merge_under_way_is_a_conflict(place, graph):
    with parked(*STAGED, working(place, "merge")) as late:
        run(graph, 'update Person set {age: 41} where slug = "ben"')
        before = content_of(graph)
        with pytest.raises(MergeConflicts):
            late.finish()
    assert check(place, {"untouched": before})


def test_a_source_that_moved_on_is_merged_as_it_was_seen(place, graph):
    with parked(*STAGED, working(place, "merge")) as late:
        graph.load([person("gil")], "append", branch="dev")
        done = late.finish()
    assert done.commit.merged_parent_commit_id == graph.commits("dev")[1].commit_id
    assert ("eve" in people(graph), "gil" in people(graph)) == (True, False)
    assert graph.merge("dev").outcome == "merged"
    assert "gil" in people(graph)
    check_order(place, graph)


@pytest.mark.parametrize(
    ("is_made_again", "error"), [(False, BranchNotFound), (True, ReadSetChanged)]
)
@pytest.mark.parametrize("gone", ["dev", "other"])
def test_a_branch_deleted_concurrently_ends_the_merge(place, graph, gone, is_made_again, error):
    graph.delete_tag("more")
    graph.create_branch("other")
    graph.load([person("otto")], "append", branch="other")
    work = working(place, "merge", into="other")
    with parked(*STAGED, work) as late:
        graph.delete_branch(gone)
        if is_made_again:
            graph.create_branch(gone)
        before = content_of(graph)
        with pytest.raises(error):
            late.finish()
    assert check(place, {"untouched": before})


@EACH
def test_a_table_with_a_foreign_version_is_not_written(place, graph, verb):
    with parked(*STAGED, working(place, verb)) as late:
        append_raw(place, graph, "node:Person")
        before = content_of(graph)
        with pytest.raises(UncoveredDrift, match="node:Person"):
            late.finish()
    assert content_of(open_graph(place, read_only=True)) == before


@EACH
def test_a_foreign_append_after_ours_is_not_published_as_ours(place, graph, verb):
    persons = f"{table_place(place, graph, 'node:Person')}*"
    expected = len(people(graph)) + {"merge": 1, "revert": 1, "cherry_pick": 2, "restore": 0}[verb]
    with parked("after", "commit", persons, working(place, verb)) as late:
        append_raw(place, graph, "node:Person")
        assert late.finish().commit is not None
    assert sum(1 for _ in graph.export(["Person"])) == expected
    with pytest.raises(UncoveredDrift, match="node:Person"):
        run(graph, 'update Person set {age: 1} where slug = "ada"')


@EACH
def test_a_write_that_died_before_a_foreign_append_is_left_to_the_operator(place, graph, verb):
    """Finishing it would show a version that is not the newest, undoing it would take both."""
    persons = f"{table_place(place, graph, 'node:Person')}*"
    before = content_of(graph)
    with watched(At("after", "commit", persons, stop)):
        victim = open_graph(place, actor="victim")
        with pytest.raises(Stopped):
            VERBS[verb](victim)
    append_raw(place, graph, "node:Person")
    assert content_of(open_graph(place, read_only=True)) == before
    with pytest.raises(RecoveryRequired):
        open_graph(place)
    (left,) = graph.recovery_pending()
    assert left.decision == "refuse"


@pytest.mark.parametrize(("branch", "key"), [("dev", "node:City"), ("other", "node:Person")])
def test_a_fork_replaced_by_a_foreign_writer_is_neither_shown_nor_written(
    place, graph, branch, key
):
    """A version of the source would be adopted by the target, one of the target overwritten."""
    graph.create_branch("other")
    graph.load([person("otto")], "append", branch="other")
    with parked(*STAGED, working(place, "merge", into="other")) as late:
        replace_fork(place, graph, key, branch)
        with pytest.raises(OmniError):
            late.finish()
    assert graph.recovery_pending() == []
    assert graph.commits("other")[0].merged_parent_commit_id is None


@EACH
@pytest.mark.parametrize("is_finished", [True, False])
def test_a_writer_that_died_concurrently_is_recovered_before_it_continues(
    place, graph, verb, is_finished
):
    fault_point = ("before", "commit", MANIFEST) if is_finished else ("after", "commit", EDGES)
    with parked(*STAGED, working(place, verb)) as late:
        with watched(At(*fault_point, stop)):
            victim = open_graph(place, actor="victim")
            with pytest.raises(Stopped):
                victim.load([person("vic"), *FRIENDS], "append")
        done = late.finish()
    assert done.commit is not None
    kept = is_finished and verb != "restore"
    assert ("vic" in people(graph)) is kept, "a restore takes what came since along"
    check_order(place, graph)


@EACH
def test_cleanup_beside_it_takes_nothing_that_it_needs(place, graph, verb):
    with parked(*STAGED, working(place, verb)) as late:
        for number in range(3):
            run(graph, f'insert City {{slug: "c{number}", name: "C"}}')
        graph.cleanup(keep=1, confirm=True)
        with suppress(MergeBaseUnavailable):  # what it was to undo is gone
            late.finish()
    assert open_graph(place).verify(deep=True).is_sound


# --- faults and death -----------------------------------------------------------------------------


@EACH
def test_an_intent_that_cannot_be_written_changes_nothing(place, graph, verb):
    before = content_of(graph)
    failure = StorageFailure(StorageKind.PERMANENT, "the disk says no")
    with watched(At("before", "put", INTENTS, fail(failure))):
        unlucky = open_graph(place)
        with pytest.raises(StorageFailure, match="the disk says no"):
            VERBS[verb](unlucky)
    assert check(place, {"untouched": before})
    VERBS[verb](open_graph(place))
    assert content_of(graph) != before


@EACH
def test_a_write_that_died_after_its_table_commits_is_finished_with_all_its_metadata(
    place, graph, verb
):
    head = graph.commits()[0].commit_id
    with watched(At("before", "commit", MANIFEST, stop)):
        victim = open_graph(place, actor="victim")
        with pytest.raises(Stopped):
            VERBS[verb](victim)
    found = open_graph(place)
    newest = found.commits()[0]
    assert (newest.parent_commit_id, newest.actor_id) == (head, "victim")
    assert verb in newest.details
    if verb == "merge":
        assert newest.merged_parent_commit_id == found.commits("dev")[0].commit_id
        assert found.merge("dev").outcome == "already_up_to_date"
    else:
        assert VERBS[verb](found).outcome == "unchanged"
    assert [str(audit.kind) for audit in found.recovery_list()] == ["RolledForward"]
    check_order(place, found)


@EACH
def test_a_write_that_died_between_two_tables_is_undone_and_can_be_repeated(place, graph, verb):
    before = content_of(graph)
    with watched(At("after", "commit", EDGES, stop)):
        victim = open_graph(place, actor="victim")
        with pytest.raises(Stopped):
            VERBS[verb](victim)
    assert content_of(open_graph(place)) == before
    done = VERBS[verb](open_graph(place))
    assert done.commit is not None
    assert str(done.outcome) != "unchanged"
    assert open_graph(place).verify(deep=True).is_sound
    check_order(place, graph)


@EACH
def test_undoing_one_that_died_may_itself_die_and_leaves_one_record_of_it(place, graph, verb):
    """The tables are restored but not yet published: the next writer only publishes them."""
    before = content_of(graph)
    with watched(At("after", "commit", EDGES, stop)):
        victim = open_graph(place, actor="victim")
        with pytest.raises(Stopped):
            VERBS[verb](victim)
    with watched(At("before", "commit", MANIFEST, stop)), pytest.raises(Stopped):
        open_graph(place)
    restored = table_heads(graph)
    found = open_graph(place)
    assert table_heads(graph) == restored, "what was restored is not restored again"
    assert content_of(found) == before
    assert [str(audit.kind) for audit in found.recovery_list()] == ["RolledBack"]
    check_order(place, found)


@EACH
def test_an_intent_that_stays_after_the_publish_is_removed_by_the_next_one(place, graph, verb):
    failure = StorageFailure(StorageKind.PERMANENT, "the disk says no")
    with watched(At("before", "delete", INTENTS, fail(failure))):
        done = VERBS[verb](open_graph(place, actor="lucky"))
    history = graph.commits()
    assert history[0] == done.commit
    after = content_of(graph)
    for _ in range(2):
        found = open_graph(place)
        assert found.commits() == history
        assert len(found.recovery_list()) <= 1
    assert check(place, {"done": after})


def test_a_table_that_comes_to_nothing_is_left_alone_beside_one_that_does_not(place, graph):
    """An edge added and removed again leaves no version; its neighbour is undone with the rest."""
    graph.create_branch("net")
    run(graph, 'insert Knows {from: "ada", to: "cy"}', "net")
    run(graph, 'delete Knows where to = "cy"', "net")
    graph.load([person("ned")], "append", branch="net")
    before, tables = content_of(graph), table_branches(graph)
    with watched(At("before", "put", INTENTS, stop)):
        victim = open_graph(place)
        with pytest.raises(Stopped):
            victim.merge("net")
    assert content_of(open_graph(place)) == before
    assert open_graph(place).merge("net").commit is not None
    after = table_branches(graph)
    assert {key for key in after if after[key] != tables[key]} == {"node:Person"}


def table_heads(graph):
    """The newest version of each table, whether the graph shows it or not."""
    root = graph._open.views.root
    return {
        table.table_key: find_latest_version(root.location(table.table_path))
        for table in graph.snapshot().tables
    }


def table_branches(graph):
    return {table.table_key: table.manifest_version for table in graph.snapshot().tables}

"""Several processes writing one graph: nothing lost, nothing doubled, every refusal typed."""

from __future__ import annotations

from collections import Counter

import pytest

from processes.process_checks import (
    acknowledged,
    check_line,
    check_pairs,
    check_recovered,
    check_tables,
    errors,
)
from processes.process_handles import BUCKET, FOLDER
from store_places import open_graph

FEW = [2, 4]


def crowds(*counts, slow):
    """Writers in a folder, more on request, and a few in a bucket on request."""
    places = [(FOLDER, count) for count in counts]
    places += [pytest.param(FOLDER, count, marks=pytest.mark.slow) for count in slow]
    places += [pytest.param(BUCKET, count, marks=pytest.mark.object_store) for count in FEW]
    places.append(pytest.param(BUCKET, 8, marks=[pytest.mark.object_store, pytest.mark.slow]))
    return pytest.mark.parametrize(("place", "count"), places, indirect=["place"])


COUNTS = crowds(*FEW, slow=(8, 16))
PAIR = crowds(2, slow=(4, 8, 16))


def rounds(count):
    return 5 if count in FEW else 50


def finish_all(workers):
    return [event for worker in workers for event in worker.finish()]


@COUNTS
def test_disjoint_writes_all_commit_in_one_line(start_workers, place, count):
    workers = start_workers(count)
    for number, worker in enumerate(workers):
        worker.start("pairs", by=f"w{number}", count=rounds(count))
    events = finish_all(workers)
    assert errors(events) == Counter()
    acks = acknowledged(events)
    assert len(acks) == count * rounds(count)
    graph = check_recovered(place)
    commits = check_line(graph, acks)
    assert len(commits) == len(acks) + 2
    assert check_pairs(graph) == {"one", *(e["key"] for e in acks.values())}
    check_tables(place)
    by_commit = {c.commit_id: c.actor_id for c in commits}
    assert all(by_commit[id] == e["key"].split("-")[0] for id, e in acks.items())


@COUNTS
def test_of_appends_of_one_key_exactly_one_wins(start_workers, place, count):
    workers = start_workers(count)
    keys = [f"key{n}" for n in range(rounds(count))]
    for number, worker in enumerate(workers):
        worker.start("append", by=f"w{number}", keys=keys)
    events = finish_all(workers)
    acks = acknowledged(events)
    assert sorted(e["key"] for e in acks.values()) == sorted(keys)
    assert errors(events) == Counter({"KeyConflict": (count - 1) * len(keys)})
    graph = check_recovered(place)
    winners = {c.commit_id: c.actor_id for c in check_line(graph, acks)}
    stored = {r["data"]["id"]: r["data"]["by"] for r in graph.export(["Item"])}
    assert {e["key"]: winners[id] for id, e in acks.items()} == {k: stored[k] for k in keys}
    check_tables(place)


@COUNTS
def test_merges_of_one_key_all_commit_and_the_last_one_stays(start_workers, place, count):
    workers = start_workers(count)
    for number, worker in enumerate(workers):
        worker.start("merge", by=f"w{number}", key="one", count=rounds(count))
    events = finish_all(workers)
    assert errors(events) == Counter()
    acks = acknowledged(events)
    assert len(acks) == count * rounds(count)
    graph = check_recovered(place)
    commits = check_line(graph, acks)
    # Each commit shows the value its own writer wrote: the order of history is the order of writes.
    for commit in commits[: -2 if count in FEW else 40]:
        (found,) = graph.at(commit=commit.commit_id).export(["Item"])
        assert found["data"]["by"] == acks[commit.commit_id]["value"]
    check_tables(place)


@COUNTS
def test_updates_of_one_row_are_acknowledged_or_asked_to_read_again(start_workers, place, count):
    workers = start_workers(count)
    for number, worker in enumerate(workers):
        worker.start("update", by=f"w{number}", key="one", count=rounds(count))
    events = finish_all(workers)
    assert set(errors(events)) <= {"ReadSetChanged"}
    acks = acknowledged(events)
    assert len(acks) + errors(events).total() == count * rounds(count)
    assert acks
    graph = check_recovered(place)
    commits = check_line(graph, acks)
    assert len(commits) == len(acks) + 2
    (found,) = graph.export(["Item"])
    assert found["data"]["by"] == acks[commits[0].commit_id]["value"]
    check_tables(place)


@PAIR
def test_processes_that_count_up_lose_no_step(start_workers, place, count):
    workers = start_workers(count)
    for worker in workers:
        worker.start("count_up", key="one", count=rounds(count))
    events = finish_all(workers)
    assert set(errors(events)) <= {"ReadSetChanged", "PreconditionFailed"}
    acks = acknowledged(events)
    assert sorted(e["n"] for e in acks.values()) == list(range(1, count * rounds(count) + 1))
    graph = check_recovered(place)
    commits = check_line(graph, acks)
    order = [acks[c.commit_id]["n"] for c in commits[:-2]]
    assert order == sorted(order, reverse=True)


@PAIR
def test_everything_at_once_keeps_every_snapshot_whole(start_workers, place, count):
    """Writers of every kind, branches coming and going, and readers who look for mixtures."""
    workers = start_workers(count + 2)
    reader, keeper, *writers = workers
    reader.start("read", count=12 * rounds(count))
    keeper.start("branches", by="k0", count=rounds(count))
    for number, worker in enumerate(writers):
        match number % 3:
            case 0:
                worker.start("generations", by=f"g{number}", count=rounds(count))
            case 1:
                worker.start("pairs", by=f"p{number}", count=rounds(count))
            case 2:
                worker.start("branches", by=f"b{number}", count=rounds(count))
    events = finish_all(workers)
    assert [e for e in events if "mixture" in e] == []
    # Overwrites are strict; names of branches are shared, so they come and go under each other.
    expected = {"ReadSetChanged", "AlreadyExists", "BranchNotFound"}
    assert set(errors(events)) <= expected, [e for e in events if "error" in e]
    assert "error" not in {key for e in reader.events for key in e}
    graph = check_recovered(place)
    main = {id: e for id, e in acknowledged(events).items() if "branch" not in e}
    check_line(graph, main)
    for branch in graph.branches():
        check_pairs(graph, branch)
        check_tables(place, branch=branch)
        marks = {r["data"]["mark"] for r in graph.export(["Left", "Right"], branch=branch)}
        assert len(marks) <= 1


@PAIR
def test_first_writes_on_one_branch_share_one_fork(start_workers, place, count):
    open_graph(place).create_branch("dev")
    workers = start_workers(count)
    for number, worker in enumerate(workers):
        worker.start("pairs", by=f"w{number}", count=rounds(count), branch="dev")
    events = finish_all(workers)
    assert errors(events) == Counter()
    graph = check_recovered(place)
    check_line(graph, acknowledged(events), "dev")
    assert len(check_pairs(graph, "dev")) == 1 + count * rounds(count)
    assert len(check_pairs(graph)) == 1
    check_tables(place, branch="dev")


@PAIR
def test_merges_and_reverts_among_the_writers_lose_nothing(start_workers, place, count):
    """Some write, some merge branches of their own, some undo what they wrote, one cleans up."""
    workers = start_workers(count + 3)
    cleaner, undoer, writer, *mergers = workers
    cleaner.start("cleans", count=3)
    undoer.start("reverts", by="u0", count=rounds(count))
    writer.start("pairs", by="w0", count=rounds(count))
    for number, worker in enumerate(mergers):
        worker.start("merges", by=f"m{number}", count=rounds(count))
    events = finish_all(workers)
    # What was written may be cleaned away before it is undone; nothing else may fail.
    assert set(errors(events)) <= {"MergeBaseUnavailable"}, [e for e in events if "error" in e]
    assert all("reverted" in e for e in events if "error" in e)
    graph = check_recovered(place)
    acks = acknowledged(events)
    undone = {e["reverted"] for e in acks.values() if "reverted" in e}
    written = {e["key"] for e in acks.values() if "key" in e}
    assert check_pairs(graph) == {"one", *(written - undone)}
    check_tables(place)
    commits = {commit.commit_id: commit for commit in graph.commits()}
    assert {id for id, e in acks.items() if e.get("branch") is None} <= commits.keys()
    assert all(commits.keys() >= set(commit.parents) for commit in commits.values())
    assert graph.verify().is_sound

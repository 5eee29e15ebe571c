"""The stream of changes: offsets are commits, requested as by Spark."""

from __future__ import annotations

import datetime
import pickle
import random
from pathlib import Path

import pytest

import omnigraph
from history.generated_history import GeneratedHistory, applied
from omnigraph.errors import BadRequest, BranchNotFound, ChangeCursorRejected, ChangeFeedGap
from pipeline_source.change_batches import (
    ALL,
    in_wire_form,
    kept,
    next_batch,
    rows_between,
    source,
    stream,
    take_all,
)

SCHEMA = "node A { k: String @key  n: I32? }\nedge E: A -> A"


def put(graph, k, n=0, branch="main") -> str:
    rows = [{"type": "A", "data": {"k": k, "n": n}}]
    return graph.load(rows, "merge", branch=branch).commit.commit_id


@pytest.fixture
def graph(tmp_path: Path) -> omnigraph.Graph:
    return omnigraph.init(tmp_path / "g.omni", SCHEMA)


def apply_rows(entities: dict, rows: list[dict]) -> dict:
    """Apply the rows of a batch to a replica, commit by commit."""
    for position in sorted({row["position"] for row in rows}):
        changes = [in_wire_form(row) for row in rows if row["position"] == position]
        named = [{**change, "type": {"name": change["type"]}} for change in changes]
        entities = applied(entities, named)
    return entities


@pytest.mark.parametrize("seed", range(3))
def test_a_replica_equals_the_branch_however_often_the_stream_is_restarted(
    tmp_path: Path, seed: int
) -> None:
    print(f"seed {seed}")
    chance = random.Random(seed)
    generated = GeneratedHistory(tmp_path / "g.omni", seed)
    at, replica = None, {}
    for _ in range(30):
        generated.step()
        if chance.random() < 0.5:
            continue
        options = {"maxCommitsPerTrigger": str(chance.randrange(1, 5))}
        reader = stream(generated.graph, startingAfter="beginning", **options)
        at = reader.initialOffset() if at is None else at
        end, rows = next_batch(reader, at)
        if chance.random() < 0.3:
            # Killed behind the offset log and before the commit log: planned again elsewhere.
            again = stream(generated.graph, startingAfter="beginning")
            rows = [] if kept(end) == kept(at) else rows_between(again, at, end)
        replica, at = apply_rows(replica, rows), kept(end)
    at, rows = take_all(stream(generated.graph, startingAfter="beginning"), at)
    head = generated.graph.commits()[0].commit_id
    assert at["commit"] == head
    assert apply_rows(replica, rows) == generated.states[head]


def test_one_offset_is_one_commit_and_a_batch_has_at_most_so_many(graph) -> None:
    made = [put(graph, f"k{n}") for n in range(7)]
    reader = stream(graph, startingAfter="beginning", maxCommitsPerTrigger="3")
    at, ends = reader.initialOffset(), []
    while not ends or ends[-1] != at["commit"]:
        ends.append(at["commit"])
        at, _ = next_batch(reader, at)
    assert ends[1:] == [made[2], made[5], made[6]]
    start = reader.initialOffset()
    end, rows = next_batch(reader, start, ALL)
    assert end["commit"] == made[6], "Spark may ask for all there is"
    assert [row["commit"] for row in rows] == made


def test_where_a_stream_starts(graph) -> None:
    first, second, third = [put(graph, f"k{n}") for n in range(3)]

    def seen(start: str) -> list[str]:
        return [row["commit"] for row in take_all(stream(graph, startingAfter=start))[1]]

    assert seen("beginning") == [first, second, third]
    assert seen(first) == [second, third]
    assert seen(first[:12]) == [second, third]
    assert seen(f"after:{second}") == [third]
    graph.tag("v1", second)
    assert seen("v1") == [third]
    baseline = graph.baseline()
    assert len(list(baseline.records())) == 3
    fourth = put(graph, "k3")
    assert seen(baseline.resume_cursor) == [fourth]
    moment = datetime.datetime.now(datetime.UTC).isoformat()
    assert seen(moment) == []
    assert seen("now") == []


def test_a_stream_that_starts_now_misses_nothing_from_its_first_batch_on(graph) -> None:
    put(graph, "before")
    reader = stream(graph)
    start = reader.initialOffset()
    fixed, rows = next_batch(reader, start)
    assert rows == []
    assert fixed != start, "an empty batch puts where it starts into the checkpoint"
    later = put(graph, "later")
    again = stream(graph)
    assert rows_between(again, again.initialOffset(), fixed) == [], "that batch once more"
    _, rows = next_batch(again, kept(fixed))
    assert [row["commit"] for row in rows] == [later]


def test_a_stream_of_what_is_available_ends_where_it_was_requested(graph) -> None:
    made = [put(graph, f"k{n}") for n in range(3)]
    reader = stream(graph, startingAfter="beginning", maxCommitsPerTrigger="2")
    reader.prepareForTriggerAvailableNow()
    put(graph, "later")
    at, rows = take_all(reader)
    assert [row["commit"] for row in rows] == made
    assert at["commit"] == made[-1]
    reader.prepareForTriggerAvailableNow()
    assert len(take_all(reader, at)[1]) == 1


def test_offsets_belong_to_one_branch_one_graph_and_one_filter(graph, tmp_path: Path) -> None:
    graph.create_branch("b")
    put(graph, "x", branch="b")
    at, _ = take_all(stream(graph, branch="b", startingAfter="beginning"))
    with pytest.raises(ChangeCursorRejected, match="another branch"):
        next_batch(stream(graph), at)
    with pytest.raises(ChangeCursorRejected, match="other kinds, types or operations"):
        next_batch(stream(graph, branch="b", ops="insert"), at)
    other = omnigraph.init(tmp_path / "other.omni", SCHEMA)
    other.create_branch("b")
    with pytest.raises(ChangeCursorRejected, match="another graph"):
        next_batch(stream(other, branch="b"), at)
    running = stream(graph, branch="b")
    assert next_batch(running, at) == (kept(at), [])
    graph.delete_branch("b")
    with pytest.raises(BranchNotFound):
        next_batch(running, at)
    graph.create_branch("b")
    put(graph, "y", branch="b")
    for reader in (running, stream(graph, branch="b")):
        with pytest.raises(ChangeCursorRejected, match="an earlier branch of this name"):
            next_batch(reader, at)


def test_a_gap_says_how_to_continue_and_a_baseline_is_the_way(graph) -> None:
    put(graph, "a")
    at, _ = take_all(stream(graph, startingAfter="beginning"))
    for n in range(6):
        put(graph, "a", n)
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(ChangeFeedGap) as refused:
        next_batch(stream(graph), at)
    assert "`omnigraph changes baseline`" in refused.value.message
    assert "option 'startingAfter'" in refused.value.message
    baseline = graph.baseline()
    assert len(list(baseline.records())) == 1
    later = put(graph, "b")
    _, rows = take_all(stream(graph, startingAfter=baseline.resume_cursor))
    assert [row["commit"] for row in rows] == [later]


def test_rows_that_cleanup_removes_behind_the_plan_are_a_gap_too(graph) -> None:
    put(graph, "a")
    reader = stream(graph, startingAfter="beginning")
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    tasks = [pickle.loads(pickle.dumps(one)) for one in reader.partitions(start, end)]
    for n in range(6):
        put(graph, "a", n)
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(ChangeFeedGap, match="take a baseline"):
        [list(reader.read(task)) for task in tasks]


def test_changes_that_a_consumer_has_not_read_are_retained_for_it(graph) -> None:
    reader = stream(graph, consumer="replica", consumerExpires="2d")
    at, _ = next_batch(reader, reader.initialOffset())
    (consumer,) = graph.consumers()
    assert (consumer.name, consumer.commit_id) == ("replica", at["commit"])
    assert consumer.expires_at - consumer.updated_at == 2 * 86_400 * 1_000_000
    made = [put(graph, "a", n) for n in range(6)]
    graph.cleanup(keep=1, confirm=True)
    end, rows = next_batch(reader, at)
    assert [row["commit"] for row in rows] == made
    assert graph.consumers()[0].commit_id == at["commit"], "the batch is not dealt with yet"
    reader.commit(kept(end))
    assert graph.consumers()[0].commit_id == made[-1]
    again = stream(graph, consumer="replica")
    assert next_batch(again, end) == (kept(end), [])
    assert graph.consumers()[0].updated_at != consumer.updated_at, "a restart renews it"


def test_a_stream_without_commits_keeps_its_consumer_alive(graph) -> None:
    reader = stream(graph, consumer="replica", consumerExpires="1s")
    at, _ = next_batch(reader, reader.initialOffset())
    first = graph.consumers()[0].expires_at
    deadline = datetime.datetime.now() + datetime.timedelta(minutes=10)
    while graph.consumers()[0].expires_at == first:
        assert next_batch(reader, at) == (kept(at), [])
        assert datetime.datetime.now() < deadline, "it is recorded again while it is polled"


def test_an_option_that_a_stream_does_not_support_is_refused(graph) -> None:
    with pytest.raises(BadRequest, match="option 'endingAt' is for batch reads only"):
        stream(graph, endingAt="now")
    with pytest.raises(BadRequest, match="set option 'changes' to 'true'"):
        stream(graph, changes="false", type="A")
    made = source(graph, type="A")
    schema = made.schema()
    with pytest.raises(BadRequest, match="option 'changes' is for reads only"):
        made.writer(schema, overwrite=False)


def test_the_reader_travels_to_executors(graph) -> None:
    put(graph, "a")
    made = source(graph, startingAfter="beginning")
    made = pickle.loads(pickle.dumps(made))
    reader = made.streamReader(schema=made.schema())
    travelled = pickle.loads(pickle.dumps(reader))
    start = reader.initialOffset()
    end = reader.latestOffset(start, ALL)
    (task,) = reader.partitions(start, end)
    (batch,) = travelled.read(pickle.loads(pickle.dumps(task)))
    assert [row["id"] for row in batch.to_pylist()] == ["a"]

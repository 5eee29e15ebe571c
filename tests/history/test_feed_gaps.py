"""Answers of the feed to foreign tokens and to removed history."""

from __future__ import annotations

import base64
import datetime
import random
from pathlib import Path

import pytest

import omnigraph
from history.generated_history import applied, held
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    ChangeCursorRejected,
    ChangeFeedGap,
    CommitHasNoParent,
    ConsumerNotFound,
    HistoricalVersionReclaimed,
    ReadSetChanged,
    ResourceLimitExceeded,
    TypeNotFound,
)
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.changes import open_history
from omnigraph.history.change_feed import PageLimits, poll
from omnigraph.history.entity_changes import ALL_CHANGES
from omnigraph.storage.graph_root import GraphRoot

SCHEMA = "node A { k: String @key  n: I32? }\nedge E: A -> A"


def new(place: Path) -> omnigraph.Graph:
    return omnigraph.init(place, SCHEMA)


def put(graph, k, n=0, branch="main"):
    rows = [{"type": "A", "data": {"k": k, "n": n}}]
    return graph.load(rows, "merge", branch=branch).commit.commit_id


@pytest.fixture
def graph(tmp_path: Path) -> omnigraph.Graph:
    found = new(tmp_path / "g.omni")
    for n in range(3):
        put(found, f"k{n}")
    return found


# --- tokens -----------------------------------------------------------------------------------


def test_a_damaged_token_is_refused_wherever_it_is_damaged(graph) -> None:
    seed = 5
    chosen = random.Random(seed)
    token = graph.changes("now").cursor
    for _ in range(200):
        at = chosen.randrange(len(token))
        other = chosen.choice([c for c in "AZaz09-_" if c != token[at]])
        damaged = token[:at] + other + token[at + 1 :]
        if base64.urlsafe_b64decode(
            damaged + "==="[: -len(damaged) % 4]
        ) == base64.urlsafe_b64decode(token + "==="[: -len(token) % 4]):
            continue  # bits of the last character that mean nothing
        with pytest.raises(ChangeCursorRejected, match="change cursor rejected: "):
            graph.changes(damaged)
    for text in ("", "yesterday", "é", token[:-3], token * 60, token[5:], "====", "after"):
        with pytest.raises(ChangeCursorRejected):
            graph.changes(text)


def test_a_token_of_another_kind_graph_branch_or_filter_is_refused(graph, tmp_path: Path) -> None:
    cursor = graph.changes("now").cursor
    page = graph.changes("beginning", max_changes=1, max_commits=1).position
    commit = graph.load(
        [{"type": "A", "data": {"k": f"x{n}"}} for n in range(3)], "append"
    ).commit.commit_id
    commit_page = graph.commit_changes(commit, max_changes=1).next_page_token
    feed_page = graph.changes(
        f"after:{graph.commits()[1].commit_id}", max_changes=1
    ).next_page_token
    assert page
    other = new(tmp_path / "other.omni")
    graph.create_branch("dev")
    for refused, reason in (
        (lambda: other.changes(cursor), "another graph"),
        (lambda: graph.changes(cursor, branch="dev"), "another branch"),
        (lambda: graph.changes(cursor, types=["A"]), "other kinds, types or operations"),
        (lambda: graph.changes(commit_page), "it is a commit-page"),
        (lambda: graph.commit_changes(commit, page_token=cursor), "it is a feed-cursor"),
        (lambda: graph.commit_changes(commit, page_token=feed_page), "it is a feed-page"),
        (
            lambda: graph.commit_changes(graph.commits()[1].commit_id, page_token=commit_page),
            "another commit",
        ),
        (lambda: graph.set_consumer("c", feed_page), "it is a feed-page"),
    ):
        with pytest.raises(ChangeCursorRejected, match=reason):
            refused()
    # All variants are the same as none.
    assert graph.changes(cursor, kinds=["edge", "node"], ops=["insert", "delete", "update"])


def test_a_recreated_branch_is_detected(graph) -> None:
    graph.create_branch("dev")
    put(graph, "d", branch="dev")
    cursor = graph.changes("now", branch="dev").cursor
    graph.set_consumer("reader", branch="dev")
    graph.rename_branch("dev", "renamed")
    assert [one.branch for one in graph.consumers()] == ["renamed"]
    put(graph, "e", branch="renamed")
    (block,) = graph.changes(cursor, branch="renamed").blocks
    assert [change.id for change in block.changes] == ["e"]
    graph.delete_branch("renamed")
    with pytest.raises(BranchNotFound):
        graph.changes(cursor, branch="renamed")
    graph.create_branch("renamed")
    with pytest.raises(ChangeCursorRejected, match="an earlier branch of this name"):
        graph.changes(cursor, branch="renamed")


def test_a_branch_recreated_while_it_is_read_is_refused(graph) -> None:
    graph.create_branch("dev")
    put(graph, "d", branch="dev")
    history = open_history(BranchSnapshots(GraphRoot.at(graph.uri)), "dev", ALL_CHANGES)
    history.require_alive()
    graph.delete_branch("dev")
    with pytest.raises(BranchNotFound):
        history.require_alive()
    graph.create_branch("dev")
    with pytest.raises(ReadSetChanged, match="branch_identifier:dev"):
        history.require_alive()
    with pytest.raises(BadRequest, match="which was deleted"):
        poll(history, "beginning", ALL_CHANGES, PageLimits())


def test_requests_that_make_no_sense(graph) -> None:
    for given in ({"max_changes": 0}, {"max_bytes": 0}, {"max_commits": -1}):
        with pytest.raises(BadRequest, match="at least 1"):
            graph.changes("beginning", **given)
    for given in ({"max_changes": 8_193}, {"max_commits": 513}):
        with pytest.raises(ResourceLimitExceeded):
            graph.changes("beginning", **given)
    with pytest.raises(BadRequest, match="kind 'thing' is not one of node, edge"):
        graph.changes("now", kinds=["thing"])
    with pytest.raises(BadRequest, match="op 'upsert' is not one of insert, update, delete"):
        graph.changes("now", ops=["upsert"])
    with pytest.raises(TypeNotFound, match="no type 'B'"):
        graph.changes("now", types=["B"])
    with pytest.raises(CommitHasNoParent):
        graph.commit_changes(graph.commits()[-1].commit_id)


# --- gaps -------------------------------------------------------------------------------------


def test_a_gap_after_cleanup_names_the_removed_commit_and_a_baseline_helps(graph) -> None:
    cursor = graph.changes("now").cursor
    lost = [put(graph, f"m{n}") for n in range(3)]
    kept = put(graph, "last")
    graph.cleanup(keep=1, confirm=True)
    for position in ("beginning", cursor, f"after:{lost[0]}"):
        with pytest.raises(ChangeFeedGap) as gap:
            graph.changes(position)
        assert gap.value.first_unreadable_commit_id in {c.commit_id for c in graph.commits()}
    assert gap.value.cursor is not None
    with pytest.raises(ChangeFeedGap):
        graph.commit_changes(lost[1])
    with pytest.raises(ChangeFeedGap):
        graph.commit_changes(kept)  # its parent is gone
    baseline = graph.baseline()
    entities = held(baseline.records())
    put(graph, "after", 7)
    for block in graph.changes(baseline.resume_cursor).blocks:
        entities = applied(entities, [change.wire() for change in block.changes])
    assert entities == held(graph.export())


def test_a_page_ends_before_a_gap_and_the_next_one_reports_it(graph) -> None:
    first = graph.commits()[0]
    graph.tag("t1", first.commit_id)
    graph.tag("t0", first.parent_commit_id)
    put(graph, "x")
    put(graph, "y")
    graph.cleanup(keep=1, confirm=True)
    page = graph.changes(f"after:{first.parent_commit_id}")
    assert [block.commit.commit_id for block in page.blocks] == [first.commit_id]
    assert not page.caught_up
    with pytest.raises(ChangeFeedGap):
        graph.changes(page.cursor)


def test_a_consumer_keeps_what_it_has_not_read(graph) -> None:
    start = graph.changes("now").cursor
    consumer = graph.set_consumer("search", start)
    assert consumer.commit_id == graph.commits()[0].commit_id
    made = [put(graph, f"m{n}") for n in range(5)]
    graph.cleanup(keep=1, confirm=True)
    page = graph.changes(start, max_commits=2)
    assert [block.commit.commit_id for block in page.blocks] == made[:2]
    graph.set_consumer("search", page.cursor)
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(ChangeFeedGap):
        graph.changes(start)
    assert [block.commit.commit_id for block in graph.changes(page.cursor).blocks] == made[2:]
    graph.delete_consumer("search")
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(ChangeFeedGap):
        graph.changes(page.cursor)


def test_an_expired_consumer_keeps_nothing(graph) -> None:
    start = graph.changes("now").cursor
    graph.set_consumer("late", start, lasts=datetime.timedelta(microseconds=1))
    assert [c.name for c in graph.consumers()] == ["late"]
    put(graph, "x")
    put(graph, "y")
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(ChangeFeedGap):
        graph.changes(start)


def test_a_consumer_of_a_branch_keeps_what_the_branch_inherited(graph) -> None:
    first = graph.commits()[1].commit_id
    graph.create_branch("dev")
    made = put(graph, "d", branch="dev")
    graph.set_consumer("c", first, branch="dev")
    for n in range(4):
        put(graph, f"m{n}")
        put(graph, f"d{n}", branch="dev")
    graph.cleanup(keep=1, confirm=True)
    commits = [b.commit.commit_id for b in graph.changes(f"after:{first}", branch="dev").blocks]
    assert commits[1] == made
    assert len(commits) == 6
    with pytest.raises(ChangeFeedGap):
        graph.changes(f"after:{graph.commits()[3].commit_id}")


def test_consumers_that_cannot_be(graph) -> None:
    with pytest.raises(ConsumerNotFound, match="consumer 'x' not found"):
        graph.delete_consumer("x")
    with pytest.raises(BadRequest, match="consumer name cannot be empty"):
        graph.set_consumer("")
    with pytest.raises(BadRequest, match="must be positive"):
        graph.set_consumer("x", lasts=datetime.timedelta(0))
    with pytest.raises(ChangeCursorRejected):
        graph.set_consumer("x", "nowhere")
    graph.create_branch("side")
    merged = put(graph, "side", branch="side")
    graph.merge("side")
    with pytest.raises(BadRequest, match="not in the history"):
        graph.set_consumer("x", merged)  # the feed of main has the merge, not this commit
    old = graph.commits()[-1].commit_id
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.set_consumer("x", old)
    assert graph.consumers() == []


def test_a_baseline_has_a_cursor_once_all_of_it_was_read(graph) -> None:
    baseline = graph.baseline(kinds=["node"])
    with pytest.raises(BadRequest, match="once every record"):
        _ = baseline.resume_cursor
    records = baseline.records()
    next(records)
    with pytest.raises(BadRequest, match="once every record"):
        _ = baseline.resume_cursor
    assert len(list(records)) == 2
    assert graph.changes(baseline.resume_cursor, kinds=["node"]).caught_up
    with pytest.raises(ChangeCursorRejected):
        graph.changes(baseline.resume_cursor)

"""A repeated query returns the current content, on any branch."""

from __future__ import annotations

import threading

import pytest

import omnigraph
from omnigraph.errors import CompileError
from omnigraph.graph.branch_snapshots import BranchSnapshots
from omnigraph.graph.queries import plan_query
from omnigraph.identity import MAIN
from omnigraph.language.source import SourceText
from omnigraph.storage.graph_root import GraphRoot

SCHEMA = "node Song { name: String @key  plays: I64? }"
COUNT = "query q() { match { $s: Song } return { count($s) as n } }"


@pytest.fixture
def graph(tmp_path) -> omnigraph.Graph:
    made = omnigraph.init(str(tmp_path / "songs.omni"), SCHEMA)
    made.load([{"type": "Song", "data": {"name": "a", "plays": 1}}], "append")
    return made


def count(graph: omnigraph.Graph, branch: str = MAIN) -> object:
    return graph.query(COUNT, branch=branch).rows[0]["n"]


def test_a_repeated_query_sees_what_was_written_in_between(graph):
    assert [count(graph), count(graph)] == [1, 1]
    graph.load([{"type": "Song", "data": {"name": "b"}}], "append")
    assert [count(graph), count(graph)] == [2, 2]


def test_branches_are_not_mixed_up(graph):
    graph.load([{"type": "Song", "data": {"name": "b"}}], "append", branch="draft", base=MAIN)
    assert [count(graph), count(graph, "draft"), count(graph), count(graph, "draft")] == [
        1,
        2,
        1,
        2,
    ]


def test_a_query_that_is_refused_is_refused_again(graph):
    for _ in range(2):
        with pytest.raises(CompileError):
            graph.query("query q() { match { $s: Song } return { $s.title } }")


def test_plans_are_reused_while_nothing_changed_and_only_then(graph):
    views, source = BranchSnapshots(GraphRoot.at(graph.uri)), SourceText(COUNT, "q.gq")
    first = plan_query(views.read_newest(MAIN), source, None)
    assert plan_query(views.read_newest(MAIN), source, None) is first
    graph.load([{"type": "Song", "data": {"name": "b"}}], "append")
    assert plan_query(views.read_newest(MAIN), source, None) is not first


def test_many_threads_may_query_at_once(graph):
    answers: list[object] = []
    threads = [
        threading.Thread(target=lambda: answers.extend(count(graph) for _ in range(20)))
        for _ in range(8)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert answers == [1] * 160

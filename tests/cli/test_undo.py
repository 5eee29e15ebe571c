"""`omnigraph revert`, `cherry-pick` and `restore`, as a person and as a script use them."""

from __future__ import annotations

import json

import pytest

import omnigraph
from omnigraph.cli.main import run

SCHEMA = "node Person { name: String @key  age: I32? }"


@pytest.fixture
def graph(tmp_path, monkeypatch) -> omnigraph.Graph:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    graph = omnigraph.init(tmp_path / "people.omni", SCHEMA)
    for age in (1, 2):
        graph.load([{"type": "Person", "data": {"name": "Ada", "age": age}}], "merge")
    return graph


def ages(graph) -> list[int]:
    return graph.nodes("Person").to_arrow().column("age").to_pylist()


def test_a_revert_is_previewed_and_done(graph, capsys):
    newest = graph.commits()[0].commit_id
    assert run(["revert", newest, graph.uri, "--dry-run"]) == 0
    assert capsys.readouterr().out == (
        f"would revert {newest} on main\n"
        "  node:Person: 0 inserted, 1 updated, 0 deleted, 0 conflicts\n"
    )
    assert run(["revert", newest[:16], graph.uri, "--as", "ben", "--message", "no"]) == 0
    made = graph.commits()[0]
    shown = capsys.readouterr().out.splitlines()
    assert shown == [
        f"reverted {newest} on main",
        "  node:Person: 0 inserted, 1 updated, 0 deleted, 0 conflicts",
        f"commit {made.commit_id}",
    ]
    assert (ages(graph), made.actor_id, made.details["message"]) == ([1], "ben", "no")
    assert run(["revert", newest, graph.uri]) == 0
    assert capsys.readouterr().out == f"reverted {newest} on main: unchanged\n"


def test_conflicts_of_a_revert_are_shown_and_decided(graph, capsys, tmp_path):
    first = graph.commits()[1].commit_id
    assert run(["revert", first, graph.uri, "--json"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert [one["kind"] for one in body["merge_conflicts"]] == ["delete_vs_update"]
    assert run(["revert", first, graph.uri, "--dry-run", "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["applied_commit_id"], body["outcome"]) == (first, "reverted")
    body["conflicts"][0]["take"] = "source"
    (tmp_path / "decided.json").write_text(json.dumps(body))
    decided = ["--decisions", str(tmp_path / "decided.json"), "--json"]
    assert run(["revert", first, graph.uri, *decided]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["resolved"], body["commit"]["details"]["revert"]["commit_id"]) == (
        {"decision": 1},
        first,
    )
    assert ages(graph) == []


def test_a_commit_is_picked_onto_another_branch(graph, capsys):
    graph.create_branch("dev", commit=graph.commits()[1].commit_id)
    newest = graph.commits()[0].commit_id
    assert run(["cherry-pick", newest, graph.uri, "--branch", "dev"]) == 0
    assert capsys.readouterr().out.startswith(f"cherry-picked {newest} on dev\n")
    assert ages(graph.branch("dev")) == [2]


def test_a_branch_is_restored(graph, capsys):
    wanted = graph.commits()[1].commit_id
    assert run(["restore", "2", graph.uri, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert (body["outcome"], body["applied_commit_id"]) == ("restored", wanted)
    assert ages(graph) == [1]


def test_a_merge_needs_to_know_which_parent(graph, capsys):
    graph.create_branch("dev")
    graph.load([{"type": "Person", "data": {"name": "Ben"}}], "append", branch="dev")
    merge = graph.merge("dev").commit.commit_id
    assert run(["revert", merge, graph.uri]) == 1
    assert "is a merge" in capsys.readouterr().err
    assert run(["revert", merge, graph.uri, "--parent", "1"]) == 0
    assert ages(graph) == [2]


@pytest.mark.parametrize("verb", ["revert", "cherry-pick", "restore"])
def test_a_missing_commit_is_reported(graph, capsys, verb):
    assert run([verb, "nowhere", graph.uri]) == 1
    assert "'nowhere'" in capsys.readouterr().err


def test_all_changes_of_a_commit_are_printed_as_they_are_read(graph, capsys):
    """More than a page of them, as one document without a token."""
    rows = [{"type": "Person", "data": {"name": f"p{n:04}"}} for n in range(1_500)]
    commit = graph.load(rows, "append").commit.commit_id
    assert run(["commit", "changes", commit, graph.uri, "--json"]) == 0
    body = json.loads(capsys.readouterr().out)
    assert len(body["changes"]) == 1_500
    assert body.keys() == {"cause", "changes"}
    assert run(["commit", "changes", commit, graph.uri]) == 0
    assert len(capsys.readouterr().out.splitlines()) == 1 + 2 * 1_500
    assert run(["commit", "changes", commit, graph.uri, "--limit", "10", "--json"]) == 0
    assert "next_page_token" in json.loads(capsys.readouterr().out)

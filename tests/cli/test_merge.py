"""`omnigraph branch merge`, as a person and as a script use it."""

from __future__ import annotations

import json

import pytest

import omnigraph
from omnigraph.cli.main import run

SCHEMA = "node Person { name: String @key  age: I32? }"


@pytest.fixture
def store(tmp_path, monkeypatch) -> str:
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    graph = omnigraph.init(tmp_path / "people.omni", SCHEMA)
    graph.load([{"type": "Person", "data": {"name": "Ada", "age": 1}}], "append")
    graph.create_branch("dev")
    for branch, age in (("main", 2), ("dev", 3)):
        row = {"type": "Person", "data": {"name": "Ada", "age": age}}
        graph.load([row], "merge", branch=branch)
    return graph.uri


def age(store: str) -> int:
    return omnigraph.open(store).nodes("Person").to_arrow().column("age").to_pylist()[0]


def test_a_preview_shows_counts_and_conflicts(store, capsys):
    assert run(["branch", "merge", "dev", store, "--dry-run"]) == 0
    shown = capsys.readouterr().out
    assert "would merge dev into main: merged" in shown
    assert "node:Person: 0 inserted, 0 updated, 0 deleted, 1 conflicts" in shown
    assert "Person 'Ada' was changed on both sides, with different age" in shown
    assert age(store) == 2


def test_a_merge_with_conflicts_fails_and_says_which(store, capsys):
    assert run(["branch", "merge", "dev", store, "--json"]) == 1
    body = json.loads(capsys.readouterr().out)
    assert [one["entity_id"] for one in body["merge_conflicts"]] == ["Ada"]
    assert age(store) == 2


def test_a_rule_decides(store, capsys):
    call = ["branch", "merge", "dev", store, "--resolve", "Person.age=max", "--delete-branch"]
    assert run(call) == 0
    shown = capsys.readouterr().out
    assert "resolved by Person.age=max: 1" in shown
    assert "deleted branch dev" in shown
    assert age(store) == 3


def test_a_file_of_decisions_decides(store, capsys, tmp_path):
    run(["branch", "merge", "dev", store, "--dry-run", "--json"])
    body = json.loads(capsys.readouterr().out)
    body["conflicts"][0]["take"] = {"age": 9}
    (tmp_path / "decided.json").write_text(json.dumps(body))
    decided = str(tmp_path / "decided.json")
    assert run(["branch", "merge", "dev", store, "--decisions", decided]) == 0
    assert age(store) == 9


def test_a_branch_that_stays_is_a_warning(store, capsys):
    omnigraph.open(store).create_branch("sub", source="dev")
    assert run(["branch", "merge", "dev", store, "--resolve", "ours", "--delete-branch"]) == 0
    assert "warning: dev was not deleted" in capsys.readouterr().err

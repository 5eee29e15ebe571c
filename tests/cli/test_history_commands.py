"""Tags, diffs, changes and the history of entities, as a user runs them."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import omnigraph as library
from omnigraph.cli.main import run

SCHEMA = "node A { k: String @key  n: I32?  t: String? }\nedge E: A -> A { w: F64? }"


@pytest.fixture
def graph(tmp_path: Path, monkeypatch) -> library.Graph:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(tmp_path))
    made = library.init("g.omni", SCHEMA, actor="maria")
    rows = [{"type": "A", "data": {"k": k, "n": 1}} for k in "abc"]
    rows.append({"edge": "E", "from": "a", "to": "b", "data": {"id": "e", "w": 0.5}})
    made.load(rows, "append")
    made.tag("first")
    made.load([{"type": "A", "data": {"k": "a", "n": 2, "t": "x\ny"}}], "merge")
    made.mutate('query q() { delete A where k = "b" }')
    return made


@pytest.fixture
def say(capsys):
    """Runs a command that must succeed and gives its output."""

    def said(*words: str, code: int = 0) -> str:
        assert run([*words, "--store", "g.omni"]) == code
        return capsys.readouterr().out

    return said


def test_a_diff_for_people_shows_one_entity_a_block_and_only_what_changed(graph, say) -> None:
    assert say("diff", "first", "main") == (
        "update node A a\n"
        "  n: 1 -> 2\n"
        "  t: <null> -> x\\ny\n"
        "\n"
        "delete node A b\n"
        "  - k: b\n"
        "  - n: 1\n"
        "\n"
        "delete edge E e  a -> b\n"
        "  - w: 0.5\n"
    )
    assert say("diff", "main", "first", "--type", "E") == "insert edge E e  a -> b\n  + w: 0.5\n"
    assert say("diff", "main", "main") == "(no changes)\n"


def test_the_schema_is_shown_as_it_was(graph, say) -> None:
    wider = SCHEMA.replace("t: String?", "t: String?  extra: Bool?")
    graph.apply_schema(wider)
    assert say("schema", "show") == f"{wider}\n"
    for place in (
        ("--at", "first"),
        ("--at", "HEAD~1"),
        ("--snapshot", graph.commits()[1].revision),
    ):
        assert say("schema", "show", *place) == f"{SCHEMA}\n", place


def test_a_diff_counts_by_type(graph, say) -> None:
    expected = (
        "node:A  +0 inserted, 1 updated, -1 deleted\nedge:E  +0 inserted, 0 updated, -1 deleted\n"
    )
    assert say("diff", "first", "main", "--stat") == expected
    body = json.loads(say("diff", "first", "main", "--stat", "--json"))
    assert "changes" not in body
    assert body["stats"][0] == {
        "kind": "node",
        "type_name": "A",
        "inserted": 0,
        "updated": 1,
        "deleted": 1,
    }


def test_a_diff_for_programs_is_one_change_a_line(graph, say) -> None:
    lines = say("diff", "first", "main", "--jsonl", "--images", "--op", "update").splitlines()
    (change,) = map(json.loads, lines)
    assert change["before"]["properties"]["n"] == 1
    assert change["after"]["properties"] == {"k": "a", "n": 2, "t": "x\ny"}
    plain = [json.loads(line) for line in say("diff", "first", "main", "--jsonl").splitlines()]
    assert [(one["op"], one["id"], one.get("endpoints")) for one in plain] == [
        ("update", "a", None),
        ("delete", "b", None),
        ("delete", "e", {"from": "a", "to": "b"}),
    ]
    assert say("diff", "first", "main", "--jsonl", "--json", code=2)


def test_a_poll_is_one_document_whatever_pages_it_took(graph, say) -> None:
    whole = json.loads(say("changes", "poll", "--start", "beginning", "--json"))
    assert [len(block["changes"]) for block in whole["blocks"]] == [4, 1, 2]
    assert whole["caught_up"] is True
    assert json.loads(say("changes", "poll", "--cursor", whole["cursor"], "--json")) == {
        "blocks": [],
        "cursor": whole["cursor"],
        "caught_up": True,
    }
    first = json.loads(say("changes", "poll", "--start", "beginning", "--limit", "1", "--json"))
    assert first["blocks"] == whole["blocks"][:1]
    rest = json.loads(say("changes", "poll", "--cursor", first["cursor"], "--json"))
    assert first["blocks"] + rest["blocks"] == whole["blocks"]


def test_a_commit_of_many_pages_is_stitched(graph, say) -> None:
    rows = [{"type": "A", "data": {"k": f"x{n:05}"}} for n in range(2_500)]
    commit = graph.load(rows, "append").commit.commit_id
    parent = graph.commit(commit).parent_commit_id
    body = json.loads(say("changes", "poll", "--start", f"after:{parent}", "--json"))
    (block,) = body["blocks"]
    assert [change["id"] for change in block["changes"]] == [row["data"]["k"] for row in rows]
    alone = json.loads(say("commit", "changes", commit, "--json"))
    assert alone == {"cause": block["cause"], "changes": block["changes"]}
    page = json.loads(say("commit", "changes", commit, "--limit", "10", "--json"))
    assert page["changes"] == block["changes"][:10]
    token = page["next_page_token"]
    following = say("commit", "changes", commit, "--page-token", token, "--limit", "7", "--json")
    assert json.loads(following)["changes"] == block["changes"][10:17]


def test_a_poll_ends_before_a_gap_with_a_cursor_that_reports_it(graph, say) -> None:
    first, second = graph.commits()[2], graph.commits()[1]
    graph.tag("second", second.commit_id)
    graph.load([{"type": "A", "data": {"k": "z"}}], "append")
    graph.cleanup(keep=1, confirm=True)
    body = json.loads(
        say("changes", "poll", "--start", f"after:{first.commit_id}", "--limit", "5", "--json")
    )
    assert [b["cause"]["graph_commit_id"] for b in body["blocks"]] == [second.commit_id]
    assert body["caught_up"] is False
    refused = json.loads(say("changes", "poll", "--cursor", body["cursor"], "--json", code=1))
    assert refused["kind"] == "change_feed_gap"


def test_a_poll_for_people(graph, say) -> None:
    out = say("changes", "poll", "--start", "beginning", "--type", "E")
    commits = [c.commit_id for c in graph.commits()][::-1][1:]
    lines = out.splitlines()
    assert [line.split()[1] for line in lines if line.startswith("commit ")] == commits
    assert "  insert edge E e  a -> b" in lines
    cursor = lines[-1].removeprefix("cursor: ")
    again = say("changes", "poll", "--cursor", cursor, "--type", "E")
    assert again == f"(no new commits)\ncursor: {cursor}\n"


def test_a_baseline_is_on_disk_before_its_cursor_is_printed(graph, say, tmp_path: Path) -> None:
    body = json.loads(say("changes", "baseline", "--out", "b.jsonl", "--json"))
    records = [json.loads(line) for line in (tmp_path / "b.jsonl").read_text().splitlines()]
    assert records == list(graph.export())
    assert body["snapshot_commit_id"] == graph.commits()[0].commit_id
    assert graph.changes(body["resume_cursor"]).caught_up
    assert sorted(p.name for p in tmp_path.glob("*b.jsonl*")) == ["b.jsonl", "b.jsonl.lock"]
    before = (tmp_path / "b.jsonl").read_bytes()
    say("changes", "baseline", "--out", "b.jsonl", "--type", "Nobody", code=1)
    assert (tmp_path / "b.jsonl").read_bytes() == before
    say("changes", "baseline", "--out", "no/such/folder", code=1)
    say("changes", "baseline", "--out", "-", code=2)


def test_the_history_of_an_entity(graph, say) -> None:
    out = say("entity", "history", "A", "a").splitlines()
    assert [line.split()[0] for line in out if "commit" in line] == ["update", "insert"]
    assert "  n: 2" in out
    assert "maria" in out[0]
    never = say("entity", "history", "A", "nobody")
    assert never == "node A nobody has never existed on branch main\n"


def test_tags_and_places_on_the_command_line(graph, say) -> None:
    count = "query q() { match { $a: A } return { count($a) as n } }"
    then = json.loads(say("query", "-e", count, "--at", "first", "--json"))
    assert then["rows"] == [{"n": 3}]
    assert say("tag", "list").split()[:2] == ["first", graph.at("first").commit_id]
    assert len(say("export", "--at", "2").splitlines()) == 4
    assert json.loads(say("snapshot", "--at", "first", "--json"))["graph_manifest_version"] == 2
    assert say("query", "-e", count, "--at", "nowhere", code=1) == ""
    say("query", "-e", count, "--at", "first", "--snapshot", "x", code=2)
    assert say("tag", "delete", "first") == "deleted tag first\n"
    say("export", "--at", "first", code=1)


def test_a_branch_is_renamed_on_the_command_line(graph, say) -> None:
    say("branch", "create", "dev")
    assert say("branch", "rename", "dev", "new") == "renamed branch dev to new\n"
    assert say("branch", "list") == "main\nnew\n"


def test_mistakes(graph, say) -> None:
    say("changes", "poll", "--cursor", "x", "--start", "now", code=2)
    say("changes", "poll", "--start", "yesterday", code=2)
    body = json.loads(say("changes", "poll", "--cursor", "damaged", "--json", code=1))
    assert body["kind"] == "change_cursor_rejected"
    say("consumer", "set", "c", "--cursor", "x", "--commit", "y", code=2)
    say("consumer", "set", "c", "--expires", "soon", code=2)
    say("commit", "changes", graph.commits()[-1].commit_id, code=1)

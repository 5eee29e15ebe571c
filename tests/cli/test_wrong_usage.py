"""Commands that are not written as they must be: exit code 2, and what is wrong with them."""

from __future__ import annotations

import io
import json
from contextlib import redirect_stderr, redirect_stdout
from pathlib import Path

import pytest

import omnigraph as library
from omnigraph.cli.main import run

SCHEMA = "node Artist { slug: String @key  name: String }\nedge Knows: Artist -> Artist"
READ = ("-e", "match { $a: Artist } return { $a.name }")


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    path = tmp_path_factory.mktemp("usage")
    graph = library.init(path / "g.omni", SCHEMA)
    graph.load([{"type": "Artist", "data": {"slug": "ada", "name": "Ada"}}], "append")
    graph.create_branch("dev")
    (path / "in.jsonl").write_text('{"type": "Artist", "data": {"slug": "b", "name": "B"}}\n')
    (path / "a.csv").write_text("slug,name\nx,X\n")
    (path / "narrower.pg").write_text(SCHEMA.replace("name: String", "name: I32"))
    return path


def call(folder: Path, monkeypatch: pytest.MonkeyPatch, *words: str) -> tuple[int, str, str]:
    """The code of a command, and what it printed."""
    monkeypatch.chdir(folder)
    monkeypatch.setenv("OMNIGRAPH_HOME", str(folder / "home"))
    out, err = io.StringIO(), io.StringIO()
    with redirect_stdout(out), redirect_stderr(err):
        code = run(words)
    return code, out.getvalue(), err.getvalue()


LOAD = ("load", "g.omni", "--engine", "local", "--data")
WRONG = {
    "parameters that are no JSON": (("query", "g.omni", *READ, "--params", "nope"), "--params"),
    "parameters that are a list": (("query", "g.omni", *READ, "--params", "[1]"), "--params"),
    "no query": (("query", "g.omni"), "give the query once"),
    "two queries": (("query", "g.omni", *READ, "--query", "q.gq"), "give the query once"),
    "no such option": (("query", "g.omni", "--nope"), "--nope"),
    "no such command": (("nope",), "nope"),
    "no such mode": ((*LOAD, "in.jsonl", "--mode", "nope"), "--mode"),
    "a partial append": ((*LOAD, "in.jsonl", "--mode", "append", "--partial"), "merge"),
    "a column without a name": ((*LOAD, "a.csv", "--mode", "append", "--column", "x"), "--column"),
    "a table of no type": ((*LOAD, "a.csv", "--mode", "append"), "type"),
    "records of a type": ((*LOAD, "in.jsonl", "--mode", "append", "--type", "Artist"), "type"),
    "columns of records": ((*LOAD, "in.jsonl", "--mode", "append", "--column", "slug=x"), "type"),
    "an option of Spark": (("schema", "apply", "g.omni", "--schema", "narrower.pg", "--spark-conf",
                            "nope"), "key=value"),
    "a duration": (("cleanup", "g.omni", "--older-than", "nope"), "not a duration"),
    "fewer than none": (("cleanup", "g.omni", "--keep", "-1"), "keep must be at least 0"),
    "no such rule": (("branch", "merge", "dev", "g.omni", "--resolve", "nope"), "no such rule"),
    "a limit": (("commit", "list", "g.omni", "--limit", "-1"), "--limit"),
    "an actor of two lines": (("mutate", "g.omni", "-e", "delete Artist where slug = \"x\"",
                               "--as", "a\nb"), "control character"),
}  # fmt: skip


@pytest.mark.parametrize(("words", "said"), WRONG.values(), ids=WRONG)
def test_wrong_usage_exits_with_two(folder, monkeypatch, words, said) -> None:
    code, out, err = call(folder, monkeypatch, *words)
    assert (code, out) == (2, ""), err
    assert said in err


MISSING = {
    ("commit", "show", "g.omni"): "the commit id is missing: 'g.omni' is the graph",
    ("commit", "changes", "g.omni"): "the commit id is missing",
    ("revert", "g.omni"): "the commit id is missing",
    ("restore", "g.omni"): "the commit id is missing",
    ("tag", "create", "g.omni"): "the tag is missing",
    ("branch", "create", "g.omni"): "the branch is missing",
    ("branch", "rename", "dev", "g.omni"): "the new name is missing",
    ("diff", "main", "g.omni"): "the second state is missing",
}


@pytest.mark.parametrize("words", MISSING, ids=" ".join)
def test_an_argument_missing_before_the_graph_is_named(folder, monkeypatch, words) -> None:
    code, out, err = call(folder, monkeypatch, *words)
    assert (code, out) == (2, "")
    assert MISSING[words] in err


def test_a_plan_with_unsupported_steps_fails(folder, monkeypatch) -> None:
    words = ("schema", "plan", "g.omni", "--schema", "narrower.pg")
    code, out, err = call(folder, monkeypatch, *words)
    assert code == 1
    assert out.startswith("- ")
    assert "cannot be applied" in err
    code, out, err = call(folder, monkeypatch, *words, "--json")
    assert (code, json.loads(out)["supported"]) == (1, False)


def test_a_quiet_load_says_nothing(folder, monkeypatch) -> None:
    quiet = (*LOAD, "in.jsonl", "--mode", "merge", "--quiet")
    assert call(folder, monkeypatch, *quiet) == (0, "", "")
    code, out, err = call(folder, monkeypatch, *quiet, "--json")
    assert (code, json.loads(out)["total_entities"], err) == (0, 1, "")
    (folder / "half.jsonl").write_text('{"type": "Artist", "data": {"slug": "c"}}\n')
    skipping = (*LOAD, "half.jsonl", "--mode", "merge", "--quiet", "--on-error", "skip")
    code, out, err = call(folder, monkeypatch, *skipping)
    assert (code, out) == (0, "")
    assert err.startswith("left out 1 rows"), "skipped rows are reported in any case"


def test_logging_out_says_what_it_did(folder, monkeypatch) -> None:
    code, out, _ = call(folder, monkeypatch, "logout", "lab")
    assert (code, out.startswith("there is no token for lab in ")) == (0, True)
    call(folder, monkeypatch, "login", "lab", "--token", "hush")
    code, out, _ = call(folder, monkeypatch, "logout", "lab")
    assert (code, out.startswith("removed the token for lab from ")) == (0, True)
    call(folder, monkeypatch, "login", "lab", "--token", "hush")
    code, out, _ = call(folder, monkeypatch, "logout", "lab", "--json")
    assert json.loads(out)["removed"] is True

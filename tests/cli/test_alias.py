"""Queries by the operator's own name, and commands by their old ones."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

import omnigraph as library
from cli.child_process import run_command

SCHEMA = "node Artist { slug: String @key  name: String  born: I32? }"
QUERIES = """\
query born($year: I32, $besides: String) {
  match { $a: Artist  $a.born > $year  $a.slug != $besides }
  return { $a.name }
}
query add($slug: String, $name: String) { insert Artist { slug: $slug, name: $name } }
"""
CONFIG = """\
operator: {actor: act-maria}
aliases:
  born: {store: PLACE, file: mine.gq, query: born, args: [year], params: {besides: x}, format: csv}
  add: {store: PLACE, file: mine.gq, query: add, args: [slug, name], mutate: true}
  sneaky: {store: PLACE, file: mine.gq, query: add, args: [slug, name]}
  far: {server: lab, query: born}
  nowhere: {file: mine.gq}
  lost: {store: PLACE, file: gone.gq}
"""


@pytest.fixture
def home(tmp_path: Path) -> Path:
    graph = library.init(tmp_path / "g.omni", SCHEMA)
    rows = [("ada", "Ada", 1970), ("ben", "Ben", 1950), ("x", "X", 1990)]
    graph.load(
        [{"type": "Artist", "data": {"slug": s, "name": n, "born": b}} for s, n, b in rows],
        "append",
    )
    folder = tmp_path / "home"
    folder.mkdir()
    (folder / "mine.gq").write_text(QUERIES)
    (folder / "config.yaml").write_text(CONFIG.replace("PLACE", str(tmp_path / "g.omni")))
    return folder


def command(*arguments: str, home: Path, stdin: str = "") -> subprocess.CompletedProcess[str]:
    return run_command(*arguments, cwd=home.parent, home=home, stdin=stdin)


def test_an_alias_runs_its_query_where_it_says(home: Path) -> None:
    assert command("alias", "born", "1960", home=home).stdout == "a.name\nAda\n"
    reported = command(
        "alias", "born", "1960", "--params", '{"besides": "ada"}', "--json", home=home
    )
    assert [row["a.name"] for row in json.loads(reported.stdout)["rows"]] == ["X"]


def test_an_alias_that_changes_something_has_to_say_so(home: Path) -> None:
    done = command("alias", "add", "cy", '"7"', "--json", home=home)
    assert json.loads(done.stdout)["actor_id"] == "act-maria"
    assert done.stderr.startswith("alias add → ")
    count = 'query q() { match { $a: Artist { slug: "cy" } } return { $a.name } }'
    assert library.open(home.parent / "g.omni").query(count).rows == [{"a.name": "7"}]
    done = command("alias", "sneaky", "d", "D", home=home)
    assert (done.returncode, done.stdout) == (1, "")
    assert "changes the graph" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "code", "problem"),
    [
        (("nobody",), 1, "no such alias 'nobody'; known: add, born, far, lost, nowhere, sneaky"),
        (("born", "1", "2"), 2, "alias 'born' takes year; 2 were given"),
        (("born",), 1, "missing required parameter"),
        (("far",), 2, "no such server 'lab'"),
        (("nowhere",), 1, "must name a server or a store"),
        (("lost",), 1, "gone.gq: No such file"),
        (("born", "--as", "me", "--store", "x"), 2, "No such option --store, --as for alias"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, tuple) else "",
)
def test_a_mistake_in_an_alias_is_reported(home: Path, arguments, code: int, problem) -> None:
    done = command("alias", *arguments, home=home)
    assert (done.returncode, done.stdout) == (code, ""), done.stderr
    assert problem in done.stderr


@pytest.mark.parametrize(
    "entry", ["{args: year}", "{args: [1]}", "{mutate: maybe}", "{format: xml}", "{params: [1]}"]
)
def test_an_alias_that_cannot_be_read_is_named(tmp_path: Path, entry: str) -> None:
    from omnigraph.client.operator_config import read_config
    from omnigraph.errors import BadRequest

    (tmp_path / "config.yaml").write_text(f"aliases: {{a: {entry}}}")
    with pytest.raises(BadRequest, match=r"aliases\.a\."):
        read_config(tmp_path, pytest.fail)


def test_ingest_is_a_load_that_takes_more_for_granted(home: Path) -> None:
    record = '{"type": "Artist", "data": {"slug": "ada", "name": "Ada V."}}\n'
    arguments = ("ingest", "g.omni", "--data", "-", "--branch", "new", "--json")
    done = command(*arguments, home=home, stdin=record)
    body = json.loads(done.stdout)
    assert (body["mode"], body["base_branch"], body["branch_created"]) == ("merge", "main", True)
    assert done.stderr.startswith("`ingest` is an old name; use `load`\n")
    assert "ingest" not in command("--help", home=home).stdout

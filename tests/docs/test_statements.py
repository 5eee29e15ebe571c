"""Sentences of the pages that were wrong once, each beside what the program does."""

from __future__ import annotations

import datetime
import json
import re
from pathlib import Path

import click
import pytest

import omnigraph
from omnigraph import errors
from omnigraph.cli.main import omnigraph as command_line
from omnigraph.cli.main import run
from omnigraph.errors import ExternalBlobPolicy, OmniError, RowsRejected
from omnigraph.maintenance.retention import FLOOR
from omnigraph.wire.error_bodies import list_error_classes

DOCS = Path(__file__).parents[2] / "docs"


def read_page(name: str) -> str:
    """A page as one line, so that a sentence is found wherever it breaks."""
    return " ".join((DOCS / name).read_text().split())


def find_command(path: str) -> click.Command:
    found: click.Command = command_line
    context = click.Context(command_line)
    for word in path.split():
        assert isinstance(found, click.Group)
        found = found.get_command(context, word)
        assert found is not None, path
    return found


def test_the_commands_documented_to_take_a_branch_do() -> None:
    said, _, rest = (
        read_page("how-to/branches.md")
        .partition("Commands that read or change rows have")[2]
        .partition("Maintenance of the whole graph")
    )
    commands = [path for path in re.findall(r"`([a-z -]+)`", said) if not path.startswith("--")]
    assert len(commands) > 15
    for path in commands:
        assert "--branch" in {o for p in find_command(path).params for o in p.opts}, path
    for path in re.findall(r"`([a-z]+)`", rest.partition(")")[0]):
        assert "--branch" not in {o for p in find_command(path).params for o in p.opts}, path


@pytest.mark.parametrize("kind", list_error_classes().values(), ids=lambda kind: kind.__name__)
def test_every_failure_has_a_code_and_a_kind(kind: type[OmniError]) -> None:
    page = read_page("reference/documents.md")
    words = page.partition("`code` one of a few words (")[2].partition(")")[0]
    assert kind.wire_code in re.findall(r"`(\w+)`", words)
    assert kind.code


def test_wrong_usage_has_a_code_and_a_kind(capsys) -> None:
    for words in (["query", "--nope", "--json"], ["query", "nowhere.omni", "--json"]):
        run(words)
        body = json.loads(capsys.readouterr().out)
        assert {"error", "code", "kind"} <= body.keys()


def test_lists_take_no_null(tmp_path) -> None:
    assert "A list takes no null" in read_page("reference/values.md")
    graph = omnigraph.init(tmp_path / "g.omni", "node T { k: String @key  tags: [String]? }")
    with pytest.raises(RowsRejected, match="null or invalid item at 1"):
        graph.load([{"type": "T", "data": {"k": "a", "tags": ["x", None]}}], "append")


def test_addresses_of_blobs_cannot_be_allowed(tmp_path) -> None:
    assert "no setting that allows one" in read_page("reference/values.md")
    named = re.findall(r"`(OMNIGRAPH_\w+)`", read_page("reference/settings.md"))
    assert len(named) > 20
    assert not [name for name in named if "BLOB" in name or "EXTERNAL" in name]
    graph = omnigraph.init(tmp_path / "g.omni", "node T { k: String @key  b: Blob? }")
    with pytest.raises(ExternalBlobPolicy):
        graph.load([{"type": "T", "data": {"k": "a", "b": "s3://bucket/key"}}], "append")


def test_an_age_keeps_the_newest_three_commits(tmp_path) -> None:
    assert "and the newest three regardless of age" in read_page("how-to/maintain.md")
    assert FLOOR == 3
    graph = omnigraph.init(tmp_path / "g.omni", "node T { k: String @key }")
    for k in "abcde":
        graph.load([{"k": k}], "append", type="T")
    graph.cleanup(older_than=datetime.timedelta(0), confirm=True)
    readable = []
    for commit in graph.commits():
        try:
            readable.append(len(graph.at(commit).nodes("T")))
        except errors.HistoricalVersionReclaimed:
            break
    assert readable == [5, 4, 3]


def test_rows_without_an_order_come_by_identity(tmp_path) -> None:
    assert "Without `order`, the tie breaks are the order" in read_page(
        "reference/query-language.md"
    )
    assert "keeps the first rows by identity" in read_page("reference/query-language.md")
    graph = omnigraph.init(tmp_path / "g.omni", "node T { k: String @key }")
    graph.load([{"k": k} for k in "dbac"], "append", type="T")
    query = "query q() { match { $t: T } return { $t.k } limit 2 }"
    assert [row["t.k"] for row in graph.query(query)] == ["a", "b"]
    (found,) = graph.lint(query).findings
    assert (found.code, "by identity" in found.message) == ("L205", True)


def test_documents_declared_to_have_an_address_have_it(tmp_path, capsys) -> None:
    """`uri` is where the command found the graph; answers about rows alone have none."""
    page = (DOCS / "reference/documents.md").read_text()
    rows = dict(re.findall(r"^\| `(\w+)`[^|]*\| (.*) \|$", page, re.MULTILINE))
    place = str(tmp_path / "g.omni")
    omnigraph.init(place, "node T { k: String @key }")
    data = tmp_path / "in.jsonl"
    data.write_text('{"type": "T", "data": {"k": "a"}}\n')
    for words in (
        ["load", place, "--data", str(data), "--mode", "merge", "--engine", "local"],
        ["mutate", place, "-e", 'insert T { k: "b" }'],
        ["optimize", place],
        ["cleanup", place, "--keep", "1"],
        ["verify", place],
    ):
        assert run([*words, "--json"]) == 0
        document = json.loads(capsys.readouterr().out)
        assert ("uri" in document) == ("`uri`" in rows[words[0]]), words[0]

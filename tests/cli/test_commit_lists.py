"""History that reads like a history: messages, kinds, counts, pages and drawings."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import omnigraph as library
from omnigraph.cli.history_rendering import draw_history
from omnigraph.errors import BadOptions, BadRequest, TypeNotFound
from omnigraph.wire.commit_results import Commit

SCHEMA = """\
node Artist { slug: String @key  name: String }
node Album { slug: String @key }
edge Made: Artist -> Album
"""
ADD = 'insert Artist {{ slug: "{0}", name: "{0}" }}'


def make_commit(commit_id, first=None, second=None) -> Commit:
    return Commit(
        commit_id=commit_id,
        branch="main",
        manifest_version=1,
        parent_commit_id=first,
        merged_parent_commit_id=second,
        actor_id=None,
        created_at=0,
    )


@pytest.fixture(scope="module")
def story(tmp_path_factory):
    """A graph with a commit of nearly every kind."""
    graph = library.init(tmp_path_factory.mktemp("story") / "g.omni", SCHEMA, actor="ada")
    records = [
        {"type": "Artist", "data": {"slug": "a", "name": "A"}},
        {"type": "Album", "data": {"slug": "x"}},
        {"edge": "Made", "from": "a", "to": "x"},
    ]
    graph.load(records, "append", message="  first records\n\nfrom the paper archive \n")
    graph.create_branch("dev")
    graph.branch("dev").mutate(f"query q() {{ {ADD.format('d')} }}", message="on dev", actor="ben")
    graph.mutate('query q() { update Artist set { name: "AA" } where slug = "a" }')
    graph.merge("dev", message="bring dev in")
    graph.mutate('query q() { delete Artist where slug = "d" }', message="not wanted")
    graph.revert("HEAD", message="wanted after all")
    graph.apply_schema(
        SCHEMA.replace("name: String", "name: String  nick: String?"), message="nick"
    )
    return graph


def test_commits_record_their_operation_and_message(story) -> None:
    reported = [(one.kind, one.actor_id, one.message) for one in story.commits()]
    assert reported == [
        ("schema_apply", "ada", "nick"),
        ("revert", "ada", "wanted after all"),
        ("mutation", "ada", "not wanted"),
        ("branch_merge", "ada", "bring dev in"),
        ("mutation", "ada", None),
        ("mutation", "ben", "on dev"),
        ("load", "ada", "first records\n\nfrom the paper archive"),
        ("init", "ada", None),
    ]


def test_commits_count_rows(story) -> None:
    counts = {
        one.message: {t.table_key: (t.inserted, t.updated, t.deleted) for t in one.tables}
        for one in story.commits()
        if one.kind not in ("init", "schema_apply")
    }
    assert counts == {
        "wanted after all": {"node:Artist": (1, 0, 0)},
        "not wanted": {"node:Artist": (0, 0, 1)},
        "bring dev in": {"node:Artist": (1, 0, 0)},
        None: {"node:Artist": (0, 1, 0)},
        "on dev": {"node:Artist": (1, 0, 0)},
        "first records\n\nfrom the paper archive": {
            "edge:Made": (1, 0, 0),
            "node:Album": (1, 0, 0),
            "node:Artist": (1, 0, 0),
        },
    }


def test_a_part_of_the_history_is_listed(story) -> None:
    every = story.commits()
    assert story.commits(limit=2) == every[:2]
    assert story.commits(limit=0) == ()
    pages = [story.commits(limit=3)]
    while pages[-1]:
        pages.append(story.commits(limit=3, before=pages[-1][-1]))
    assert tuple(one for page in pages for one in page) == every
    assert story.commits(after="HEAD~2") == every[:2]
    assert story.commits(after=every[4], before="HEAD") == every[1:4]
    assert story.commits(before=every[3].time) == every[3:]
    assert story.commits(after=every[-1].time.isoformat()) == every[:-1]
    assert [one.kind for one in story.commits(types=["Album"])] == ["load"]
    assert story.commits(types=["Artist", "Made"], kinds=["load"]) == (every[-2],)
    assert story.commits(kinds=["restore"]) == ()


def test_an_invalid_listing_is_refused(story) -> None:
    with pytest.raises(BadOptions, match="-1 commits"):
        story.commits(limit=-1)
    with pytest.raises(TypeNotFound, match="Artst"):
        story.commits(types=["Artst"])
    with pytest.raises(BadRequest, match="is not a commit of branch 'dev'"):
        story.commits("dev", before="main")


def test_commits_of_earlier_releases_are_listed_with_every_type(story) -> None:
    from omnigraph.graph.revisions import _may_concern

    old = make_commit(story.commits()[0].commit_id)
    assert (old.kind, old.message, old.tables) == (None, None, ())
    assert _may_concern(old, ["Album"])


@pytest.mark.parametrize(
    ("message", "said"), [("x" * 10_001, "10,001 characters"), ("\ud800", "surrogate")]
)
def test_a_message_that_cannot_be_stored_is_refused(story, message, said) -> None:
    with pytest.raises(BadOptions, match=said):
        story.mutate('query q() { delete Artist where slug = "none" }', message=message)


def test_blank_messages_are_none(tmp_path) -> None:
    graph = library.init(tmp_path / "g.omni", SCHEMA)
    graph.load([{"type": "Album", "data": {"slug": "x"}}], "append", message=" \n")
    assert "message" not in graph.commits()[0].details


# --- on the command line --------------------------------------------------------------------------


def test_commits_are_listed_in_columns(omnigraph, story) -> None:
    done = omnigraph("commit", "list", story.uri, "--limit", "2")
    assert (done.code, done.err) == (0, f"more: --before {story.commits()[1].commit_id}\n")
    line = r"\w{26}  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  main  ada  (schema_apply|revert      )  .*"
    first, second = done.out.splitlines()
    assert re.fullmatch(line, first)
    assert re.fullmatch(line, second)
    assert second.endswith("  +1  wanted after all")
    more = omnigraph("commit", "list", story.uri, "--type", "Album", "--json")
    assert [one["kind"] for one in json.loads(more.out)["commits"]] == ["load"]
    loads = omnigraph("commit", "list", story.uri, "--kind", "load", "--before", "HEAD~1")
    assert loads.out.endswith("  load  +3  first records\n")


def test_one_commit_is_shown_by_any_name(omnigraph, story) -> None:
    load = story.commits()[-2]
    for name in (load.commit_id, load.commit_id[:25].lower(), "HEAD~5", f"{load.commit_id}~0"):
        done = omnigraph("commit", "show", name, story.uri)
        assert (done.code, done.err) == (0, "")
        assert f"graph_commit_id: {load.commit_id}\n" in done.out
        assert "node:Album: +1\n" in done.out
        assert done.out.endswith("\n\n    first records\n\n    from the paper archive\n")


def test_the_history_is_drawn(omnigraph, story) -> None:
    done = omnigraph("commit", "list", story.uri, "--draw")
    drawn = [re.match(r"[*|\\/_ ]*", line)[0].rstrip() for line in done.out.splitlines()]
    assert drawn == ["*", "*", "*", "*", "|\\", "* |", "| *", "|/", "*", "*"]


def test_every_command_that_commits_takes_a_message(omnigraph, tmp_path: Path) -> None:
    (tmp_path / "s.pg").write_text(SCHEMA)
    (tmp_path / "wider.pg").write_text(SCHEMA + "node Label { slug: String @key }\n")
    (tmp_path / "in.jsonl").write_text('{"type": "Album", "data": {"slug": "x"}}\n')
    for words in (
        ("init", "g.omni", "--schema", "s.pg"),
        (
            "load",
            "g.omni",
            "--data",
            "in.jsonl",
            "--mode",
            "append",
            "--engine",
            "local",
            "-m",
            "1",
        ),
        ("branch", "create", "dev", "g.omni"),
        ("mutate", "g.omni", "-e", ADD.format("a"), "--branch", "dev", "-m", "2"),
        ("mutate", "g.omni", "-e", ADD.format("b"), "--message", "3"),
        ("branch", "merge", "dev", "g.omni", "-m", "4"),
        ("revert", "HEAD~1", "g.omni", "-m", "5"),
        ("cherry-pick", "HEAD~2", "g.omni", "-m", "6"),
        ("restore", "HEAD~1", "g.omni", "-m", "7"),
        ("branch", "delete", "dev", "g.omni"),
        ("schema", "apply", "g.omni", "--schema", "wider.pg", "-m", "8"),
    ):
        done = omnigraph(*words)
        assert done.code == 0, done.err
    messages = [one.message for one in library.open(tmp_path / "g.omni").commits()]
    assert messages == ["8", "7", "6", "5", "4", "3", "2", "1", None]


# --- drawing --------------------------------------------------------------------------------------


def draw(*commits: str) -> list[str]:
    """Draw commits written as `id parent other`."""
    made = []
    for text in commits:
        id, *parents = text.split()
        first, second = (*parents, None, None)[:2]
        made.append(make_commit(id, first, second))
    return [f"{line} {one.commit_id}" if one else line for line, one in draw_history(made)]


def test_a_line_of_commits_is_a_line() -> None:
    assert draw("c b", "b a", "a") == ["* c", "* b", "* a"]


def test_two_heads_join_where_they_parted() -> None:
    assert draw("c a", "d a", "a") == ["* c", "| * d", "|/", "* a"]


def test_a_merge_within_a_merge() -> None:
    assert draw("g f e", "f d", "e d c", "d b", "c b", "b a", "a") == [
        "* g",
        "|\\",
        "* | f",
        "| * e",
        "| |\\",
        "|/ /",
        "* | d",
        "| * c",
        "|/",
        "* b",
        "* a",
    ]


def test_a_parent_outside_the_list_ends_open() -> None:
    assert draw("c b a") == ["* c", "|\\"]

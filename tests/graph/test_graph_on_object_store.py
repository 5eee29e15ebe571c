"""A graph from creation to removal on an S3-compatible server."""

import pytest

import omnigraph
from graph.failing_observers import Trouble, observed
from omnigraph.errors import (
    ConstraintViolated,
    KeyConflict,
    MergeConflicts,
    PreconditionFailed,
    RecoveryRequired,
    SchemaChangeBlocked,
)
from omnigraph.storage.objects.open_store import open_store

pytestmark = pytest.mark.object_store

SCHEMA = """\
node Artist { slug: String @key  name: String  born: I32?  cover: Blob? }
node Album { slug: String @key  title: String }
edge Made: Artist -> Album @card(0..2)
"""
ADD = "query add($s: String) { insert Artist { slug: $s, name: $s } }"
COUNT = "query n() { match { $a: Artist } return { count($a) as n } }"


@pytest.fixture
def graph(s3_server):
    return omnigraph.init(s3_server.new_root(), SCHEMA, settings=s3_server.settings, actor="s3")


def count(graph, branch: str = "main") -> int:
    return graph.query(COUNT, branch=branch).rows[0]["n"]


def test_loading_querying_branching_and_looking_back(graph, s3_server) -> None:
    graph.load(
        [
            {"type": "Artist", "data": {"slug": "ada", "name": "Ada", "cover": "base64:aGk="}},
            {"type": "Album", "data": {"slug": "tides", "title": "Slow Tides"}},
            {"edge": "Made", "from": "ada", "to": "tides"},
        ],
        "append",
    )
    first = graph.commits()[0].commit_id
    graph.create_branch("review")
    graph.branch("review").mutate(ADD, params={"s": "ben"})
    graph.branch("review").mutate('query q() { delete Artist where slug = "ada" }')
    graph.mutate(ADD, params={"s": "cy"})
    assert (count(graph), count(graph, "review")) == (2, 1)
    assert len(list(graph.at(commit=first).export())) == 3
    again = omnigraph.open(graph.uri, settings=s3_server.settings)
    assert again.branches() == ["main", "review"]
    assert list(again.export()) == list(graph.export())
    graph.delete_branch("review")
    assert again.branches() == ["main"]


def test_rules_and_conflicts_are_the_same(graph) -> None:
    graph.mutate(ADD, params={"s": "ada"})
    head = graph.commits()[0].commit_id
    with pytest.raises(KeyConflict):
        graph.load([{"type": "Artist", "data": {"slug": "ada", "name": "A"}}], "append")
    with pytest.raises(ConstraintViolated):
        graph.load([{"edge": "Made", "from": "ada", "to": "ghost"}], "append")
    graph.mutate(ADD, params={"s": "ben"})
    with pytest.raises(PreconditionFailed):
        graph.mutate(ADD, params={"s": "cy"}, expected_head=head)
    assert count(graph) == 2


def test_two_handles_take_turns(graph, s3_server) -> None:
    other = omnigraph.open(graph.uri, settings=s3_server.settings)
    for number in range(4):
        graph.mutate(ADD, params={"s": f"a{number}"})
        other.mutate(ADD, params={"s": f"b{number}"})
    assert count(graph) == count(other) == 8
    parents = [commit.parent_commit_id for commit in graph.commits()]
    assert parents[:-1] == [commit.commit_id for commit in graph.commits()[1:]]
    assert graph.recovery_pending() == []


def test_a_graph_recreated_in_its_folder_is_read_as_it_is(graph, s3_server) -> None:
    named = "query n() { match { $a: Artist } return { $a.slug } }"
    graph.mutate(ADD, params={"s": "ada"})
    assert graph.query(named).rows == [{"a.slug": "ada"}]
    store = open_store(graph.uri, s3_server.settings)
    for path in (*store.list(""), *store.list_prefixes("")):
        store.delete_prefix(path)
        store.delete(path)
    again = omnigraph.init(graph.uri, SCHEMA, settings=s3_server.settings)
    again.mutate(ADD, params={"s": "ben"})
    for handle in (again, graph, omnigraph.open(graph.uri, settings=s3_server.settings)):
        assert handle.query(named).rows == [{"a.slug": "ben"}]
    graph.mutate(ADD, params={"s": "cy"})
    assert count(again) == count(graph) == 2


@pytest.mark.parametrize("verb", ["mutate", "load", "apply_schema", "merge", "open"])
def test_a_publish_that_failed_is_finished_by_the_next_writer(graph, s3_server, verb) -> None:
    graph.mutate(ADD, params={"s": "ada"})
    graph.create_branch("dev")
    graph.branch("dev").mutate(ADD, params={"s": "ben"})
    with observed(Trouble("before", "commit", "*/__manifest*", times=2)):
        handle = omnigraph.open(graph.uri, settings=s3_server.settings, actor="me")
        with pytest.raises(RecoveryRequired):
            handle.mutate(ADD, params={"s": "cy"})
        assert count(handle) == 1
        assert len(handle.recovery_pending()) == 1
        match verb:
            case "mutate":
                handle.mutate(ADD, params={"s": "dee"})
            case "load":
                rows = [{"type": "Album", "data": {"slug": "tides", "title": "T"}}]
                handle.load(rows, "append")
            case "apply_schema":
                handle.apply_schema(SCHEMA + "node Label { slug: String @key }\n")
            case "merge":
                handle.merge("dev")
            case _:
                omnigraph.open(graph.uri, settings=s3_server.settings)
    names = "query n() { match { $a: Artist } return { $a.slug } }"
    assert {"a.slug": "cy"} in graph.query(names).rows
    healed = next(audit for audit in graph.recovery_list() if str(audit.kind) == "RolledForward")
    commits = {commit.commit_id: commit for commit in graph.commits()}
    assert commits[healed.commit_id].actor_id == "me"
    assert graph.recovery_pending() == []
    assert graph.verify(deep=True).is_sound


def test_the_schema_changes_with_rows_and_branches_in_place(graph, s3_server) -> None:
    graph.load(
        [{"type": "Artist", "data": {"slug": f"a{n}", "name": f"N{n}"}} for n in range(3)], "append"
    )
    first = graph.commits()[0].commit_id
    graph.create_branch("dev")
    graph.branch("dev").mutate(ADD, params={"s": "late"})
    more = SCHEMA.replace("born: I32?", "born: I32?  rank: I32 @default(7)  label: String?")
    done = graph.apply_schema(more, expressions={"Artist.label": "upper(name)"})
    assert [(t.table_key, str(t.effect)) for t in done.tables] == [("node:Artist", "columns")]
    wide = more.replace("born: I32?", 'year: I64? @rename_from("born")')
    with pytest.raises(SchemaChangeBlocked):
        graph.apply_schema(wide)
    graph.merge("dev", delete_branch=True)
    fill = "query q() { update Artist set { born: 1900 } where born is null }"
    assert graph.apply_schema(wide.replace("I64?", "I64"), mutations=[fill]).applied
    fresh = omnigraph.open(graph.uri, settings=s3_server.settings)
    for handle in (graph, fresh):
        rows = sorted((r["data"] for r in handle.export(["Artist"])), key=lambda row: row["slug"])
        assert [(r["slug"], r["year"], r["rank"], r["label"]) for r in rows] == [
            *((f"a{n}", 1900, 7, f"N{n}") for n in range(3)),
            ("late", 1900, 7, None),
        ]
        assert handle.at(commit=first).schema == SCHEMA
        assert "year" not in next(handle.at(commit=first).export(["Artist"]))["data"]
    bare = wide.replace("I64?", "I64").replace("  label: String?", "")
    assert graph.apply_schema(bare, allow_data_loss=True).applied
    assert "label" not in next(fresh.export(["Artist"]))["data"]
    assert fresh.verify(deep=True).is_sound


def test_branches_come_home_and_mistakes_are_undone(graph, s3_server) -> None:
    graph.mutate(ADD, params={"s": "ada"})
    graph.tag("start")
    graph.create_branch("dev")
    for branch, year in (("main", 1), ("dev", 2)):
        text = f'query q() {{ update Artist set {{ born: {year} }} where slug = "ada" }}'
        graph.branch(branch).mutate(text)
        graph.branch(branch).mutate(ADD, params={"s": branch})
    with pytest.raises(MergeConflicts):
        graph.merge("dev")
    merged = graph.merge("dev", resolve="theirs").commit
    assert {r["data"]["slug"]: r["data"]["born"] for r in graph.export(["Artist"])} == {
        "ada": 2,
        "main": None,
        "dev": None,
    }
    graph.revert(merged.commit_id, parent=1)
    assert {r["data"]["slug"]: r["data"]["born"] for r in graph.export(["Artist"])} == {
        "ada": 1,
        "main": None,
    }
    graph.restore("start")
    fresh = omnigraph.open(graph.uri, settings=s3_server.settings)
    assert count(fresh) == 1
    assert count(fresh, "dev") == 2
    assert fresh.verify(deep=True).is_sound

"""Sequences of branches, merges and clean-up that have broken versioned stores before."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress

import pytest

import omnigraph
from omnigraph.errors import AlreadyExists, MergeConflicts, OmniError, PreconditionFailed

SCHEMA = """
node Person { name: String @key  age: I32? }
edge Knows: Person -> Person { since: I32? }
"""
KNOWN = 'query q() { match { $p: Person { name: "Ada" }  $p knows $f } return { $f.name } }'


@pytest.fixture
def graph(tmp_path):
    settings = omnigraph.Settings(cleanup_grace_s=0)  # no other process writes
    graph = omnigraph.init(tmp_path / "graph", SCHEMA, settings=settings)
    graph.load([person("Ada", age=10), person("Ben", age=20), knows("Ada", "Ben")], "append")
    return graph


def person(name: str, **values: object) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, **values}}


def knows(source: str, target: str) -> dict[str, object]:
    return {"edge": "Knows", "from": source, "to": target, "data": {"id": f"{source}-{target}"}}


def names(graph, branch: str = "main") -> set[str]:
    return {one["data"]["name"] for one in graph.export(["Person"], branch=branch)}


def friends(graph, branch: str = "main") -> list[str]:
    return sorted(row["f.name"] for row in graph.query(KNOWN, branch=branch).rows)


def run(graph, statements: str, branch: str = "main") -> str:
    return graph.mutate(f"query q() {{ {statements} }}", branch=branch).commit.commit_id


def test_traversals_on_a_warm_graph_follow_every_merge_revert_and_restore(graph):
    """Queries keep one version in memory; going back shows a lower one."""
    graph.create_branch("dev")
    assert friends(graph) == friends(graph, "dev") == ["Ben"]
    graph.load([person("Cy"), knows("Ada", "Cy")], "append", branch="dev")
    assert friends(graph, "dev") == ["Ben", "Cy"]
    merged = graph.merge("dev").commit.commit_id
    assert friends(graph) == ["Ben", "Cy"]
    graph.create_branch("back")
    assert friends(graph, "back") == ["Ben", "Cy"]
    graph.restore("2", branch="back")
    assert friends(graph, "back") == ["Ben"]
    graph.revert(merged, parent=1)
    assert friends(graph) == ["Ben"]
    graph.restore(merged)
    assert friends(graph) == ["Ben", "Cy"]


def test_a_source_whose_tables_count_lower_is_merged_all_the_same(graph):
    """The target's tables have many versions, the source's few."""
    graph.create_branch("few")
    for number in range(12):
        graph.load([person("Ada", age=number)], "merge")
    graph.restore("2")
    graph.load([person("Ada", age=99)], "merge", branch="few")
    assert graph.merge("few").outcome == "merged"
    assert {r["data"]["name"]: r["data"]["age"] for r in graph.export(["Person"])} == {
        "Ada": 99,
        "Ben": 20,
    }


def test_a_second_merge_keeps_what_the_first_brought(graph):
    for name in ("one", "two"):
        graph.create_branch(name)
    for name in ("one", "two"):
        graph.load([person(name)], "append", branch=name)
        graph.merge(name)
    assert names(graph) == {"Ada", "Ben", "one", "two"}


def test_a_change_merged_by_both_branches_is_no_conflict_between_them(graph):
    """Their newest common commit is a merged parent of each, and a first parent of neither."""
    for name in ("one", "two", "shared"):
        graph.create_branch(name)
    graph.load([person("Ada", age=50)], "merge", branch="shared")
    for name in ("one", "two"):
        graph.load([person(name)], "append", branch=name)
        graph.merge("shared", name)
    graph.load([person("Ada", age=51)], "merge", branch="one")
    assert graph.merge("one", "two").outcome == "merged"
    assert {
        r["data"]["name"]: r["data"]["age"] for r in graph.export(["Person"], branch="two")
    } == {
        "Ada": 51,
        "Ben": 20,
        "one": None,
        "two": None,
    }
    graph.merge("two")
    assert names(graph) == {"Ada", "Ben", "one", "two"}


def test_a_way_back_to_its_start_is_one_way_and_not_a_hundred(graph):
    """A variable that occurs twice is one entity, and an edge to itself leads to no other node."""
    graph.load([knows("Ada", "Ada"), knows("Ben", "Ada")], "append")
    circle = (
        "query q() { match { $p: Person  $p knows $f  $f knows $p } return { $p.name, $f.name } }"
    )
    alone = "query q() { match { $p: Person  $p knows $p } return { $p.name } }"
    reached = "query q() { match { $p: Person  $p knows{1,100} $f } return { $p.name, $f.name } }"
    assert sorted((r["p.name"], r["f.name"]) for r in graph.query(circle).rows) == [
        ("Ada", "Ada"),
        ("Ada", "Ben"),
        ("Ben", "Ada"),
    ]
    assert [r["p.name"] for r in graph.query(alone).rows] == ["Ada"]
    found = [(r["p.name"], r["f.name"]) for r in graph.query(reached).rows]
    assert sorted(set(found)) == [("Ada", "Ada"), ("Ada", "Ben"), ("Ben", "Ada")]
    assert len(found) <= 4, "an edge to oneself is walked once"


def test_the_first_commit_of_a_branch_is_checked_like_any_other(graph):
    graph.create_branch("dev")
    graph.load([person("Ada", age=11)], "merge", branch="dev")
    graph.load([person("Ada", age=12)], "merge")
    with pytest.raises(MergeConflicts):
        graph.merge("dev")


def test_a_refused_merge_blocks_no_writer(graph):
    graph.create_branch("dev")
    for branch, age in (("main", 11), ("dev", 12)):
        graph.load([person("Ada", age=age)], "merge", branch=branch)
    for _ in range(2):
        with pytest.raises(MergeConflicts):
            graph.merge("dev")
    assert graph.recovery_pending() == []
    for branch in ("main", "dev"):
        run(graph, 'insert Person { name: "Cy" }', branch)
    fresh = omnigraph.open(graph.uri)
    assert names(fresh) == names(fresh, "dev") == {"Ada", "Ben", "Cy"}


def test_a_fast_forward_leaves_the_children_of_both_sides_readable(graph):
    graph.create_branch("dev")
    graph.load([person("Cy")], "append", branch="dev")
    graph.create_branch("child-of-dev", source="dev")
    graph.create_branch("child-of-main")
    assert graph.merge("dev").outcome == "fast_forward"
    graph.load([person("Di")], "append")
    graph.cleanup(keep=1, confirm=True)
    fresh = omnigraph.open(graph.uri)
    assert names(fresh, "child-of-dev") == {"Ada", "Ben", "Cy"}
    assert names(fresh, "child-of-main") == {"Ada", "Ben"}
    for child in ("child-of-dev", "child-of-main"):
        assert fresh.merge("main", child).outcome == "fast_forward"
        assert names(fresh, child) == {"Ada", "Ben", "Cy", "Di"}
    assert fresh.verify(deep=True).is_sound


def test_loading_the_same_rows_again_leaves_nothing_pending(graph):
    rows = [person("Ada", age=10), person("Ben", age=20), knows("Ada", "Ben")]
    graph.create_branch("dev")
    for branch in ("dev", "main", "dev"):
        graph.load(rows, "merge", branch=branch)
    assert graph.merge("dev").tables == ()
    assert omnigraph.open(graph.uri).recover() == []


def test_a_deleted_row_does_not_come_back_with_a_compaction(graph):
    graph.create_branch("dev")
    for number in range(4):
        graph.load([person(f"p{number}")], "append")
    graph.merge("main", "dev")
    run(graph, 'delete Person where name = "p1"', "dev")
    graph.optimize()
    graph.load([person("Ada", age=11)], "merge")
    graph.merge("dev")
    assert "p1" not in names(graph)
    graph.optimize(branch="dev")
    graph.merge("main", "dev")
    assert "p1" not in names(graph, "dev")


def test_cleanup_takes_nothing_that_a_branch_shows_from_elsewhere(graph):
    """A branch that was restored shows versions that main has left behind."""
    graph.tag("start")
    for number in range(4):
        graph.load([person(f"p{number}")], "append")
    graph.create_branch("dev")
    graph.restore("start", branch="dev")
    graph.delete_tag("start")
    graph.optimize()
    for _ in range(2):
        graph.cleanup(keep=1, confirm=True)
    fresh = omnigraph.open(graph.uri)
    assert names(fresh, "dev") == {"Ada", "Ben"}
    assert friends(fresh, "dev") == ["Ben"]
    assert fresh.verify(deep=True).is_sound


@pytest.mark.parametrize(
    "id", ["Žofie", "日本", "o'clock", 'say "hi"', "e\u0301", "\U0001f600", "%41/.."]
)
def test_ids_of_any_script_go_through_merges_and_reverts(graph, id):
    graph.create_branch("dev")
    graph.load([person(id, age=1), knows(id, "Ada")], "append", branch="dev")
    merged = graph.merge("dev").commit.commit_id
    graph.load([person(id, age=2)], "merge")
    graph.load([person(id, age=3)], "merge", branch="dev")
    (conflict,) = graph.merge("dev", dry_run=True).conflicts
    assert conflict.id == id
    graph.merge("dev", decisions=[{**conflict.wire(), "take": "source"}])
    assert [r["data"]["age"] for r in graph.export(["Person"]) if r["data"]["name"] == id] == [3]
    graph.revert(merged, parent=1, resolve="theirs")
    assert names(graph) == {"Ada", "Ben"}


def test_of_many_who_make_one_tag_one_does(graph):
    def make(number: int) -> bool:
        try:
            omnigraph.open(graph.uri).tag("v1", actor=str(number))
        except AlreadyExists:
            return False
        return True

    with ThreadPoolExecutor(4) as threads:
        assert sum(threads.map(make, range(8))) == 1
    assert len(graph.tags()) == 1


def test_a_blob_of_a_recreated_branch_is_never_that_of_the_new_one(tmp_path):
    graph = omnigraph.init(tmp_path / "photos", "node Photo { slug: String @key  image: Blob? }")
    blobs = []
    for payload in ("base64:b2xk", "base64:bmV3"):
        graph.create_branch("dev")
        row = {"type": "Photo", "data": {"slug": "a", "image": payload}}
        graph.load([row], "merge", branch="dev")
        blobs.append(graph.read_blob("Photo", "a", "image", branch="dev"))
        if len(blobs) == 1:
            graph.delete_branch("dev")
    old, new = blobs
    with suppress(OmniError):  # its files may be gone by now
        assert old.read() == b"old"
    assert new.read() == b"new"


def test_a_history_from_first_load_to_last_reopening_loses_nothing(graph):
    """Branches, merges, another schema, maintenance and strict writes, one after the other."""
    for name in ("one", "two"):
        graph.create_branch(name)
        graph.load([person(name), knows(name, "Ada")], "append", branch=name)
    graph.load([person("main")], "append")
    for name in ("one", "two"):
        assert graph.merge(name, delete_branch=True).branch_deleted
    graph.apply_schema(SCHEMA.replace("age: I32?", "age: I32?  nick: String?"))
    graph.optimize()
    graph.cleanup(keep=1, confirm=True)
    head = graph.commits()[0].commit_id
    changed = 'query q() { update Person set { nick: "A" } where name = "Ada" }'
    graph.mutate(changed, expected_head=head)
    with pytest.raises(PreconditionFailed):
        graph.mutate(changed, expected_head=head)
    fresh = omnigraph.open(graph.uri)
    assert names(fresh) == {"Ada", "Ben", "one", "two", "main"}
    assert {(r["from"], r["to"]) for r in fresh.export(["Knows"])} == {
        ("Ada", "Ben"),
        ("one", "Ada"),
        ("two", "Ada"),
    }
    assert fresh.branches() == ["main"]
    assert fresh.verify(deep=True).is_sound

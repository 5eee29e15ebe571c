"""Merging branches through the library: previews, rules, decisions and errors."""

from __future__ import annotations

import json

import pytest

import omnigraph
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    MergeBaseUnavailable,
    MergeConflicts,
    PreconditionFailed,
)

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  score: F64?
  tags: [String]?
  log: [String]?
  photo: Blob?
}
node Badge {
  code: String @key
  owner: String @unique
}
edge Knows: Person -> Person { since: I32? }
edge Holds: Person -> Badge @card(0..1)
"""
BASE = [
    {
        "type": "Person",
        "data": {"name": "Ada", "age": 10, "score": 1.0, "tags": ["x"], "log": ["one"]},
    },
    {"type": "Person", "data": {"name": "Ben", "age": 20}},
]


@pytest.fixture
def graph(tmp_path):
    settings = omnigraph.Settings(cleanup_grace_s=0)  # no other process writes
    graph = omnigraph.init(tmp_path / "graph", SCHEMA, actor="maria", settings=settings)
    graph.load(BASE, "append")
    graph.create_branch("dev")
    return graph


def person(name: str, **values: object) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, **values}}


def put(graph, branch: str, *rows: dict[str, object]) -> None:
    graph.load(list(rows), "merge", branch=branch)


def read(graph, name: str, branch: str = "main") -> dict[str, object] | None:
    for one in graph.export(["Person"], branch=branch):
        if one["data"]["name"] == name:
            return one["data"]
    return None


def clash(graph) -> None:
    """Ada changed on both sides, in every property."""
    ours = {"age": 15, "score": 2.0, "tags": ["x", "y"], "log": ["one", "two"]}
    theirs = {"age": 13, "score": 4.0, "tags": ["z", "x"], "log": ["one", "three"]}
    put(graph, "main", person("Ada", **ours))
    put(graph, "dev", person("Ada", **theirs))


def cleaned(graph) -> None:
    """Remove everything that cleanup may remove, as if no process wrote."""
    graph.cleanup(keep=1, confirm=True)


# --- previews -------------------------------------------------------------------------------------


def test_a_preview_counts_and_lists_and_writes_nothing(graph):
    clash(graph)
    put(graph, "dev", person("Cy"))
    before, version = list(graph.export()), graph.snapshot().graph_manifest_version
    preview = graph.merge("dev", dry_run=True)
    assert preview.commit is None
    assert [table.wire() for table in preview.tables] == [
        {
            "entity_kind": "node",
            "type_name": "Person",
            "inserted": 1,
            "updated": 0,
            "deleted": 0,
            "conflicts": 1,
        }
    ]
    (conflict,) = preview.conflicts
    assert (conflict.kind, conflict.id) == ("divergent_update", "Ada")
    assert [side["age"] for side in (conflict.base, conflict.source, conflict.target)] == [
        10,
        13,
        15,
    ]
    (row,) = preview.conflict_table.to_pylist()
    assert json.loads(row["target"])["tags"] == ["x", "y"]
    assert (list(graph.export()), graph.snapshot().graph_manifest_version) == (before, version)


@pytest.mark.parametrize(
    ("id", "take", "counts"),
    [
        ("Ben", "source", (1, 0, 0)),
        ("Ben", "base", (1, 0, 0)),
        ("Ben", {"age": 30}, (1, 0, 0)),
        ("Cy", "source", (0, 1, 0)),
    ],
)
def test_counts_are_of_what_changes_in_the_target(graph, id, take, counts):
    """Ben comes back to main, where he was deleted; Cy exists already."""
    put(graph, "dev", person("Ben", age=21), person("Cy", age=1))
    graph.mutate('query q() { delete Person where name = "Ben" }')
    put(graph, "main", person("Cy", age=2))
    decisions = graph.merge("dev", dry_run=True).wire()["conflicts"]
    for one in decisions:
        one["take"] = take if one["entity_id"] == id else "target"
    (table,) = graph.merge("dev", decisions=decisions).tables
    assert (table.inserted, table.updated, table.deleted) == counts
    (recorded,) = graph.commits()[0].tables
    assert (recorded.inserted, recorded.updated, recorded.deleted) == counts
    (change,) = graph.commit_changes("HEAD").changes
    assert counts == tuple(change.op == op for op in ("insert", "update", "delete"))


def test_a_conflict_about_blobs_of_one_size_names_them(graph):
    for branch, photo in (("main", "base64:AAAA"), ("dev", "base64:AAAB")):
        put(graph, branch, person("Ben", age=20, photo=photo))
    (conflict,) = graph.merge("dev", dry_run=True).conflicts
    assert conflict.message == "Person 'Ben' was changed on both sides, with different photo"


def test_a_preview_works_on_a_graph_that_is_open_for_reading(graph):
    clash(graph)
    reader = omnigraph.open(graph.uri, read_only=True)
    assert len(reader.merge("dev", dry_run=True).conflicts) == 1
    with pytest.raises(BadRequest, match="read-only"):
        reader.merge("dev")


# --- rules ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resolve", "expected"),
    [
        ("ours", {"age": 15, "tags": ["x", "y"]}),
        ("theirs", {"age": 13, "tags": ["z", "x"]}),
        ("newest", {"age": 13, "tags": ["z", "x"]}),
        ({"*": "ours", "Person": "theirs"}, {"age": 13, "score": 4.0}),
        (
            [
                *("Person.age=sum", "Person.score=max", "Person.tags=union", "Person.log=append"),
                "Person.photo=ours",
            ],
            {"age": 18, "score": 4.0, "tags": ["x", "y", "z"], "log": ["one", "two", "three"]},
        ),
        (["ours", "Person.age=min"], {"age": 13, "score": 2.0}),
    ],
)
def test_rules_decide_conflicts_and_are_recorded(graph, resolve, expected):
    clash(graph)
    done = graph.merge("dev", resolve=resolve)
    found = read(graph, "Ada")
    assert {name: found[name] for name in expected} == expected
    assert sum(done.resolved.values()) > 0
    assert graph.commits()[0].details["merge"]["resolved"] == done.resolved


def test_a_property_only_one_side_changed_is_no_matter_of_the_rules(graph):
    put(graph, "main", person("Ada", age=15, score=1.0, tags=["x"], log=["ours"]))
    put(graph, "dev", person("Ada", age=13, score=9.0, tags=["x"], log=["one"]))
    done = graph.merge("dev", resolve="Person.age=max")
    assert done.resolved == {"Person.age=max": 1}
    found = read(graph, "Ada")
    assert (found["age"], found["score"], found["log"]) == (15, 9.0, ["ours"])


def test_a_conflict_without_a_rule_stays_a_conflict(graph):
    clash(graph)
    with pytest.raises(MergeConflicts):
        graph.merge("dev", resolve="Person.age=max")


def test_a_rule_for_rows_decides_about_a_deletion(graph):
    put(graph, "main", person("Ben", age=21))
    graph.mutate('query q() { delete Person where name = "Ben" }', branch="dev")
    with pytest.raises(MergeConflicts, match="deleted in the source and changed in the target"):
        graph.merge("dev", resolve="Person.age=max")
    graph.merge("dev", resolve="theirs")
    assert read(graph, "Ben") is None


def test_newest_compares_each_entity_and_not_the_branch(graph):
    """Ben was changed last on main, Ada on dev; the newest commit of all is about neither."""
    put(graph, "dev", person("Ben", age=21))
    put(graph, "main", person("Ada", age=12), person("Ben", age=22))
    put(graph, "dev", person("Ada", age=11))
    put(graph, "main", person("Cy"))
    done = graph.merge("dev", resolve="newest")
    assert (read(graph, "Ada")["age"], read(graph, "Ben")["age"]) == (11, 22)
    assert done.resolved == {"newest": 2}


def test_newest_may_be_about_one_property(graph):
    """The age was changed last on main, the score on dev."""
    lists = {"tags": ["x"], "log": ["one"]}
    put(graph, "dev", person("Ada", age=13, score=1.0, **lists))
    put(graph, "main", person("Ada", age=15, score=2.0, **lists))
    put(graph, "dev", person("Ada", age=13, score=4.0, **lists))
    graph.merge("dev", resolve=["Person.age=newest", "Person.score=newest"])
    found = read(graph, "Ada")
    assert (found["age"], found["score"]) == (15, 4.0)


def test_newest_follows_a_change_through_merges_to_its_origin(graph):
    """The change came to main with a merge that is younger than the change on dev."""
    graph.create_branch("early")
    put(graph, "early", person("Ada", age=12))
    put(graph, "dev", person("Ada", age=11))
    put(graph, "main", person("Cy"))
    graph.merge("early")
    graph.merge("dev", resolve="newest")
    assert read(graph, "Ada")["age"] == 11


def test_newest_counts_a_deletion(graph):
    put(graph, "main", person("Ben", age=21))
    graph.mutate('query q() { delete Person where name = "Ben" }', branch="dev")
    graph.merge("dev", resolve="newest")
    assert read(graph, "Ben") is None


def test_newest_is_inferred_where_cleanup_retained_enough_and_refused_where_not(graph):
    """Three states of main remain as bases: before, between and after dev's change."""
    put(graph, "main", person("Ada", age=12))
    put(graph, "dev", person("Ada", age=11))
    put(graph, "main", person("Cy"))
    cleaned(graph)
    fresh = omnigraph.open(graph.uri)
    with pytest.raises(MergeBaseUnavailable):
        fresh.merge("dev", resolve="newest")
    put(graph, "dev", person("Ada", age=13))
    assert fresh.merge("dev", resolve="newest").resolved == {"newest": 1}
    assert read(graph, "Ada")["age"] == 13


@pytest.mark.parametrize(
    ("ours", "theirs"),
    [("2026-02-01T00:00:00Z", "2026-01-01T00:00:00Z"), (True, False), ("b", "a"), (2.5, 1.5)],
)
def test_the_larger_and_the_smaller_of_every_type_that_has_an_order(tmp_path, ours, theirs):
    type_ = {str: "String", bool: "Bool", float: "F64"}[type(ours)]
    type_ = "DateTime" if "Z" in str(ours) else type_
    schema = f"node T {{ k: String @key  large: {type_}?  small: {type_}?  either: {type_}? }}"
    graph = omnigraph.init(tmp_path / "graph", schema)
    graph.create_branch("dev")
    for branch, value, either in (("main", ours, None), ("dev", theirs, theirs)):
        row = {"k": "a", "large": value, "small": value, "either": either}
        put(graph, branch, {"type": "T", "data": row})
    graph.load([{"type": "T", "data": {"k": "x", "large": ours, "small": theirs}}], "append")
    graph.merge("dev", resolve=["T.large=max", "T.small=min", "T.either=max"])
    rows = {one["data"]["k"]: one["data"] for one in graph.export()}
    assert (rows["a"]["large"], rows["a"]["small"]) == (rows["x"]["large"], rows["x"]["small"])
    assert rows["a"]["either"] == rows["x"]["small"], "null is neither larger nor smaller"


def test_a_resolved_merge_is_checked_like_any_other(graph):
    """The sum is fine; no rule decides that a person may hold only one badge."""
    badges = [{"type": "Badge", "data": {"code": code, "owner": code}} for code in ("a", "b")]
    graph.load(badges, "append")
    graph.merge("main", "dev")
    clash(graph)
    for branch, code in (("main", "a"), ("dev", "b")):
        graph.load([{"edge": "Holds", "from": "Ada", "to": code}], "append", branch=branch)
    with pytest.raises(MergeConflicts) as raised:
        graph.merge("dev", resolve="theirs")
    assert [one.kind for one in raised.value.conflicts] == ["cardinality_violation"]
    assert read(graph, "Ada")["age"] == 15


def test_rules_of_the_schema_are_checked_across_the_branches(graph):
    for branch, code in (("main", "a"), ("dev", "b")):
        row = {"type": "Badge", "data": {"code": code, "owner": "Ada"}}
        graph.load([row], "append", branch=branch)
    with pytest.raises(MergeConflicts) as raised:
        graph.merge("dev")
    assert [one.kind for one in raised.value.conflicts] == ["unique_violation"]


def test_a_node_deleted_in_the_target_is_missed_by_an_edge_of_the_source(graph):
    graph.mutate('query q() { delete Person where name = "Ben" }', branch="dev")
    graph.load([{"edge": "Knows", "from": "Ada", "to": "Ben"}], "append")
    with pytest.raises(MergeConflicts) as raised:
        graph.merge("main", "dev")
    assert [one.kind for one in raised.value.conflicts] == ["orphan_edge"]


@pytest.mark.parametrize(
    ("resolve", "complaint"),
    [
        ("mine", "no such rule 'mine'"),
        ("max", "single property"),
        ("Persons=ours", "no such type 'Persons'"),
        ("Person.size=max", "no property 'size'"),
        ("Person.tags=sum", "does not fit"),
        ("Person.age=union", "does not fit"),
        (["Person.age=max", "Person.age=min"], "two conflict rules for Person.age"),
        (["ours", "*=theirs"], "two conflict rules for everything"),
    ],
)
def test_a_rule_that_cannot_be_meant_is_refused(graph, resolve, complaint):
    clash(graph)
    with pytest.raises(BadRequest, match=complaint):
        graph.merge("dev", resolve=resolve)


# --- decisions ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("take", "age"), [("source", 13), ("target", 15), ("base", 10), ({"age": 99}, 99)]
)
def test_a_preview_with_decisions_filled_in_decides(graph, tmp_path, take, age):
    clash(graph)
    body = graph.merge("dev", dry_run=True).wire()
    body["conflicts"][0]["take"] = take
    file = tmp_path / "decisions.json"
    file.write_text(json.dumps(body))
    done = graph.merge("dev", decisions=file)
    assert done.resolved == {"decision": 1}
    assert read(graph, "Ada")["age"] == age


@pytest.mark.parametrize(
    ("decision", "complaint"),
    [
        (
            {"entity_kind": "node", "type_name": "Person", "entity_id": "Ben", "take": "source"},
            "do not conflict",
        ),
        (
            {"entity_kind": "node", "type_name": "Nobody", "entity_id": "Ben", "take": "source"},
            "no such type",
        ),
        ({"entity_kind": "node", "type_name": "Person", "take": "source"}, "no entity_id"),
        ("source", "a decision is a conflict as a preview lists it, not 'source'"),
        (
            {"entity_kind": "node", "type_name": "Person", "entity_id": "Ada", "take": "mine"},
            "must be source, target, base",
        ),
        (
            {"entity_kind": "node", "type_name": "Person", "entity_id": "Ada", "take": {"size": 1}},
            "no such property 'size'",
        ),
        (
            {
                "entity_kind": "node",
                "type_name": "Person",
                "entity_id": "Ada",
                "take": {"age": "x"},
            },
            "decision about Person 'Ada'",
        ),
        (
            {
                "entity_kind": "node",
                "type_name": "Person",
                "entity_id": "Ada",
                "take": {"name": "Eve"},
            },
            "'name' is a @key property, which cannot be changed",
        ),
    ],
)
def test_a_decision_that_cannot_be_meant_is_refused(graph, decision, complaint):
    clash(graph)
    with pytest.raises(BadRequest, match=complaint):
        graph.merge("dev", decisions=[decision])


def test_a_decision_may_name_the_key_and_leaves_what_is_required_filled(graph):
    badge = {"type": "Badge", "data": {"code": "a", "owner": "Ada"}}
    for branch, owner in (("main", "Ada"), ("dev", "Ben")):
        put(graph, branch, {**badge, "data": {"code": "a", "owner": owner}})
    (conflict,) = graph.merge("dev", dry_run=True).wire()["conflicts"]
    with pytest.raises(BadRequest, match="Badge 'a': 'owner' cannot be null"):
        graph.merge("dev", decisions=[{**conflict, "take": {"owner": None}}])
    graph.merge("dev", decisions=[{**conflict, "take": {"code": "a", "owner": "Cy"}}])
    assert [one["data"]["owner"] for one in graph.export(["Badge"])] == ["Cy"]


def test_a_file_without_decisions_is_refused(graph, tmp_path):
    (tmp_path / "bad.json").write_text("{}")
    with pytest.raises(BadRequest, match="does not hold a list of conflicts"):
        graph.merge("dev", decisions=tmp_path / "bad.json")


# --- branches -------------------------------------------------------------------------------------


@pytest.mark.parametrize(("source", "into"), [("dev", "dev"), ("main", " main ")])
def test_a_branch_is_not_merged_into_itself(graph, source, into):
    with pytest.raises(BadRequest, match="into itself"):
        graph.merge(source, into)


@pytest.mark.parametrize(("source", "into"), [("nope", "main"), ("dev", "nope")])
def test_an_unknown_branch_is_not_found(graph, source, into):
    with pytest.raises(BranchNotFound):
        graph.merge(source, into)


def test_a_merge_can_insist_on_the_head_it_was_previewed_on(graph):
    put(graph, "dev", person("Cy"))
    with pytest.raises(PreconditionFailed):
        graph.merge("dev", expected_head=graph.commits()[-1].commit_id)
    assert graph.merge("dev", expected_head=graph.commits()[0].commit_id).outcome == "fast_forward"


def test_a_merge_may_delete_its_source(graph):
    put(graph, "dev", person("Cy"))
    assert graph.merge("dev", delete_branch=True).branch_deleted
    assert graph.branches() == ["main"]


def test_a_source_that_must_stay_does_not_fail_the_merge(graph):
    put(graph, "dev", person("Cy"))
    graph.create_branch("sub", source="dev")
    done = graph.merge("dev", delete_branch=True)
    assert (done.branch_deleted, done.commit is not None) == (False, True)
    assert "sub" in done.branch_delete_error


def test_the_history_of_the_source_is_part_of_the_target_after_the_merge(graph):
    put(graph, "dev", person("Cy"))
    put(graph, "dev", person("Di"))
    put(graph, "main", person("Eve"))
    inherited = [commit.commit_id for commit in graph.commits("dev")]
    done = graph.merge("dev", message="people of dev")
    commits = graph.commits()
    assert commits[0] == done.commit
    assert set(inherited) < {commit.commit_id for commit in commits}
    assert commits[0].details["message"] == "people of dev"


def test_a_merge_is_retained_when_its_source_is_deleted_and_cleaned_up(graph):
    put(graph, "dev", person("Cy", photo="base64:aGVsbG8="))
    graph.create_branch("other")
    graph.merge("dev", "other")
    graph.merge("dev", delete_branch=True)
    cleaned(graph)
    assert read(graph, "Cy", "other") == read(graph, "Cy")
    assert graph.read_blob("Person", "Cy", "photo", branch="other").read() == b"hello"
    put(graph, "other", person("Di"))
    cleaned(graph)
    assert graph.merge("other").outcome == "merged"
    assert read(graph, "Di") is not None
    assert graph.verify(deep=True).is_sound


def test_the_base_of_two_merges_of_one_branch_is_found_after_its_deletion(graph):
    """Both took Ada's age from dev. What one of them did to it later is no conflict."""
    graph.create_branch("release")
    put(graph, "dev", person("Ada", age=50))
    put(graph, "main", person("Eve"))
    put(graph, "release", person("Fay"))
    graph.merge("dev")
    graph.merge("dev", "release")
    graph.delete_branch("dev")
    graph.create_branch("dev")
    put(graph, "release", person("Ada", age=10))
    assert graph.merge("release").outcome == "merged"
    assert read(graph, "Ada")["age"] == 10


def test_a_base_that_cleanup_removed_is_reported(graph):
    graph.create_branch("release")
    for branch in ("dev", "main", "release"):
        put(graph, branch, person(f"of {branch}"))
    graph.merge("dev")
    graph.merge("dev", "release")
    graph.delete_branch("dev")
    for branch in ("main", "release"):
        for number in range(3):
            put(graph, branch, person(f"{branch} {number}"))
    cleaned(graph)
    before = list(graph.export())
    with pytest.raises(MergeBaseUnavailable):
        omnigraph.open(graph.uri).merge("release")  # this process may still have it in memory
    assert list(graph.export()) == before


def test_both_directions_continue_after_a_merge(graph):
    for round in range(3):
        put(graph, "dev", person(f"dev {round}"))
        put(graph, "main", person(f"main {round}"))
        graph.merge("dev")
        put(graph, "main", person(f"more {round}"))
        assert graph.merge("main", "dev").outcome == "fast_forward"
        everyone = {one["data"]["name"] for one in graph.export(["Person"])}
        assert {one["data"]["name"] for one in graph.export(["Person"], branch="dev")} == everyone


def test_an_equal_change_on_both_sides_is_no_conflict(graph):
    for branch in ("main", "dev"):
        put(graph, branch, person("Ada", age=11, photo="base64:aGk="), person("Cy", tags=[]))
    done = graph.merge("dev")
    assert (done.outcome, done.tables) == ("merged", ())


def test_null_and_nothing_are_different(graph):
    put(graph, "main", person("Cy", tags=[]))
    put(graph, "dev", person("Cy"))
    with pytest.raises(MergeConflicts, match="inserted on both sides, with different tags"):
        graph.merge("dev")


def test_a_branch_that_was_only_optimized_brings_no_rows(graph):
    for number in range(4):
        put(graph, "dev", person(f"p{number}"))
    graph.merge("dev")
    graph.optimize(branch="dev")
    done = graph.merge("dev")
    assert done.tables == ()


# --- criss-cross ----------------------------------------------------------------------------------


def cross(graph, **rules: object) -> None:
    """Two branches merge each other's state before either has the other's merge."""
    graph.create_branch("then", source="dev")
    graph.merge("main", "dev", **rules)
    graph.merge("then", "main", **rules)


def test_histories_that_crossed_have_a_base_of_both(graph):
    """Each side changed one entity before they crossed, and the other's changes it again after."""
    put(graph, "main", person("Ada", age=11))
    put(graph, "dev", person("Ben", age=21))
    cross(graph)
    put(graph, "dev", person("Ada", age=12))
    put(graph, "main", person("Ben", age=22))
    done = graph.merge("dev")
    assert len(done.base_commit_ids) == 2
    assert (read(graph, "Ada")["age"], read(graph, "Ben")["age"]) == (12, 22)


def test_contradictory_crossed_changes_conflict_until_they_are_equal(graph):
    put(graph, "main", person("Ada", age=11))
    put(graph, "dev", person("Ada", age=12))
    cross(graph, resolve="ours")  # so dev keeps 12 and main 11
    with pytest.raises(MergeConflicts) as raised:
        graph.merge("dev")
    (conflict,) = raised.value.conflicts
    assert (conflict.kind, conflict.base) == ("divergent_update", None)
    with pytest.raises(BadRequest, match="there is no single base"):
        graph.merge("dev", decisions=[{**conflict.wire(), "take": "base"}])
    with pytest.raises(MergeConflicts):
        graph.merge("dev", resolve="Person.age=sum")
    put(graph, "dev", person("Ada", age=11))
    assert graph.merge("dev").outcome == "merged"
    assert read(graph, "Ada")["age"] == 11

"""Reverting, picking and restoring commits through the library."""

from __future__ import annotations

import datetime
import json

import pytest

import omnigraph
from omnigraph.errors import (
    BadRequest,
    BranchNotFound,
    CommitHasNoParent,
    MergeBaseUnavailable,
    MergeConflicts,
    NotFoundError,
    OmniError,
    PreconditionFailed,
    SchemaContractMismatch,
)

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  tags: [String]?
  place: Vector(2)?
  photo: Blob?
}
node Badge { code: String @key  owner: String @unique }
edge Knows: Person -> Person { since: I32? }
"""
BASE = [
    {
        "type": "Person",
        "data": {
            "name": "Ada",
            "age": 10,
            "tags": ["x"],
            "place": [0.0, 1.0],
            "photo": "base64:YWRh",
        },
    },
    {"type": "Person", "data": {"name": "Ben", "age": 20}},
    {"edge": "Knows", "from": "Ada", "to": "Ben", "data": {"id": "ab", "since": 2001}},
]


@pytest.fixture
def graph(tmp_path):
    settings = omnigraph.Settings(cleanup_grace_s=0)  # no other process writes
    graph = omnigraph.init(tmp_path / "graph", SCHEMA, actor="maria", settings=settings)
    graph.load(BASE, "append")
    return graph


def person(name: str, **values: object) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, **values}}


def put(graph, *rows: dict[str, object], branch: str = "main") -> str:
    """Write rows and give the commit."""
    return graph.load(list(rows), "merge", branch=branch).commit.commit_id


def run(graph, statements: str, branch: str = "main") -> str:
    return graph.mutate(f"query q() {{ {statements} }}", branch=branch).commit.commit_id


def content(graph, branch: str = "main", **place: object) -> list[object]:
    view = graph.at(branch=branch, **place)
    return sorted((dict(one) for one in view.export()), key=str)


def names(graph, branch: str = "main") -> set[str]:
    return {one["data"]["name"] for one in graph.export(["Person"], branch=branch)}


def age(graph, name: str, branch: str = "main") -> int | None:
    found = {
        one["data"]["name"]: one["data"]["age"] for one in graph.export(["Person"], branch=branch)
    }
    return found[name]


# --- revert -----------------------------------------------------------------------------------

CHANGED = "was changed by the commit and again after it, with different age"
DOINGS = {
    "inserts": lambda g: put(g, person("Cy", age=1), person("Di", photo="base64:ZGk=")),
    "an update": lambda g: put(g, person("Ada", age=11, tags=[], place=[1.0, 1.0])),
    "a deletion with its edges": lambda g: run(g, 'delete Person where name = "Ada"'),
    "an edge": lambda g: run(g, 'insert Knows { from: "Ben", to: "Ada" }'),
    "a deleted edge": lambda g: run(g, 'delete Knows where from = "Ada"'),
    "everything at once": lambda g: (
        g.load([person("Ada"), person("Ben"), person("Eve")], "overwrite").commit.commit_id
    ),
}


@pytest.mark.parametrize("branch", ["main", "dev"])
@pytest.mark.parametrize("doing", DOINGS)
def test_a_reverted_commit_is_undone_and_what_came_later_stays(graph, doing, branch):
    before = content(graph)
    undone = DOINGS[doing](graph)
    put(graph, person("later"))
    if branch == "dev":
        graph.create_branch("dev")
    done = graph.revert(undone, branch=branch)
    assert done.outcome == "reverted"
    later = [one for one in content(graph, branch) if one not in before]
    assert [one["data"]["name"] for one in later] == ["later"]
    assert all(one in content(graph, branch) for one in before)
    assert graph.verify(deep=True).is_sound


@pytest.mark.parametrize("doing", DOINGS)
def test_reverting_a_revert_does_it_again(graph, doing):
    DOINGS[doing](graph)
    after = content(graph)
    first = graph.revert(graph.commits()[0].commit_id)
    graph.revert(first.commit.commit_id)
    assert content(graph) == after


def test_a_revert_says_what_it_did_and_is_recorded(graph):
    parent = graph.commits()[0].commit_id
    undone = put(graph, person("Cy"), person("Ada", age=11))
    done = graph.revert(undone, actor="ben", message="a mistake")
    (people,) = done.tables
    assert (people.inserted, people.updated, people.deleted) == (0, 1, 1)
    newest = graph.commits()[0]
    assert (newest, newest.actor_id) == (done.commit, "ben")
    assert newest.parent_commit_id == undone
    assert newest.merged_parent_commit_id is None
    assert newest.details == {
        "revert": {
            "commit_id": undone,
            "parent_commit_id": parent,
            "granularity": "property",
            "resolved": {},
        },
        "message": "a mistake",
    }


def test_a_row_changed_again_is_a_conflict_and_nothing_is_written(graph):
    undone = put(graph, person("Ada", age=11), person("Cy"))
    put(graph, person("Ada", age=12))
    before, head = content(graph), graph.commits()[0]
    with pytest.raises(
        MergeConflicts, match=f"reverting commit {undone} on 'main' has 1"
    ) as raised:
        graph.revert(undone)
    (conflict,) = raised.value.conflicts
    sides = (conflict.base, conflict.source, conflict.target)
    assert [side["age"] for side in sides] == [11, 10, 12]
    assert (content(graph), graph.commits()[0]) == (before, head)


@pytest.mark.parametrize(
    ("resolve", "expected"), [("ours", 12), ("theirs", 10), ("Person.age=min", 10)]
)
def test_rules_decide_about_a_revert_and_are_recorded(graph, resolve, expected):
    undone = put(graph, person("Ada", age=11, photo="base64:YWRh", place=[0.0, 1.0], tags=["x"]))
    put(graph, person("Ada", age=12, photo="base64:YWRh", place=[0.0, 1.0], tags=["x"]))
    done = graph.revert(undone, resolve=resolve)
    assert age(graph, "Ada") == expected
    rules = {"Person.age=min": 1} if "." in resolve else {resolve: 1}
    assert dict(done.resolved) == rules
    recorded = graph.commits()[0].details
    if resolve == "ours":  # so nothing is left to be done
        assert (done.outcome, done.commit) == ("unchanged", None)
    else:
        assert recorded["revert"]["resolved"] == rules


def test_a_preview_of_a_revert_can_be_decided_and_given_back(graph, tmp_path):
    undone = put(graph, person("Ada", age=11))
    put(graph, person("Ada", age=12))
    reader = omnigraph.open(graph.uri, read_only=True)
    body = reader.revert(undone, dry_run=True).wire()
    assert (body["outcome"], body["commit"], len(body["conflicts"])) == ("reverted", None, 1)
    body["conflicts"][0]["take"] = {"age": 99}
    file = tmp_path / "decisions.json"
    file.write_text(json.dumps(body))
    assert graph.revert(undone, decisions=file).resolved == {"decision": 1}
    assert age(graph, "Ada") == 99
    with pytest.raises(BadRequest, match="read-only"):
        reader.revert(undone)


@pytest.mark.parametrize(
    ("doing", "later", "reported"),
    [
        (person("Ada", age=11), 'update Person set { age: 12 } where name = "Ada"', CHANGED),
        (person("Ada", age=11), 'delete Person where name = "Ada"', "and deleted after it"),
        (person("Cy"), 'update Person set { age: 12 } where name = "Cy"', "was inserted by"),
        (None, 'insert Person { name: "Ada", age: 12 }', "was deleted by the commit and inserted"),
    ],
    ids=["changed again", "deleted", "inserted and changed", "deleted and inserted again"],
)
def test_a_conflict_of_a_revert_says_what_the_commit_did_and_what_came_after(
    graph, doing, later, reported
):
    undone = put(graph, doing) if doing else run(graph, 'delete Person where name = "Ada"')
    run(graph, later)
    with pytest.raises(MergeConflicts) as raised:
        graph.revert(undone)
    assert reported in raised.value.conflicts[0].message


def test_a_conflict_of_a_pick_speaks_of_the_commit_and_the_branch(graph):
    graph.create_branch("dev")
    picked = put(graph, person("Ada", age=11), branch="dev")
    run(graph, 'delete Person where name = "Ada"')
    with pytest.raises(MergeConflicts, match="by the commit and does not exist on the branch"):
        graph.cherry_pick(picked)


def test_an_insert_others_refer_to_is_not_reverted(graph):
    undone = put(graph, person("Cy"))
    run(graph, 'insert Knows { from: "Cy", to: "Ada" }')
    with pytest.raises(MergeConflicts) as raised:
        graph.revert(undone)
    assert [one.kind for one in raised.value.conflicts] == ["orphan_edge"]
    assert "Cy" in names(graph)


def test_a_revert_is_checked_against_the_schema(graph):
    """Deleting a badge is undone only while its owner has no other."""
    badge = {"type": "Badge", "data": {"code": "a", "owner": "Ada"}}
    graph.load([badge], "append")
    undone = run(graph, 'delete Badge where code = "a"')
    graph.load([{"type": "Badge", "data": {"code": "b", "owner": "Ada"}}], "append")
    with pytest.raises(MergeConflicts) as raised:
        graph.revert(undone)
    assert [one.kind for one in raised.value.conflicts] == ["unique_violation"]


def test_a_repeated_undo_makes_no_commit(graph):
    undone = put(graph, person("Cy"))
    graph.revert(undone)
    commits = graph.commits()
    again = graph.revert(undone)
    assert (again.outcome, again.commit, again.tables) == ("unchanged", None, ())
    assert graph.commits() == commits


def test_a_commit_that_only_moved_rows_has_nothing_to_undo(graph):
    for number in range(4):
        put(graph, person(f"p{number}"))
    optimized = graph.optimize().commit
    assert optimized is not None
    assert graph.revert(optimized.commit_id).outcome == "unchanged"


def test_rows_that_were_moved_since_are_undone_all_the_same(graph):
    undone = put(graph, person("Cy"), person("Ada", age=11))
    for number in range(4):
        put(graph, person(f"p{number}"))
    graph.optimize()
    graph.revert(undone)
    assert ("Cy" in names(graph), age(graph, "Ada")) == (False, 10)


def test_a_merge_is_reverted_against_the_parent_that_is_named(graph):
    graph.create_branch("dev")
    put(graph, person("of dev"), branch="dev")
    put(graph, person("of main"))
    before = content(graph)
    merge = graph.merge("dev").commit.commit_id
    with pytest.raises(BadRequest, match="is a merge; say against which parent"):
        graph.revert(merge)
    with pytest.raises(BadRequest, match="has no parent 3"):
        graph.revert(merge, parent=3)
    graph.create_branch("other")
    graph.revert(merge, parent=1)
    assert content(graph) == before
    graph.revert(merge, parent=2, branch="other")
    assert names(graph, "other") == {"Ada", "Ben", "of dev"}


def test_a_merge_of_a_deleted_branch_is_reverted(graph):
    graph.create_branch("dev")
    put(graph, person("of dev"), branch="dev")
    put(graph, person("of main"))
    merge = graph.merge("dev", delete_branch=True).commit.commit_id
    graph.cleanup(keep=10, confirm=True)
    graph.create_branch("other")
    graph.revert(merge, parent=2, branch="other")
    graph.revert(merge, parent=1)
    assert (names(graph), names(graph, "other")) == (
        {"Ada", "Ben", "of main"},
        {"Ada", "Ben", "of dev"},
    )


def test_the_first_commit_of_a_graph_cannot_be_reverted(graph):
    with pytest.raises(CommitHasNoParent):
        graph.revert(graph.commits()[-1].commit_id)


def test_a_revert_can_insist_on_a_head(graph):
    undone = put(graph, person("Cy"))
    with pytest.raises(PreconditionFailed):
        graph.revert(undone, expected_head=graph.commits()[-1].commit_id)
    assert graph.revert(undone, expected_head=undone).outcome == "reverted"


# --- cherry-pick ------------------------------------------------------------------------------


@pytest.mark.parametrize("into", ["main", "other"])
def test_a_commit_of_another_branch_is_picked_without_its_neighbours(graph, into):
    graph.create_branch("dev")
    graph.create_branch("other")
    put(graph, person("one"), branch="dev")
    picked = put(graph, person("two", photo="base64:dHdv"), person("Ada", age=11), branch="dev")
    put(graph, person("three"), branch="dev")
    put(graph, person("own"), branch=into)
    done = graph.cherry_pick(picked, branch=into)
    assert done.outcome == "cherry_picked"
    assert names(graph, into) == {"Ada", "Ben", "own", "two"}
    assert age(graph, "Ada", into) == 11
    assert graph.read_blob("Person", "two", "photo", branch=into).read() == b"two"
    newest = graph.commits(into)[0]
    assert newest.details["cherry_pick"]["commit_id"] == picked
    assert graph.merge("dev", into).conflicts == ()
    assert names(graph, into) == {"Ada", "Ben", "own", "one", "two", "three"}
    assert graph.verify(deep=True).is_sound


def test_a_pick_that_contradicts_the_branch_is_decided_like_a_merge(graph):
    graph.create_branch("dev")
    picked = put(graph, person("Ada", age=11), branch="dev")
    put(graph, person("Ada", age=12))
    with pytest.raises(MergeConflicts, match=f"cherry-picking commit {picked} on 'main'"):
        graph.cherry_pick(picked)
    done = graph.cherry_pick(picked, resolve="theirs")
    assert (age(graph, "Ada"), dict(done.resolved)) == (11, {"theirs": 1})


def test_a_pick_of_what_the_branch_has_makes_no_commit(graph):
    picked = put(graph, person("Cy"))
    done = graph.cherry_pick(picked)
    assert (done.outcome, done.commit) == ("unchanged", None)


def test_a_merge_is_picked_only_against_a_parent(graph):
    graph.create_branch("dev")
    graph.create_branch("other")
    put(graph, person("of dev"), branch="dev")
    put(graph, person("of main"))
    merge = graph.merge("dev").commit.commit_id
    with pytest.raises(BadRequest, match="is a merge"):
        graph.cherry_pick(merge, branch="other")
    graph.cherry_pick(merge, branch="other", parent=1)
    assert names(graph, "other") == {"Ada", "Ben", "of dev"}


# --- restore ----------------------------------------------------------------------------------


@pytest.fixture
def changed_graph(graph):
    """A graph with a past worth going back to, and the name of every place in it."""
    graph.tag("start")
    put(graph, person("Cy", photo="base64:Y3k="), person("Ada", age=11, tags=[]))
    run(graph, 'delete Person where name = "Ben"')
    graph.optimize()
    put(graph, person("Di"))
    return graph


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_a_branch_is_restored_to_every_commit_it_had(changed_graph, branch):
    if branch == "dev":
        changed_graph.create_branch("dev")
        put(changed_graph, person("Eve"), branch="dev")
    for commit in changed_graph.commits(branch):
        wanted = content(changed_graph, branch, commit=commit.commit_id)
        was_there = content(changed_graph, branch) == wanted
        done = changed_graph.restore(commit.commit_id, branch=branch)
        assert (done.outcome == "unchanged") == was_there
        assert content(changed_graph, branch) == wanted
        assert done.applied_commit_id == commit.commit_id
    assert changed_graph.verify(deep=True).is_sound


def test_a_revision_to_restore_is_named_in_any_way(changed_graph):
    """A tag, the beginning of a commit id, a version and a time."""
    start = changed_graph.tags()[0].commit_id
    wanted = content(changed_graph, commit=start)
    moment = changed_graph.commit(start).created_at
    time = datetime.datetime.fromtimestamp(moment // 1_000_000, datetime.UTC)
    time += datetime.timedelta(milliseconds=moment // 1_000 % 1_000)
    version = changed_graph.commit(start).manifest_version
    for place in ("start", f"commit:{start[:20]}", str(version), time.isoformat()):
        changed_graph.restore(place)
        assert content(changed_graph) == wanted, place
        put(changed_graph, person(f"after {place}"))


def test_a_restore_is_a_new_commit_and_loses_none(changed_graph):
    before = changed_graph.commits()
    done = changed_graph.restore("start", actor="ben", message="back")
    start = changed_graph.tags()[0].commit_id
    assert changed_graph.commits() == (done.commit, *before)
    assert done.commit.parents == (before[0].commit_id,)
    assert done.commit.details == {"restore": {"commit_id": start}, "message": "back"}
    changed_graph.revert(done.commit.commit_id)
    assert content(changed_graph) == content(changed_graph, commit=before[0].commit_id)


def test_a_branch_that_wrote_nothing_shows_the_versions_that_are_there(changed_graph):
    """Nothing is copied: the tables are those of the commit."""
    changed_graph.create_branch("dev")
    changed_graph.restore("start", branch="dev")
    now = {one.table_key: one.manifest_version for one in changed_graph.snapshot("dev").tables}
    then = {one.table_key: one.manifest_version for one in changed_graph.at("start").info().tables}
    assert now == then
    put(changed_graph, person("Eve"), branch="dev")
    assert names(changed_graph, "dev") == {"Ada", "Ben", "Eve"}
    assert names(changed_graph) == {"Ada", "Cy", "Di"}


def test_a_branch_is_restored_to_what_another_one_has(changed_graph):
    changed_graph.create_branch("dev", commit=changed_graph.tags()[0].commit_id)
    put(changed_graph, person("Eve", photo="base64:ZXZl"), branch="dev")
    changed_graph.restore("branch:dev")
    assert content(changed_graph) == content(changed_graph, "dev")
    changed_graph.delete_tag("start")
    changed_graph.delete_branch("dev")
    changed_graph.cleanup(keep=1, confirm=True)
    assert changed_graph.read_blob("Person", "Eve", "photo").read() == b"eve"
    assert changed_graph.verify(deep=True).is_sound


def test_a_restored_state_can_be_merged_again(changed_graph):
    changed_graph.create_branch("dev")
    put(changed_graph, person("Eve"), branch="dev")
    changed_graph.restore("start")
    assert changed_graph.merge("dev").outcome == "merged"
    assert names(changed_graph) == {"Ada", "Ben", "Eve"}


def test_a_preview_of_a_restore_counts_and_writes_nothing(changed_graph):
    before = changed_graph.commits()
    preview = omnigraph.open(changed_graph.uri, read_only=True).restore("start", dry_run=True)
    (knows, people) = preview.tables
    assert (people.inserted, people.updated, people.deleted) == (1, 1, 2)
    assert (knows.inserted, knows.updated, knows.deleted) == (1, 0, 0)
    assert changed_graph.commits() == before


# --- what goes wrong --------------------------------------------------------------------------


@pytest.mark.parametrize("verb", ["revert", "cherry_pick", "restore"])
@pytest.mark.parametrize(
    ("place", "branch", "error"),
    [
        ("01ARZ3NDEKTSV4RRFFQ69G5FAV", "main", NotFoundError),
        ("nowhere", "main", NotFoundError),
        ("main", "nowhere", BranchNotFound),
    ],
)
def test_an_unknown_commit_or_branch_is_reported(graph, verb, place, branch, error):
    with pytest.raises(error):
        getattr(graph, verb)(place, branch=branch)


@pytest.mark.parametrize(
    ("verb", "error"),
    [
        ("revert", MergeBaseUnavailable),
        ("cherry_pick", MergeBaseUnavailable),
        ("restore", OmniError),
    ],
)
def test_a_state_that_cleanup_removed_is_reported(graph, verb, error):
    wanted = put(graph, person("Cy"))
    for number in range(4):
        put(graph, person(f"p{number}"))
    graph.cleanup(keep=1, confirm=True)
    before = content(graph)
    with pytest.raises(error, match="cleanup"):
        getattr(omnigraph.open(graph.uri), verb)(wanted)
    assert content(graph) == before


def test_a_tagged_commit_is_restored_after_cleanup(graph):
    graph.tag("start")
    wanted = content(graph)
    for number in range(4):
        put(graph, person(f"p{number}"))
    graph.cleanup(keep=1, confirm=True)
    omnigraph.open(graph.uri).restore("start")
    assert content(graph) == wanted


# --- other schemas ----------------------------------------------------------------------------

MORE_COLUMNS = SCHEMA.replace("age: I32?", "age: I32?\n  nick: String?")
MORE_TYPES = SCHEMA + "node Club { slug: String @key }\n"
DESCRIBED = SCHEMA.replace("node Badge", 'node Badge @description("what opens doors")')


@pytest.mark.parametrize("verb", ["revert", "cherry_pick"])
@pytest.mark.parametrize("schema", [MORE_COLUMNS, MORE_TYPES, DESCRIBED])
def test_a_commit_that_changed_the_schema_is_neither_undone_nor_repeated(graph, verb, schema):
    graph.create_branch("dev")
    changed = graph.apply_schema(schema, branch="dev").commit.commit_id
    before = graph.commits("dev"), content(graph, "dev")
    with pytest.raises(SchemaContractMismatch, match="changed the schema"):
        getattr(graph, verb)(changed, branch="dev")
    assert (graph.commits("dev"), content(graph, "dev")) == before


@pytest.mark.parametrize("verb", ["revert", "cherry_pick", "restore"])
def test_a_commit_from_before_other_columns_is_refused_and_nothing_is_written(graph, verb):
    old = put(graph, person("Cy"))
    put(graph, person("Di"))
    graph.apply_schema(MORE_COLUMNS)
    before = graph.commits(), content(graph)
    with pytest.raises(SchemaContractMismatch):
        getattr(graph, verb)(old)
    assert (graph.commits(), content(graph)) == before


@pytest.mark.parametrize("schema", [MORE_COLUMNS, MORE_TYPES, DESCRIBED])
def test_a_commit_of_types_that_stayed_as_they_were_is_undone_across_another_schema(graph, schema):
    badge = {"type": "Badge", "data": {"code": "a", "owner": "Ada"}}
    undone = graph.load([badge], "append").commit.commit_id
    graph.apply_schema(schema)
    graph.revert(undone)
    assert list(graph.export(["Badge"])) == []
    assert graph.verify(deep=True).is_sound

"""Merges by property and by entity: the merged values, and the conflicts."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph.errors import BadOptions, MergeConflicts

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  score: F64?
  low: I32?
  high: I32?
  email: String?
  tags: [String]?
  place: Vector(2)?
  photo: Blob?
  @unique(email)  @unique(low, high)  @range(age, 0..150)
}
node City { slug: String @key  title: String? }
edge Knows: Person -> Person { since: I32? }
edge LivesIn: Person -> City @card(0..1) { since: I32? }
"""


def person(name: str, **values: object) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, **values}}


def city(slug: str) -> dict[str, object]:
    return {"type": "City", "data": {"slug": slug}}


def knows(id: str, source: str, target: str, **values: object) -> dict[str, object]:
    return {"edge": "Knows", "from": source, "to": target, "data": {"id": id, **values}}


BASE = [
    person("Ada", age=36, score=1.0, email="ada@", tags=["x"], place=[0.0, 1.0]),
    person("Ben", age=20, email="ben@"),
    person("Cy", photo="base64:YWJj"),
    knows("ab", "Ada", "Ben", since=2001),
    city("rome"),
    city("oslo"),
]


@pytest.fixture
def graph(tmp_path):
    graph = omnigraph.init(tmp_path / "graph", SCHEMA)
    graph.load(BASE, "append")
    graph.create_branch("dev")
    return graph


def put(graph, branch: str, *rows: dict[str, object]) -> str:
    """Write the given properties and leave the others."""
    loaded = graph.load(list(rows), "merge", branch=branch, partial=True)
    return loaded.commit.commit_id


def read(graph, id: str, branch: str = "main") -> dict[str, object]:
    for one in graph.export(branch=branch):
        if one["data"]["id"] == id:
            ends = {end: one[end] for end in ("from", "to") if end in one}
            return {**one["data"], **ends}
    raise AssertionError(f"there is no {id}")


def refused(graph, **options: object) -> list[tuple[str, str | None, tuple[str, ...]]]:
    """Merge what must be refused; a dry run lists the same conflicts."""
    before = list(graph.export())
    with pytest.raises(MergeConflicts) as raised:
        graph.merge("dev", **options)
    assert list(graph.export()) == before
    preview = graph.merge("dev", dry_run=True, **options)
    assert preview.conflicts == raised.value.conflicts
    return [(one.kind, one.id, one.properties) for one in raised.value.conflicts]


# --- by property ----------------------------------------------------------------------------------


def test_each_side_gives_the_properties_that_it_changed(graph):
    put(graph, "main", person("Ada", age=37, tags=["x", "y"]))
    put(graph, "dev", person("Ada", score=2.5, place=[1.0, 1.0], photo="base64:aGk="))
    done = graph.merge("dev")
    (counts,) = done.tables
    assert (counts.inserted, counts.updated, counts.deleted, counts.conflicts) == (0, 1, 0, 0)
    found = read(graph, "Ada")
    assert (found["age"], found["tags"], found["score"]) == (37, ["x", "y"], 2.5)
    assert found["place"] == [1.0, 1.0]
    assert graph.read_blob("Person", "Ada", "photo").read() == b"hi"
    assert done.resolved == {}
    assert graph.verify(deep=True).is_sound


def test_both_sides_get_the_same_row_by_merging_each_other(graph):
    put(graph, "main", person("Ada", age=37))
    put(graph, "dev", person("Ada", score=2.5))
    graph.merge("main", "dev")
    graph.merge("dev")
    assert read(graph, "Ada") == read(graph, "Ada", "dev")


def test_a_property_that_both_changed_alike_is_no_conflict(graph):
    put(graph, "main", person("Ada", age=37, score=9.0))
    put(graph, "dev", person("Ada", age=37, tags=[]))
    graph.merge("dev")
    found = read(graph, "Ada")
    assert (found["age"], found["score"], found["tags"]) == (37, 9.0, [])


def test_a_conflict_names_the_properties_that_both_changed_and_no_others(graph):
    put(graph, "main", person("Ada", age=37, score=9.0, tags=["o"]))
    put(graph, "dev", person("Ada", age=38, score=8.0, email="a@"))
    assert refused(graph) == [("divergent_update", "Ada", ("age", "score"))]
    (conflict,) = graph.merge("dev", dry_run=True).conflicts
    assert conflict.message == "Person 'Ada' was changed on both sides, with different age, score"
    assert conflict.wire()["properties"] == ["age", "score"]
    (row,) = graph.merge("dev", dry_run=True).conflict_table.to_pylist()
    assert row["properties"] == ["age", "score"]


def test_a_rule_for_one_property_leaves_the_others_to_their_sides(graph):
    put(graph, "main", person("Ada", age=37, score=9.0))
    put(graph, "dev", person("Ada", age=38, tags=["d"]))
    done = graph.merge("dev", resolve="Person.age=max")
    found = read(graph, "Ada")
    assert (found["age"], found["score"], found["tags"]) == (38, 9.0, ["d"])
    assert done.resolved == {"Person.age=max": 1}


def test_a_rule_for_one_property_changes_no_other_conflict(graph):
    put(graph, "main", person("Ada", age=37, score=9.0))
    put(graph, "dev", person("Ada", age=38, score=8.0))
    resolve = "Person.age=max"
    assert refused(graph, resolve=resolve) == [("divergent_update", "Ada", ("score",))]


@pytest.mark.parametrize(("rule", "age"), [("ours", 37), ("theirs", 38), ("newest", 38)])
def test_a_rule_for_rows_decides_about_what_conflicts_only(graph, rule, age):
    put(graph, "main", person("Ada", age=37, score=9.0))
    put(graph, "dev", person("Ada", age=38, tags=["d"]))
    graph.merge("dev", resolve=rule)
    found = read(graph, "Ada")
    assert (found["age"], found["score"], found["tags"]) == (age, 9.0, ["d"])


def test_a_rule_that_keeps_the_target_writes_nothing(graph):
    put(graph, "main", person("Ada", age=37, score=9.0))
    put(graph, "dev", person("Ada", age=30))
    for rule in ("ours", "Person.age=max"):
        (counts,) = graph.merge("dev", dry_run=True, resolve=rule).tables
        assert (counts.updated, counts.conflicts) == (0, 0)
    before = list(graph.export())
    graph.merge("dev", resolve="ours")
    assert list(graph.export()) == before


@pytest.mark.parametrize(
    ("take", "age", "email"),
    [
        ("source", 38, "d@"),
        ("target", 37, "m@"),
        ("base", 36, "ada@"),
        ({"age": 40}, 40, "m@"),
        ({"age": None, "email": "n@"}, None, "n@"),
    ],
)
def test_a_decision_is_about_what_the_conflict_names(graph, take, age, email):
    put(graph, "main", person("Ada", age=37, email="m@", score=9.0, photo="base64:bQ=="))
    put(graph, "dev", person("Ada", age=38, email="d@", tags=["d"]))
    (conflict,) = graph.merge("dev", dry_run=True).wire()["conflicts"]
    done = graph.merge("dev", decisions=[{**conflict, "take": take}])
    found = read(graph, "Ada")
    assert (found["age"], found["email"]) == (age, email)
    assert (found["score"], found["tags"]) == (9.0, ["d"])
    assert graph.read_blob("Person", "Ada", "photo").read() == b"m"
    assert done.resolved == {"decision": 1}


def test_a_decision_about_some_properties_leaves_the_others_to_the_rules(graph):
    put(graph, "main", person("Ada", age=37, score=9.0, email="m@"))
    put(graph, "dev", person("Ada", age=38, score=9.5, email="d@"))
    (conflict,) = graph.merge("dev", dry_run=True).wire()["conflicts"]
    decided = [{**conflict, "take": {"age": 1}}]
    graph.merge("dev", decisions=decided, resolve="Person.score=max")
    found = read(graph, "Ada")
    assert (found["age"], found["score"], found["email"]) == (1, 9.5, "m@")


def test_a_deletion_conflicts_with_any_edit(graph):
    graph.mutate('query q() { delete Person where name = "Cy" }', branch="dev")
    put(graph, "main", person("Cy", age=1))
    assert refused(graph) == [("delete_vs_update", "Cy", ())]


def test_inserts_of_one_id_conflict_in_all_that_differs(graph):
    put(graph, "main", person("Di", age=1, score=1.0))
    put(graph, "dev", person("Di", age=1, tags=[]))
    assert refused(graph) == [("divergent_insert", "Di", ("score", "tags"))]


def test_an_edge_takes_each_end_and_property_from_the_side_that_changed_it(graph):
    put(graph, "main", knows("ab", "Cy", "Ben"))
    put(graph, "dev", knows("ab", "Ada", "Cy", since=1999))
    graph.merge("dev")
    found = read(graph, "ab")
    assert (found["from"], found["to"], found["since"]) == ("Cy", "Cy", 1999)


def test_an_end_that_both_sides_moved_conflicts(graph):
    put(graph, "main", knows("ab", "Cy", "Ben"))
    put(graph, "dev", knows("ab", "Ben", "Ben", since=1999))
    assert refused(graph) == [("divergent_update", "ab", ("src",))]


# --- rules of the schema on merged rows -----------------------------------------------------------


def test_two_edits_that_are_unique_alone_and_not_together_are_refused(graph):
    put(graph, "main", person("Ada", low=1), person("Ben", low=1, high=2))
    graph.merge("main", "dev")
    put(graph, "main", person("Cy", low=1, high=1))
    put(graph, "dev", person("Cy", score=0.5))
    graph.merge("dev")
    graph.merge("main", "dev")
    put(graph, "main", person("Cy", high=3))
    graph.merge("main", "dev")
    put(graph, "main", person("Cy", high=2, low=5))
    put(graph, "dev", person("Ben", low=5))
    ((kind, _, _),) = refused(graph)
    assert kind == "unique_violation"


def test_a_combined_row_may_break_a_rule_that_neither_side_broke(graph):
    """Low came from one side and high from the other, and Ben has both already."""
    put(graph, "main", person("Ben", low=1, high=2), person("Ada", low=7, high=8))
    graph.merge("main", "dev")
    put(graph, "main", person("Ada", low=1))
    put(graph, "dev", person("Ada", high=2))
    ((kind, id, _),) = refused(graph)
    assert (kind, id) == ("unique_violation", "Ada")
    assert graph.merge("dev", dry_run=True, granularity="entity").conflicts[0].properties == (
        "high",
        "low",
    )


def test_a_combined_edge_may_lose_its_end(graph):
    """One side moved the edge to Cy, the other deleted Cy and changed the edge."""
    put(graph, "main", knows("ab", "Ada", "Cy"))
    graph.mutate('query q() { delete Person where name = "Cy" }', branch="dev")
    put(graph, "dev", knows("ab", "Ada", "Ben", since=5))
    ((kind, id, _),) = refused(graph)
    assert (kind, id) == ("orphan_edge", "ab")


def test_cardinality_counts_combined_edges(graph):
    def lives(id: str, who: str, where: str, **values: object) -> dict[str, object]:
        return {"edge": "LivesIn", "from": who, "to": where, "data": {"id": id, **values}}

    put(graph, "main", lives("1", "Ada", "rome"))
    graph.merge("main", "dev")
    put(graph, "main", lives("1", "Ben", "rome"))
    put(graph, "dev", lives("1", "Ada", "oslo"), lives("2", "Ben", "oslo"))
    ((kind, _, _),) = refused(graph)
    assert kind == "cardinality_violation"


# --- whole rows -----------------------------------------------------------------------------------


def test_by_entity_a_row_that_both_changed_conflicts(graph):
    put(graph, "main", person("Ada", age=37))
    put(graph, "dev", person("Ada", score=2.5))
    found = refused(graph, granularity="entity")
    assert found == [("divergent_update", "Ada", ("age", "score"))]
    graph.merge("dev", granularity="entity", resolve="theirs")
    found = read(graph, "Ada")
    assert (found["age"], found["score"]) == (36, 2.5)


def test_by_entity_a_property_with_a_rule_is_merged_apart_from_the_rest(graph):
    put(graph, "main", person("Ada", age=37))
    put(graph, "dev", person("Ada", age=38, score=2.5))
    graph.merge("dev", granularity="entity", resolve="Person.age=max")
    found = read(graph, "Ada")
    assert (found["age"], found["score"]) == (38, 2.5)


def test_by_entity_a_rule_for_one_property_says_nothing_about_the_rest(graph):
    put(graph, "main", person("Ada", age=37, tags=["m"]))
    put(graph, "dev", person("Ada", age=38, score=2.5))
    options = {"granularity": "entity", "resolve": "Person.age=max"}
    assert refused(graph, **options) == [("divergent_update", "Ada", ("score", "tags"))]


def test_a_type_declared_so_is_merged_by_entity_whatever_is_requested(tmp_path):
    price = "node Price{} {{ item: String @key  amount: I64  currency: String }}\n"
    rest = "node Other { slug: String @key  a: I32?  b: I32? }\n"
    graph = omnigraph.init(tmp_path / "graph", price.format(" @merge(entity)") + rest)
    rows = [
        {"type": "Price", "data": {"item": "a", "amount": 1, "currency": "EUR"}},
        {"type": "Other", "data": {"slug": "a"}},
    ]
    graph.load(rows, "append")
    graph.create_branch("dev")
    for branch, (one, other) in {
        "main": ({"amount": 2}, {"a": 1}),
        "dev": ({"currency": "USD"}, {"b": 1}),
    }.items():
        row = {"type": "Price", "data": {"item": "a", **one}}
        put(graph, branch, row, {"type": "Other", "data": {"slug": "a", **other}})
    found = [("divergent_update", "a", ("amount", "currency"))]
    assert refused(graph, granularity="property") == found
    graph.apply_schema(price.format("") + rest)
    assert refused(graph) == found, "the branch still says so"
    graph.apply_schema(price.format("") + rest, branch="dev")
    graph.merge("dev")
    values = [one["data"] for one in graph.export(["Price"])]
    assert [(one["amount"], one["currency"]) for one in values] == [(2, "USD")]


def test_a_revert_of_a_type_that_says_so_is_by_entity(tmp_path):
    schema = "node P @merge(entity) { k: String @key  a: I32?  b: I32? }"
    graph = omnigraph.init(tmp_path / "graph", schema)
    for values in ({"a": 0, "b": 0}, {"a": 1}, {"b": 1}):
        row = {"type": "P", "data": {"k": "x", **values}}
        graph.load([row], "merge", partial=True)
    with pytest.raises(MergeConflicts):
        graph.revert(graph.commits()[1].commit_id)


@pytest.mark.parametrize("granularity", ["property", "entity"])
def test_the_commit_says_how_it_was_merged(graph, granularity):
    put(graph, "dev", person("Ada", score=2.5))
    put(graph, "main", person("Ben", score=2.5))
    commit = graph.merge("dev", granularity=granularity).commit
    assert commit.details["merge"]["granularity"] == granularity


def test_an_unknown_granularity_is_refused(graph):
    put(graph, "dev", person("Ada", score=2.5))
    with pytest.raises(BadOptions, match="granularity 'row' is not one of property, entity"):
        graph.merge("dev", granularity="row")


def test_another_granularity_is_another_request(graph):
    put(graph, "dev", person("Ada", score=2.5))
    graph.merge("dev", idempotency_key="once")
    assert graph.merge("dev", idempotency_key="once").is_replayed
    with pytest.raises(omnigraph.errors.IdempotencyKeyReused):
        graph.merge("dev", idempotency_key="once", granularity="entity")


# --- reverts and cherry-picks ---------------------------------------------------------------------


def test_a_revert_keeps_what_others_changed_of_the_same_row(graph):
    undone = put(graph, "main", person("Ada", age=99))
    put(graph, "main", person("Ada", score=7.0))
    with pytest.raises(MergeConflicts):
        graph.revert(undone, granularity="entity")
    done = graph.revert(undone)
    found = read(graph, "Ada")
    assert (found["age"], found["score"]) == (36, 7.0)
    assert done.commit.details["revert"]["granularity"] == "property"


def test_a_cherry_pick_takes_the_properties_of_the_commit(graph):
    picked = put(graph, "dev", person("Ada", age=40))
    put(graph, "main", person("Ada", score=7.0))
    with pytest.raises(MergeConflicts):
        graph.cherry_pick(picked, granularity="entity")
    graph.cherry_pick(picked)
    found = read(graph, "Ada")
    assert (found["age"], found["score"]) == (40, 7.0)


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "base", "ours", "theirs"),
    [
        ("age", 1, None, 2),
        ("age", None, 0, 2),
        ("score", 0.0, -0.0, 1.0),
        ("tags", [], None, ["a"]),
        ("tags", None, [], ["a"]),
        ("tags", ["a"], [], None),
        ("email", "x", "", None),
        ("place", None, [0.0, 0.0], [-0.0, 0.0]),
        ("photo", "base64:", "base64:AAAA", "base64:AAAB"),
        ("photo", None, "base64:", "base64:AAAA"),
    ],
)
def test_values_that_are_easily_mistaken_for_each_other(graph, name, base, ours, theirs):
    """Each of the three is a different value: applied if one side has it, a conflict if both do."""
    put(graph, "main", person("Eve", **{name: base}))
    graph.merge("main", "dev")
    put(graph, "dev", person("Eve", low=1, **{name: theirs}))
    put(graph, "main", person("Eve", high=1))
    preview = graph.merge("dev", dry_run=True)
    assert preview.conflicts == ()
    graph.create_branch("early", source="main")
    graph.merge("dev", "early")
    taken, wanted = read(graph, "Eve", "early"), read(graph, "Eve", "dev")
    assert repr(taken[name]) == repr(wanted[name])
    put(graph, "main", person("Eve", **{name: ours}))
    assert refused(graph) == [("divergent_update", "Eve", (name,))]


@pytest.mark.parametrize("granularity", ["property", "entity"])
def test_blobs_of_one_size_are_distinguished(graph, granularity):
    put(graph, "main", person("Cy", photo="base64:YWJk"))
    put(graph, "dev", person("Cy", photo="base64:YWJl"))
    found = refused(graph, granularity=granularity)
    assert found == [("divergent_update", "Cy", ("photo",))]


def test_a_unique_value_may_change_hands(graph):
    """Ada loses her address on one side, and Ben gets it there; scores change on the other."""
    put(graph, "dev", person("Ada", email="ben@"), person("Ben", email="ada@"))
    put(graph, "main", person("Ada", score=3.0), person("Ben", score=4.0))
    graph.merge("dev")
    assert [read(graph, name)["email"] for name in ("Ada", "Ben")] == ["ben@", "ada@"]
    assert [read(graph, name)["score"] for name in ("Ada", "Ben")] == [3.0, 4.0]


def test_a_unique_value_that_both_sides_hand_to_another_is_refused(graph):
    put(graph, "dev", person("Ada", email=None), person("Cy", email="ada@"))
    put(graph, "main", person("Ada", email=None), person("Ben", email="ada@"))
    ((kind, _, _),) = refused(graph)
    assert kind == "unique_violation"

"""Merges of branches that merged each other before: the virtual base, property by property."""

from __future__ import annotations

import pytest

import omnigraph
from omnigraph.errors import BadRequest, MergeConflicts
from omnigraph.history import virtual_base

SCHEMA = """
node X { k: String @key  a: I32?  b: I32?  c: I32?  d: I32?  log: [I32]?  v: Vector(2)?  p: Blob? }
node Y { k: String @key }
edge R: X -> Y { a: I32?  b: I32? }
"""


def x(id: str = "x", **values: object) -> dict[str, object]:
    return {"type": "X", "data": {"k": id, **values}}


def y(id: str) -> dict[str, object]:
    return {"type": "Y", "data": {"k": id}}


def r(source: str, target: str, **values: object) -> dict[str, object]:
    return {"edge": "R", "from": source, "to": target, "data": {"id": "r", **values}}


@pytest.fixture
def graph(tmp_path):
    graph = omnigraph.init(tmp_path / "graph", SCHEMA)
    zeros = {"a": 0, "b": 0, "c": 0, "d": 0, "log": [0]}
    graph.load([x(**zeros), x("z", **zeros), y("1"), y("2"), y("3"), r("x", "1", a=0)], "append")
    graph.create_branch("dev")
    return graph


def put(graph, branch: str, *rows: dict[str, object]) -> None:
    graph.load(list(rows), "merge", branch=branch, partial=True)


def delete(graph, branch: str, id: str = "x") -> None:
    graph.mutate(f'query q() {{ delete X where k = "{id}" }}', branch=branch)


def cross(graph, **options: object) -> None:
    """Let each branch merge the other as it was before that merge."""
    for name in ("main", "dev"):
        if f"old-{name}" in graph.branches():
            graph.delete_branch(f"old-{name}")
        graph.create_branch(f"old-{name}", source=name)
    graph.merge("old-dev", "main", **options)
    graph.merge("old-main", "dev", **options)


def read(graph, id: str = "x", branch: str = "main") -> dict[str, object] | None:
    for one in graph.export(branch=branch):
        if one["data"]["id"] == id:
            return {**one["data"], **{end: one[end] for end in ("from", "to") if end in one}}
    return None


def conflicts(graph, **options: object) -> list[tuple[str, str | None, tuple[str, ...]]]:
    """List the conflicts, which are the same in both directions."""
    found, mirrored = (
        [(one.kind, one.id, one.properties) for one in graph.merge(*pair, **options).conflicts]
        for pair in (("dev", "main"), ("main", "dev"))
        if options.update(dry_run=True) is None
    )
    assert found == mirrored
    return found


def test_properties_that_were_set_before_and_after_the_crossing_all_arrive(graph):
    put(graph, "main", x(a=1))
    put(graph, "dev", x(b=1))
    cross(graph)
    assert read(graph) == read(graph, branch="dev")
    put(graph, "main", x(c=1))
    put(graph, "dev", x(d=1))
    done = graph.merge("dev")
    assert len(done.base_commit_ids) == 2
    found = read(graph)
    assert [found[name] for name in "abcd"] == [1, 1, 1, 1]


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_an_edit_of_one_side_after_the_crossing_is_applied(graph, branch):
    put(graph, "main", x(a=1))
    put(graph, "dev", x(b=1))
    cross(graph)
    put(graph, branch, x(a=2, b=3))
    graph.merge("dev")
    found = read(graph)
    assert (found["a"], found["b"]) == (2, 3)


def test_a_deletion_after_the_crossing_is_applied(graph):
    put(graph, "main", x(a=1))
    put(graph, "dev", x(b=1))
    graph.mutate('query q() { delete R where from = "x" }', branch="dev")
    cross(graph)
    delete(graph, "dev")
    graph.merge("dev")
    assert read(graph) is None


@pytest.mark.parametrize(("rule", "a"), [("ours", 2), ("theirs", None)])
def test_a_deletion_and_an_edit_after_the_crossing_conflict(graph, rule, a):
    put(graph, "main", x("z", a=1))
    put(graph, "dev", x("z", b=1))
    cross(graph)
    put(graph, "main", x("z", a=2))
    delete(graph, "dev", "z")
    assert conflicts(graph) == [("delete_vs_update", "z", ())]
    graph.merge("dev", resolve=rule)
    assert (read(graph, "z") or {"a": None})["a"] == a


def test_a_decision_for_the_base_of_both_brings_back_what_one_deleted(graph):
    put(graph, "main", x("z", a=1))
    put(graph, "dev", x("z", b=1))
    cross(graph)
    delete(graph, "main", "z")
    put(graph, "dev", x("z", a=2, c=2))
    (conflict,) = graph.merge("dev", dry_run=True).conflicts
    assert (conflict.base["a"], conflict.base["b"]) == (1, 1)
    done = graph.merge("dev", decisions=[{**conflict.wire(), "take": "base"}])
    (counts,) = (one for one in done.tables if one.table_key == "node:X")
    assert (counts.inserted, counts.updated, counts.deleted) == (1, 0, 0)
    assert [read(graph, "z")[name] for name in "abcd"] == [1, 1, 0, 0]


@pytest.mark.parametrize("granularity", ["property", "entity"])
def test_a_deletion_that_crossed_in_agreement_is_a_base(graph, granularity):
    """Both deleted it; what one inserts again afterwards is an insertion of that side alone."""
    delete(graph, "main", "z")
    delete(graph, "dev", "z")
    put(graph, "main", x(a=1))
    cross(graph)
    put(graph, "dev", x("z", a=5))
    graph.merge("dev", granularity=granularity)
    assert [read(graph, "z")[name] for name in "abcd"] == [5, None, None, None]


@pytest.mark.parametrize("granularity", ["property", "entity"])
def test_insertions_that_crossed_are_a_base_of_what_they_agree_on(graph, granularity):
    put(graph, "main", x("n", a=1, b=1))
    put(graph, "dev", x("n", a=1, b=2))
    cross(graph, resolve="ours")
    put(graph, "dev", x("n", b=1))
    put(graph, "main", x("n", a=3))
    if granularity == "entity":
        assert conflicts(graph, granularity=granularity) == [("divergent_update", "n", ("a",))]
        return
    graph.merge("dev")
    assert [read(graph, "n")[name] for name in "ab"] == [3, 1]


def test_a_row_put_again_as_it_was_is_no_change_after_the_crossing(graph):
    put(graph, "main", x(a=1))
    put(graph, "dev", x(b=1))
    cross(graph)
    delete(graph, "dev", "z")
    put(graph, "dev", x("z", a=0, b=0, c=0, d=0, log=[0]))
    put(graph, "main", x("z", c=4))
    graph.merge("dev")
    assert [read(graph, "z")[name] for name in "abcd"] == [0, 0, 4, 0]


def test_properties_merge_after_crossing_again_and_again(graph):
    for round in range(1, 5):
        put(graph, "main", x(a=round))
        put(graph, "dev", x(b=round))
        cross(graph)
    put(graph, "main", x(a=9, c=9))
    put(graph, "dev", x(b=8, d=8))
    graph.merge("dev")
    found = read(graph)
    assert [found[name] for name in "abcd"] == [9, 8, 9, 8]


def test_only_a_property_that_crossed_in_contradiction_has_no_base(graph):
    put(graph, "main", x(a=1, c=1))
    put(graph, "dev", x(a=2, d=1))
    cross(graph, resolve="ours")
    put(graph, "main", x(b=5))
    assert conflicts(graph) == [("divergent_update", "x", ("a",))]
    (conflict,) = graph.merge("dev", dry_run=True).conflicts
    assert conflict.base is None
    put(graph, "dev", x(b=6))
    assert conflicts(graph) == [("divergent_update", "x", ("a", "b"))]
    (conflict,) = graph.merge("dev", dry_run=True).conflicts
    assert "a" not in conflict.base
    assert (conflict.base["b"], conflict.base["c"], conflict.base["d"]) == (0, 1, 1)
    put(graph, "dev", x(a=1, b=0))
    graph.merge("dev")
    found = read(graph)
    assert [found[name] for name in "abcd"] == [1, 5, 1, 1]


def test_a_property_without_a_base_that_both_have_alike_is_no_conflict(graph):
    """Both sides agreed on a value when they crossed."""
    put(graph, "main", x(a=1))
    put(graph, "dev", x(a=2))
    cross(graph, resolve="X.a=max")
    put(graph, "main", x(c=1))
    put(graph, "dev", x(d=1))
    graph.merge("dev")
    found = read(graph)
    assert [found[name] for name in "abcd"] == [2, 0, 1, 1]


@pytest.mark.parametrize("granularity", ["property", "entity"])
def test_a_deletion_that_crossed_with_an_edit_has_no_base_at_all(graph, granularity):
    for branch in ("main", "dev"):
        graph.mutate('query q() { delete R where from = "x" }', branch=branch)
    delete(graph, "main")
    put(graph, "dev", x(a=2))
    cross(graph, resolve="ours")
    options = {"granularity": granularity}
    assert conflicts(graph, **options) == [("delete_vs_update", "x", ())]
    (conflict,) = graph.merge("dev", dry_run=True, **options).conflicts
    assert conflict.base is None
    with pytest.raises(BadRequest, match="there is no single base"):
        graph.merge("dev", decisions=[{**conflict.wire(), "take": "base"}], **options)


def test_by_entity_a_row_that_both_sides_changed_before_they_crossed_has_no_base(graph):
    put(graph, "main", x(a=1))
    put(graph, "dev", x(b=1))
    cross(graph)
    put(graph, "main", x(c=1))
    put(graph, "dev", x(d=1))
    found = [("divergent_update", "x", ("c", "d"))]
    assert conflicts(graph, granularity="entity") == found
    (conflict,) = graph.merge("dev", dry_run=True, granularity="entity").conflicts
    assert conflict.base is None


def test_edges_blobs_and_vectors_have_a_base_of_both(graph):
    put(graph, "main", x(p="base64:AAAA"), r("x", "2"))
    put(graph, "dev", x(v=[1.0, 0.0]), r("x", "1", b=7))
    cross(graph)
    put(graph, "main", x(v=[1.0, 2.0]), r("x", "2", a=3))
    put(graph, "dev", x(p="base64:AAAB"), r("x", "3"))
    graph.merge("dev")
    found = read(graph)
    assert found["v"] == [1.0, 2.0]
    assert graph.read_blob("X", "x", "p").read() == b"\0\0\1"
    edge = read(graph, "r")
    assert (edge["from"], edge["to"], edge["a"], edge["b"]) == ("x", "3", 3, 7)


def test_values_that_both_change_after_the_crossing_conflict(graph):
    put(graph, "main", x(v=[1.0, 0.0]), r("x", "2"))
    put(graph, "dev", x(log=[0, 1]), r("x", "1", a=1))
    cross(graph)
    put(graph, "main", x(v=[1.0, 1.0], log=[0, 1, 2]), r("x", "3", b=1))
    put(graph, "dev", x(v=[1.0, 2.0], log=[0, 1, 3]), r("z", "2", b=2))
    assert conflicts(graph) == [
        ("divergent_update", "r", ("b",)),
        ("divergent_update", "x", ("log", "v")),
    ]
    listed = graph.merge("dev", dry_run=True).wire()["conflicts"]
    graph.merge("dev", decisions=[{**one, "take": "base"} for one in listed])
    assert (read(graph)["v"], read(graph)["log"]) == ([1.0, 0.0], [0, 1])
    edge = read(graph, "r")
    assert (edge["from"], edge["to"], edge["a"], edge["b"]) == ("z", "3", 1, None)


@pytest.mark.parametrize("granularity", ["property", "entity"])
def test_an_end_that_moved_and_moved_back_is_no_change(graph, granularity):
    put(graph, "main", r("x", "2"))
    put(graph, "dev", x(b=1))
    cross(graph)
    put(graph, "dev", r("z", "2"))
    put(graph, "dev", r("x", "2"))
    put(graph, "main", r("x", "3", a=4))
    graph.merge("dev", granularity=granularity)
    edge = read(graph, "r")
    assert (edge["from"], edge["to"], edge["a"]) == ("x", "3", 4)


def test_an_edge_of_both_may_not_lose_its_end(graph):
    put(graph, "main", r("x", "1", a=1))
    put(graph, "dev", r("x", "1", b=1))
    cross(graph)
    put(graph, "main", r("x", "2"))
    graph.mutate('query q() { delete Y where k = "2" }', branch="dev")
    put(graph, "dev", r("x", "1", b=2))
    assert [kind for kind, *_ in conflicts(graph)] == ["orphan_edge"]


def test_blobs_that_both_change_after_the_crossing_conflict(graph):
    put(graph, "main", x(p="base64:AAAA"))
    put(graph, "dev", x(b=1))
    cross(graph)
    put(graph, "main", x(p="base64:AAAC"))
    put(graph, "dev", x(p="base64:AAAB"))
    assert conflicts(graph) == [("divergent_update", "x", ("p",))]
    (conflict,) = graph.merge("dev", dry_run=True).conflicts
    assert conflict.base["p"] == {"bytes": 3}
    graph.merge("dev", decisions=[{**conflict.wire(), "take": "base"}])
    assert graph.read_blob("X", "x", "p").read() == b"\0\0\0"


def test_rules_and_decisions_use_the_base_of_both(graph):
    put(graph, "main", x(a=10, log=[0, 1]), x("z", a=10))
    put(graph, "dev", x(b=1), x("z", b=1))
    cross(graph)
    put(graph, "main", x(a=11, log=[0, 1, 2]), x("z", a=11))
    put(graph, "dev", x(a=15, log=[0, 1, 3]), x("z", a=15))
    listed = graph.merge("dev", dry_run=True).wire()["conflicts"]
    decided = [{**one, "take": "base"} for one in listed if one["entity_id"] == "z"]
    graph.merge("dev", resolve=["X.a=sum", "X.log=append"], decisions=decided)
    found = read(graph)
    assert (found["a"], found["b"], found["log"]) == (16, 1, [0, 1, 2, 3])
    found = read(graph, "z")
    assert (found["a"], found["b"]) == (10, 1)


def test_a_rule_that_needs_a_base_decides_only_where_there_is_one(graph):
    put(graph, "main", x(a=1), x("z", b=1))
    put(graph, "dev", x(a=2), x("z", c=1))
    cross(graph, resolve="ours")
    put(graph, "main", x(c=1), x("z", a=1))
    put(graph, "dev", x(d=1), x("z", a=1))
    put(graph, "dev", x("z", a=2))
    found = [("divergent_update", "x", ("a",))]
    assert conflicts(graph, resolve="X.a=sum") == found
    listed = graph.merge("dev", dry_run=True).wire()["conflicts"]
    decided = [{**one, "take": "base"} for one in listed]
    with pytest.raises(BadRequest, match=r"X 'x' is 'base'.*no single base.*'a'"):
        graph.merge("dev", decisions=decided)
    decided = [{**one, "take": "target"} for one in listed if one["entity_id"] == "x"]
    graph.merge("dev", resolve=["X.a=sum"], decisions=decided)
    assert [read(graph)[name] for name in "abcd"] == [1, 0, 1, 1]
    assert [read(graph, "z")[name] for name in "abcd"] == [3, 1, 1, 0]


def test_a_type_that_one_branch_added_before_they_crossed_has_a_base(graph):
    """The other newest common commit has no such type, so it has none of its rows."""
    graph.apply_schema(SCHEMA + "node New { k: String @key  a: I32?  b: I32? }", branch="dev")
    new = {"type": "New", "data": {"k": "n", "a": 1}}
    put(graph, "dev", new, {"type": "New", "data": {"k": "o", "a": 1}})
    put(graph, "main", x(a=1))
    cross(graph)
    put(graph, "main", {"type": "New", "data": {"k": "n", "b": 2}})
    put(graph, "dev", {"type": "New", "data": {"k": "o", "b": 3}})
    graph.merge("dev")
    found = {one["data"]["k"]: one["data"] for one in graph.export(["New"])}
    assert [(found[k]["a"], found[k]["b"]) for k in ("n", "o")] == [(1, 2), (1, 3)]


WIDER = SCHEMA.replace("d: I32?", "d: I32?  e: I32?  f: I32 @default(7)")


def test_where_too_many_crossings_follow_each_other_the_base_is_unknown(graph, monkeypatch):
    for round in range(1, 4):
        put(graph, "main", x(a=round))
        put(graph, "dev", x(b=round))
        cross(graph)
    put(graph, "dev", x(a=9, c=1))
    monkeypatch.setattr(virtual_base, "MAX_MERGES", 2)
    assert conflicts(graph) == [("divergent_update", "x", ("a",))]
    monkeypatch.undo()
    graph.merge("dev")
    assert [read(graph)[name] for name in "abcd"] == [9, 3, 1, 0]


def test_merges_that_make_up_a_base_are_computed_once(graph, monkeypatch):
    """Each merge of three crossed branches needs two earlier ones: together 2 to the rounds."""
    names = {"main": "a", "dev": "b", "third": "c"}
    graph.create_branch("third")
    for round in range(1, 7):
        for branch, name in names.items():
            put(graph, branch, x(**{name: round}))
        for branch in names:
            graph.create_branch(f"old-{branch}", source=branch)
        for branch in names:
            for other in names.keys() - {branch}:
                graph.merge(f"old-{other}", branch)
        for branch in names:
            graph.delete_branch(f"old-{branch}")
    made = list[object]()
    find_newest = virtual_base.find_newest
    monkeypatch.setattr(
        virtual_base, "find_newest", lambda *given: made.append(given) or find_newest(*given)
    )
    done = graph.merge("dev")
    assert len(done.base_commit_ids) == 3
    assert len(made) < 30
    assert [read(graph)[name] for name in "abcd"] == [6, 6, 6, 0]


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_properties_that_one_branch_adds_before_they_cross_have_a_base(graph, branch):
    graph.apply_schema(WIDER, branch=branch)
    put(graph, branch, x(e=1))
    other = "dev" if branch == "main" else "main"
    put(graph, other, x(a=1))
    cross(graph)
    put(graph, "main", x(b=2, f=8))
    put(graph, "dev", x(e=2))
    graph.merge("dev")
    assert [read(graph)[name] for name in "abef"] == [1, 2, 2, 8]


@pytest.mark.parametrize("branch", ["main", "dev"])
def test_properties_that_one_branch_adds_after_they_crossed_were_the_default(graph, branch):
    put(graph, "main", x(a=1))
    put(graph, "dev", x(b=1))
    cross(graph)
    graph.apply_schema(WIDER, branch=branch)
    put(graph, branch, x(e=1, f=8), x("z", c=1))
    put(graph, "dev" if branch == "main" else "main", x(c=2), x("z", d=1))
    graph.merge("dev")
    assert [read(graph)[name] for name in "abcef"] == [1, 1, 2, 1, 8]
    assert [read(graph, "z")[name] for name in "cdef"] == [1, 1, None, 7]


def test_a_type_that_merges_by_entity_has_no_base_where_both_sides_changed_it(tmp_path):
    graph = omnigraph.init(tmp_path / "graph", SCHEMA.replace("node X", "node X @merge(entity)"))
    graph.load([x(a=0, b=0), x("z", a=0)], "append")
    graph.create_branch("dev")
    put(graph, "main", x(a=1))
    put(graph, "dev", x("z", a=1))
    cross(graph)
    put(graph, "dev", x(b=2))
    put(graph, "main", x("z", b=2))
    graph.merge("dev")
    assert [read(graph, id)["b"] for id in "xz"] == [2, 2]


def test_rules_of_the_schema_are_checked_on_rows_of_both(tmp_path):
    schema = "node X { k: String @key  a: I32?  b: I32?  c: I32?  @unique(a, b) }"
    graph = omnigraph.init(tmp_path / "graph", schema)
    graph.load([x(a=0, b=0), x("z", a=1, b=1)], "append")
    graph.create_branch("dev")
    put(graph, "main", x(c=1))
    put(graph, "dev", x("z", c=1))
    cross(graph)
    put(graph, "main", x(a=1))
    put(graph, "dev", x(b=1))
    (found,) = {(kind, *rest) for kind, _, *rest in conflicts(graph)}
    assert found == ("unique_violation", ())


def test_newest_takes_each_property_from_where_it_was_set_last(graph):
    put(graph, "main", x(a=1))
    put(graph, "dev", x(b=1))
    cross(graph)
    put(graph, "dev", x(a=5, b=5))
    put(graph, "main", x(a=6))
    put(graph, "main", x(b=6))
    put(graph, "dev", x(b=7))
    done = graph.merge("dev", resolve="newest")
    assert [read(graph)[name] for name in "ab"] == [6, 7]
    assert done.resolved == {"newest": 2}


@pytest.mark.parametrize("parent", [1, 2])
def test_a_merge_that_crossed_is_undone_and_the_branches_merge_again(graph, parent):
    """A revert is a change like others: merging again brings back nothing that it undid."""
    put(graph, "main", x(a=1))
    put(graph, "dev", x(b=1))
    cross(graph)
    put(graph, "main", x(c=1))
    merged = graph.commits()[1]
    preview = graph.revert(merged.commit_id, parent=parent, dry_run=True)
    assert not preview.conflicts
    graph.revert(merged.commit_id, parent=parent)
    undone = {1: [1, 0, 1, 0], 2: [0, 1, 1, 0]}[parent]
    assert [read(graph)[name] for name in "abcd"] == undone
    put(graph, "dev", x(d=1))
    graph.merge("dev")
    assert [read(graph)[name] for name in "abcd"] == [*undone[:3], 1]


def test_a_commit_that_was_picked_on_both_sides_of_a_crossing_is_no_conflict(graph):
    put(graph, "main", x(a=1))
    put(graph, "dev", x(b=1))
    cross(graph)
    put(graph, "dev", x(c=3))
    picked = graph.cherry_pick(graph.commits("dev")[0].commit_id)
    assert picked.outcome == "cherry_picked"
    put(graph, "main", x(d=1))
    put(graph, "dev", x(c=4))
    with pytest.raises(MergeConflicts):
        graph.merge("dev", granularity="entity")
    assert conflicts(graph) == [("divergent_update", "x", ("c",))]
    put(graph, "dev", x(c=3))
    graph.merge("dev")
    assert [read(graph)[name] for name in "abcd"] == [1, 1, 3, 1]


def test_of_three_crossed_branches_each_property_has_its_base(graph):
    """Three newest common commits, each of which set another property."""
    for name, values in (("one", {"a": 1}), ("two", {"b": 1}), ("three", {"c": 1})):
        graph.create_branch(name)
        put(graph, name, x(**values))
    for target in ("main", "dev"):
        for name in ("one", "two", "three"):
            graph.merge(name, target)
    put(graph, "main", x(a=2))
    put(graph, "dev", x(b=2, d=2))
    done = graph.merge("dev")
    assert len(done.base_commit_ids) == 3
    assert [read(graph)[name] for name in "abcd"] == [2, 2, 1, 2]


def test_many_rows_that_crossed_merge_by_property(graph):
    ids = [f"n{number:05}" for number in range(9_000)]
    graph.load([x(id, a=0, b=0) for id in ids], "append")
    graph.merge("main", "dev")
    put(graph, "main", *(x(id, a=1) for id in ids))
    put(graph, "dev", *(x(id, b=1) for id in ids))
    cross(graph)
    put(graph, "main", *(x(id, c=2) for id in ids[::2]))
    put(graph, "dev", *(x(id, d=2) for id in ids[::3]))
    graph.merge("dev")
    rows = graph.nodes("X").to_arrow().sort_by("k").to_pylist()
    for at, row in enumerate(rows[: len(ids)]):
        wanted = (1, 1, 2 if at % 2 == 0 else None, 2 if at % 3 == 0 else None)
        assert (row["a"], row["b"], row["c"], row["d"]) == wanted, row["k"]

"""Every pair of what a source and a target may do, for every kind of value, by property and row."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations

import pytest

import omnigraph
from omnigraph.errors import MergeConflicts

SCHEMA = """
node Person {
  name: String @key
  age: I32?
  tags: [String]?
  place: Vector(2)?
  photo: Blob?
  note: String?
}
edge Knows: Person -> Person {
  age: I32?
  tags: [String]?
  place: Vector(2)?
  photo: Blob?
  note: String?
}
"""
VALUES = {
    "age": (30, 31, 32),
    "tags": (["a"], ["a", "b"], ["b"]),
    "place": ([0.0, 1.0], [1.0, 1.0], [1.0, 2.0]),
    "photo": ("base64:YWJj", "base64:YWJk", "base64:YWJl"),
}
"""For each property the value at the base, in the source and in the target."""
TYPES = {"age": "I32", "tags": "[String]", "place": "Vector(2)", "photo": "Blob"}
OPERATIONS = [
    *("noop", "addNode", "removeNode", "addEdge", "removeEdge", "setProperty", "setOther"),
    "netZero",
]
CHANGES = ("setProperty", "setOther")
CONFLICTS = {
    frozenset({"addNode"}): "divergent_insert",
    frozenset({"removeNode", "addEdge"}): "orphan_edge",
    frozenset({"setProperty"}): "divergent_update",
    frozenset({"setOther"}): "divergent_update",
    **{frozenset({"removeNode", change}): "delete_vs_update" for change in CHANGES},
}
"""Whichever side does what."""
ROW_CONFLICTS = {**CONFLICTS, frozenset(CHANGES): "divergent_update"}
"""The conflicts of a merge by entity: rows are changed on both sides, whatever of them."""

EDGE_OPERATIONS = [
    *("noop", "addEdge", "removeEdge", "setProperty", "setOther", "moveEdge", "removeNode"),
    "netZero",
]
EDGE_CHANGES = (*CHANGES, "moveEdge")
EDGE_CONFLICTS = {
    frozenset({"addEdge"}): "divergent_insert",
    frozenset({"addEdge", "removeNode"}): "orphan_edge",
    frozenset({"setProperty"}): "divergent_update",
    frozenset({"setOther"}): "divergent_update",
    **{
        frozenset({gone, changed}): "delete_vs_update"
        for gone in ("removeEdge", "removeNode")
        for changed in EDGE_CHANGES
    },
}
"""Whichever side does what; deleting a node takes its edges along."""
EDGE_ROW_CONFLICTS = {
    **EDGE_CONFLICTS,
    **{frozenset(pair): "divergent_update" for pair in combinations(EDGE_CHANGES, 2)},
}
Conflicts = Mapping[frozenset[str], str]


def person(name: str, **values: object) -> dict[str, object]:
    return {"type": "Person", "data": {"name": name, **values}}


def start(graph, kind: str) -> None:
    value = VALUES[kind][0]
    people = [person(name, **{kind: value}) for name in ("Alice", "Bob", "Carol", "Dan")]
    graph.load([*people, knows("bc", "Bob", **{kind: value})], "append")


def do(branch, operation: str, kind: str, side: int) -> None:
    """Make the change of one side; `side` is 1 for the source and 2 for the target."""
    match operation:
        case "addNode":
            branch.load([person("Eve", **{kind: VALUES[kind][side]})], "append")
        case "removeNode":
            branch.mutate('query q() { delete Person where name = "Alice" }')
        case "addEdge":
            branch.mutate('query q() { insert Knows { from: "Alice", to: "Carol" } }')
        case "removeEdge":
            branch.mutate('query q() { delete Knows where from = "Bob" }')
        case "setProperty":
            branch.load([person("Alice", **{kind: VALUES[kind][side]})], "merge", partial=True)
        case "setOther":
            branch.load([person("Alice", note=f"of {side}")], "merge", partial=True)
        case "netZero":
            branch.mutate('query q() { insert Knows { from: "Dan", to: "Dan" } }')
            branch.mutate('query q() { delete Knows where from = "Dan" }')


def knows(id: str, source: str, **values: object) -> dict[str, object]:
    return {"edge": "Knows", "from": source, "to": "Carol", "data": {"id": id, **values}}


def do_to_edges(branch, operation: str, kind: str, side: int) -> None:
    """Make a change of one side to the edge from Bob to Carol, and to edges like it."""
    match operation:
        case "addEdge":
            branch.load([knows("new", "Bob", **{kind: VALUES[kind][side]})], "append")
        case "removeEdge":
            branch.mutate('query q() { delete Knows where id = "bc" }')
        case "setProperty":
            update = f'update Knows set {{ {kind}: $v }} where id = "bc"'
            text = f"query q($v: {TYPES[kind]}) {{ {update} }}"
            branch.mutate(text, params={"v": VALUES[kind][side]})
        case "setOther":
            branch.mutate(
                f'query q() {{ update Knows set {{ note: "of {side}" }} where id = "bc" }}'
            )
        case "moveEdge":
            branch.load([knows("bc", "Alice")], "merge", partial=True)
        case "removeNode":
            branch.mutate('query q() { delete Person where name = "Bob" }')
        case _:
            do(branch, operation, kind, side)


def content(branch) -> list[object]:
    records = [dict(one) for one in branch.export()]
    for one in records:
        if "edge" in one and one["data"]["id"] not in ("bc", "new"):
            one["data"] = {}  # its id was minted
    return sorted(records, key=str)


def expected(graph, operations: list[tuple[str, int]], kind: str, doing=do) -> list[object]:
    """Apply the changes of both sides one after the other on one branch."""
    graph.create_branch("both", source="base")
    both = graph.branch("both")
    for operation, side in operations:
        doing(both, operation, kind, side)
    found = content(both)
    graph.delete_branch("both")
    return found


@pytest.fixture(scope="module", params=sorted(VALUES))
def table(request, tmp_path_factory):
    graph = omnigraph.init(tmp_path_factory.mktemp("truth") / "graph", SCHEMA)
    start(graph, request.param)
    graph.create_branch("base")
    return graph, request.param


@pytest.mark.parametrize("of_target", OPERATIONS)
@pytest.mark.parametrize("of_source", OPERATIONS)
def test_a_cell_of_the_truth_table(table, of_source, of_target):
    check_cell(table, (of_source, of_target), do, CONFLICTS, ROW_CONFLICTS)


@pytest.mark.parametrize("of_target", EDGE_OPERATIONS)
@pytest.mark.parametrize("of_source", EDGE_OPERATIONS)
def test_a_cell_of_the_truth_table_of_edges(table, of_source, of_target):
    operations = (of_source, of_target)
    check_cell(table, operations, do_to_edges, EDGE_CONFLICTS, EDGE_ROW_CONFLICTS)


def list_kinds(conflicts) -> set[str]:
    """The kinds of conflicts; an edge that stays because it conflicts may miss its node besides."""
    kinds = {one.kind for one in conflicts}
    return kinds - {"orphan_edge"} or kinds


def check_cell(
    table, operations: tuple[str, str], doing, conflicts: Conflicts, row_conflicts: Conflicts
) -> None:
    (graph, kind), (of_source, of_target) = table, operations
    for name in ("source", "target"):
        if name in graph.branches():
            graph.delete_branch(name)
        graph.create_branch(name, source="base")
    source, target = graph.branch("source"), graph.branch("target")
    doing(source, of_source, kind, 1)
    doing(target, of_target, kind, 2)
    before, head = content(target), target.commits()[0]
    pair = frozenset(operations)
    by_row = target.merge("source", dry_run=True, granularity="entity")
    assert (
        list_kinds(by_row.conflicts) == {row_conflicts[pair]}
        if pair in row_conflicts
        else not by_row.conflicts
    )
    if pair in conflicts:
        with pytest.raises(MergeConflicts) as raised:
            target.merge("source")
        assert list_kinds(raised.value.conflicts) == {conflicts[pair]}
        assert content(target) == before
        assert target.commits()[0] == head
        return
    result = target.merge("source")
    if of_source == "noop":
        assert result.outcome == "already_up_to_date"
        assert target.commits()[0] == head
        return
    assert result.outcome == ("fast_forward" if of_target == "noop" else "merged")
    if of_source == of_target and of_source != "addEdge":
        assert content(target) == before
    else:
        both = [(of_source, 1), (of_target, 2)]
        assert content(target) == expected(graph, both, kind, doing)
    assert result.commit.parent_commit_id == head.commit_id
    assert result.commit.merged_parent_commit_id == source.commits()[0].commit_id
    assert target.merge("source").outcome == "already_up_to_date"

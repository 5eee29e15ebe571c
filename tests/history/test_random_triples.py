"""Random bases, sources and targets against a merge of plain dictionaries.

Many entities share one graph: each is a triple of its own.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import omnigraph
from omnigraph.errors import MergeConflicts

SCHEMA = """
node Thing {
  slug: String @key
  number: F64?
  text: String?
  list: [String]?
  vector: Vector(2)?
}
edge Link: Thing -> Thing {
  weight: I64?
  list: [String]?
}
"""
ENTITIES = 500
Row = dict[str, Any]
State = dict[str, Row]

NODE_VALUES: dict[str, list[object]] = {
    "number": [None, 0.0, 1.5],
    "text": [None, "", "é"],
    "list": [None, [], ["a"], ["a", "b"]],
    "vector": [None, [0.0, 1.0], [1.0, 0.0]],
}
EDGE_VALUES: dict[str, list[object]] = {"weight": [None, 0, 7], "list": [None, [], ["x"]]}


def merged(base: State, source: State, target: State) -> tuple[State, dict[str, str]]:
    """The result, with the target's rows where there is a conflict, and the conflicts."""
    result, conflicts = dict(target), {}
    for id in base.keys() | source.keys() | target.keys():
        b, s, t = base.get(id), source.get(id), target.get(id)
        if s in (b, t):
            continue
        if t == b:
            result.pop(id, None)
            if s is not None:
                result[id] = s
        elif s is None or t is None:
            conflicts[id] = "delete_vs_update"
        else:
            conflicts[id] = "divergent_insert" if b is None else "divergent_update"
    return result, conflicts


def row(chance: random.Random, values: dict[str, list[object]]) -> Row:
    return {name: chance.choice(choices) for name, choices in values.items()}


def changed(
    chance: random.Random,
    base: State,
    ids: list[str],
    values: dict[str, list[object]],
    unchanged: float,
) -> State:
    """A side: most entities as they were, the others changed, deleted, inserted or put again."""
    found = {}
    for id in ids:
        was, luck = base.get(id), chance.random()
        if luck < unchanged:
            now = was
        elif chance.random() < 0.3:
            now = None
        else:
            now = row(chance, values)
        if now is not None:
            found[id] = now
    return found


def records(nodes: State, edges: State) -> list[dict[str, object]]:
    """An edge goes from the thing that stays to itself."""
    things = [{"type": "Thing", "data": {"slug": id, **row}} for id, row in nodes.items()]
    links = [
        {"edge": "Link", "from": "stays", "to": "stays", "data": {"id": id, **row}}
        for id, row in edges.items()
    ]
    return [*things, {"type": "Thing", "data": {"slug": "stays"}}, *links]


def put(
    branch, before: tuple[State, State], after: tuple[State, State], *, overwrites: bool
) -> None:
    """Bring a branch to a state, by replacing everything or by the changes alone."""
    if overwrites:
        branch.load(records(*after), "overwrite")
        return
    written = [
        {id: row for id, row in now.items() if was.get(id) != row}
        for was, now in zip(before, after, strict=True)
    ]
    branch.load(records(*written), "merge")
    gone = [
        f'delete {name} where {key} = "{id}"'
        for (name, key), was, now in zip(
            (("Thing", "slug"), ("Link", "id")), before, after, strict=True
        )
        for id in was.keys() - now.keys()
    ]
    if gone:
        branch.mutate("query q() { " + "\n".join(gone) + " }")


def state(branch) -> tuple[State, State]:
    nodes, edges = {}, {}
    for one in branch.export():
        data = dict(one["data"])
        id = data.pop("id")
        data.pop("slug", None)
        if id != "stays":
            (edges if "edge" in one else nodes)[id] = data
    return nodes, edges


def check(
    path, seed: int, *, entities: int = ENTITIES, unchanged: float = 0.5, **where: Any
) -> None:
    """One graph of many triples; `where` says on which engine rows are compared."""
    chance = random.Random(seed)
    ids = [f"e{number:04d}" for number in range(entities)]
    kinds = (NODE_VALUES, EDGE_VALUES)
    base = tuple(
        {id: row(chance, values) for id in ids if chance.random() < 0.7} for values in kinds
    )
    sides = [
        tuple(
            changed(chance, was, ids, values, unchanged)
            for was, values in zip(base, kinds, strict=True)
        )
        for _ in range(2)
    ]
    graph = omnigraph.init(path, SCHEMA)
    graph.load(records(*base), "append")
    target_name = chance.choice(["main", "target"])
    graph.create_branch("source")
    if target_name != "main":
        graph.create_branch(target_name)
    target = graph.branch(target_name)
    put(graph.branch("source"), base, sides[0], overwrites=chance.random() < 0.3)
    put(target, base, sides[1], overwrites=chance.random() < 0.3)
    if chance.random() < 0.5:
        graph.optimize(branch=chance.choice(["source", target_name]))
    assert (state(graph.branch("source")), state(target)) == (sides[0], sides[1]), seed

    wanted = [merged(*three) for three in zip(base, *sides, strict=True)]
    conflicts = [dict(found) for _, found in wanted]
    preview = graph.merge("source", target.name, dry_run=True, **where)
    found: list[dict[str, str]] = [{}, {}]
    for one in preview.conflicts:
        found[one.type_key == "edge:Link"][one.id] = one.kind
    assert found == conflicts, seed
    mirrored = graph.merge(target_name, "source", dry_run=True, **where)
    assert {(c.type_key, c.id) for c in mirrored.conflicts} == {
        (c.type_key, c.id) for c in preview.conflicts
    }, seed
    if preview.conflicts:
        with pytest.raises(MergeConflicts):
            graph.merge("source", target.name, **where)
        assert state(target) == sides[1], seed
    rule = chance.choice(["ours", "theirs"])
    graph.merge("source", target.name, resolve=rule, **where)
    expected = [dict(result) for result, _ in wanted]
    if rule == "theirs":
        for result, clashes, theirs in zip(expected, conflicts, sides[0], strict=True):
            for id in clashes:
                result.pop(id, None)
                if id in theirs:
                    result[id] = theirs[id]
    assert state(target) == tuple(expected), seed
    assert graph.merge("source", target.name).outcome == "already_up_to_date", seed


@pytest.mark.parametrize("seed", range(5))
def test_random_triples_merge_as_dictionaries_do(tmp_path, seed):
    """Five hundred nodes and five hundred edges: a thousand triples."""
    check(tmp_path / "graph", seed)


@pytest.mark.parametrize("seed", range(5, 9))
def test_a_few_random_changes_merge_as_dictionaries_do(tmp_path, seed):
    """So few that rows are read one by one, and not by scans."""
    check(tmp_path / "graph", seed, entities=80, unchanged=0.85)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(300, 400))
def test_a_few_random_changes_at_a_time_merge_as_dictionaries_do(tmp_path, seed):
    check(tmp_path / "graph", seed, entities=80, unchanged=0.85)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_random_triples_merge_as_dictionaries_do(tmp_path, seed):
    check(tmp_path / "graph", seed)

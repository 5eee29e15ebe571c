"""Random bases, sources and targets against a merge of plain dictionaries.

Many entities share one graph: each is a triple of its own.
"""

from __future__ import annotations

import random
from typing import Any

import pytest

import omnigraph
from model.merge_oracle import Clash, Row, State, are_alike, merge_states
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

NODE_VALUES: dict[str, list[object]] = {
    "number": [None, 0.0, -0.0, 1.5],
    "text": [None, "", "é"],
    "list": [None, [], ["a"], ["a", "b"]],
    "vector": [None, [0.0, 1.0], [1.0, 0.0]],
}
ENDS = ("stays", "stays too")
EDGE_VALUES: dict[str, list[object]] = {
    "src": list(ENDS),
    "dst": list(ENDS),
    "weight": [None, 0, 7],
    "list": [None, [], ["x"]],
}


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
        elif was is not None and chance.random() < 0.5:
            name = chance.choice(list(values))
            now = {**was, name: chance.choice(values[name])}
        else:
            now = row(chance, values)
        if now is not None:
            found[id] = now
    return found


def records(nodes: State, edges: State) -> list[dict[str, object]]:
    """An edge from a node that stays to another, or to itself."""
    things = [{"type": "Thing", "data": {"slug": id, **row}} for id, row in nodes.items()]
    links = []
    for id, row in edges.items():
        data = {name: value for name, value in row.items() if name not in ("src", "dst")}
        ends = {"from": row["src"], "to": row["dst"]}
        links.append({"edge": "Link", **ends, "data": {"id": id, **data}})
    return [*things, *({"type": "Thing", "data": {"slug": end}} for end in ENDS), *links]


def put(
    branch, before: tuple[State, State], after: tuple[State, State], *, overwrites: bool
) -> None:
    """Bring a branch to a state, by replacing everything or by the changes alone."""
    if overwrites:
        branch.load(records(*after), "overwrite")
        return
    written = [
        {id: row for id, row in now.items() if not are_alike(was.get(id), row)}
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
        if "edge" in one:
            edges[id] = {"src": one["from"], "dst": one["to"], **data}
        elif id not in ENDS:
            nodes[id] = data
    return nodes, edges


def sort_states(states) -> list[object]:
    """Order entities and properties, so that -0.0 and 0.0 differ by their text."""
    return [sorted((id, sorted(row.items())) for id, row in one.items()) for one in states]


def check(
    path,
    seed: int,
    *,
    entities: int = ENTITIES,
    unchanged: float = 0.5,
    granularity: str = "property",
    **where: Any,
) -> None:
    """One graph of many triples; `where` names the engine that compares rows."""
    where["granularity"] = granularity
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

    triples: list[tuple[State, State, State]] = list(zip(base, *sides, strict=True))
    conflicts = [merge_states(*three, granularity)[1] for three in triples]
    preview = graph.merge("source", target.name, dry_run=True, **where)
    found: list[dict[str, Clash]] = [{}, {}]
    for one in preview.conflicts:
        clash = Clash(one.kind, frozenset(one.properties))
        found[one.type_key == "edge:Link"][one.id] = clash
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
    expected = [merge_states(*three, granularity, whole=rule)[0] for three in triples]
    assert repr(sort_states(state(target))) == repr(sort_states(expected)), seed
    assert graph.merge("source", target.name).outcome == "already_up_to_date", seed


@pytest.mark.parametrize("granularity", ["property", "entity"])
@pytest.mark.parametrize("seed", range(5))
def test_random_triples_merge_as_dictionaries_do(tmp_path, seed, granularity):
    """Five hundred nodes and five hundred edges: a thousand triples."""
    check(tmp_path / "graph", seed, granularity=granularity)


@pytest.mark.parametrize("granularity", ["property", "entity"])
@pytest.mark.parametrize("seed", range(5, 9))
def test_a_few_random_changes_merge_as_dictionaries_do(tmp_path, seed, granularity):
    """So few that rows are read one by one, and not by scans."""
    check(tmp_path / "graph", seed, entities=80, unchanged=0.85, granularity=granularity)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(300, 400))
def test_a_few_random_changes_at_a_time_merge_as_dictionaries_do(tmp_path, seed):
    granularity = ("property", "entity")[seed % 2]
    check(tmp_path / "graph", seed, entities=80, unchanged=0.85, granularity=granularity)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(100, 300))
def test_many_random_triples_merge_as_dictionaries_do(tmp_path, seed):
    check(tmp_path / "graph", seed, granularity=("property", "entity")[seed % 2])

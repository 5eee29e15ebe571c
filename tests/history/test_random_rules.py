"""Rules for properties against an oracle: the same rules, written for dictionaries."""

from __future__ import annotations

import random
from typing import Any

import pytest

import omnigraph
from model.merge_oracle import Row, merge_states

SCHEMA = """
node T {
  k: String @key
  n: I32?
  f: F64?
  at: DateTime?
  day: Date?
  text: String?
  is: Bool?
  set: [String]?
  log: [I32]?
  v: Vector(2)?
  b: Blob?
  plain: String?
}
"""
VALUES: dict[str, list[Any]] = {
    "n": [None, -3, 0, 5],
    "f": [None, -1.5, 0.0, 2.5],
    "at": [None, 0, 86_400_000],
    "day": [None, 0, 20_000],
    "text": [None, "", "a", "b"],
    "is": [None, True, False],
    "set": [None, [], ["p"], ["p", "q"], ["q", "r"]],
    "log": [None, [], [1], [1, 2], [2, 2], [1, 3]],
    "v": [None, [0.0, 1.0], [1.0, 2.0]],
    "b": [None, "base64:", "base64:AAAA", "base64:AAAB"],
    "plain": [None, "1", "2"],
}
RULES = {
    "n": "sum",
    "f": "max",
    "at": "min",
    "day": "max",
    "text": "max",
    "is": "min",
    "set": "union",
    "log": "append",
    "v": "theirs",
    "b": "theirs",
}
"""Only a rule for rows applies to `plain`."""


def make_row(chance: random.Random) -> Row:
    return {name: chance.choice(values) for name, values in VALUES.items()}


def change(chance: random.Random, row: Row | None) -> Row | None:
    if row is None or chance.random() < 0.1:
        return make_row(chance) if chance.random() < 0.4 else None
    names = chance.sample(list(VALUES), chance.randrange(5))
    return {**row, **{name: chance.choice(VALUES[name]) for name in names}}


def write(graph: omnigraph.Graph, branch: str, rows: dict[str, Row | None]) -> None:
    there = [{"type": "T", "data": {"k": k, **row}} for k, row in rows.items() if row]
    graph.load(there, "overwrite", branch=branch)


def read(graph: omnigraph.Graph) -> dict[str, Row]:
    found = (one["data"] for one in graph.export())
    return {row["k"]: {name: row[name] for name in VALUES} for row in found}


def check(path, seed: int, entities: int, granularity: str) -> None:
    chance = random.Random(seed)
    base = {f"k{n}": make_row(chance) if chance.random() < 0.8 else None for n in range(entities)}
    sides = [{k: change(chance, row) for k, row in base.items()} for _ in range(2)]
    graph = omnigraph.init(path, SCHEMA)
    write(graph, "main", base)
    graph.create_branch("dev")
    for branch, rows in zip(("dev", "main"), sides, strict=True):
        write(graph, branch, rows)
    rules = [f"T.{name}={rule}" for name, rule in RULES.items()]
    was, theirs, ours = ({k: row for k, row in one.items() if row} for one in (base, *sides))
    _, clashes = merge_states(was, theirs, ours, granularity, RULES)
    preview = graph.merge("dev", dry_run=True, resolve=rules, granularity=granularity)
    found = {one.id: frozenset(one.properties) for one in preview.conflicts}
    assert found == {k: clash.properties for k, clash in clashes.items()}, seed
    whole = chance.choice(["ours", "theirs"])
    wanted, _ = merge_states(was, theirs, ours, granularity, RULES, whole)
    before = read(graph)
    done = graph.merge("dev", resolve=[*rules, whole], granularity=granularity)
    after = read(graph)
    assert after == wanted, seed
    inserted = sum(table.inserted for table in done.tables)
    deleted = sum(table.deleted for table in done.tables)
    assert (inserted, deleted) == (len(after.keys() - before), len(before.keys() - after)), seed


@pytest.mark.parametrize("granularity", ["property", "entity"])
@pytest.mark.parametrize("seed", [0, 1])
def test_rules_decide_as_they_do_for_dictionaries(tmp_path, seed, granularity):
    check(tmp_path / "graph", seed, 120, granularity)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(2, 60))
def test_rules_decide_as_they_do_for_many_dictionaries(tmp_path, seed):
    chance = random.Random(seed)
    granularity = chance.choice(["property", "entity"])
    check(tmp_path / "graph", seed, chance.choice([40, 400, 2_000]), granularity)

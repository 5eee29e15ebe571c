"""Rules for properties against an oracle: the same rules, written for dictionaries."""

from __future__ import annotations

import random
from typing import Any

import pytest

import omnigraph

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
"""Of `plain` only a rule for rows speaks."""

Row = dict[str, Any]
CONFLICT: Row = {"conflict": True}


def decide(rule: str, base: Any, source: Any, target: Any) -> Any:
    match rule:
        case "theirs":
            return source
        case "max" | "min":
            known = [value for value in (source, target) if value is not None]
            return (max if rule == "max" else min)(known)
        case "sum":
            return (target or 0) + (source or 0) - (base or 0)
        case "union":
            return list(dict.fromkeys([*(target or []), *(source or [])]))
        case "append":
            old, new, kept = base or [], source or [], 0
            while kept < min(len(old), len(new)) and old[kept] == new[kept]:
                kept += 1
            return [*(target or []), *new[kept:]]
    return target


def merge_rows(base: Row | None, source: Row | None, target: Row | None, whole: str) -> Row | None:
    """Merge an entity; `whole` is the rule for rows, or empty."""
    if source in (base, target):
        return target
    if target == base:
        return source
    if source is None or target is None:
        return CONFLICT if not whole else source if whole == "theirs" else target
    merged = {}
    for name in VALUES:
        was, theirs, ours = (row and row[name] for row in (base, source, target))
        merged[name] = ours
        if theirs == ours or (base is not None and theirs == was):
            continue
        rule = RULES.get(name, whole)
        if base is not None and ours == was:
            merged[name] = theirs
        elif not rule:
            return CONFLICT
        else:
            merged[name] = decide(rule, was, theirs, ours)
    return merged


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


def check(path, seed: int, entities: int) -> None:
    chance = random.Random(seed)
    base = {f"k{n}": make_row(chance) if chance.random() < 0.8 else None for n in range(entities)}
    sides = [{k: change(chance, row) for k, row in base.items()} for _ in range(2)]
    graph = omnigraph.init(path, SCHEMA)
    write(graph, "main", base)
    graph.create_branch("dev")
    for branch, rows in zip(("dev", "main"), sides, strict=True):
        write(graph, branch, rows)
    rules = [f"T.{name}={rule}" for name, rule in RULES.items()]
    wanted = {k: merge_rows(base[k], sides[0][k], sides[1][k], "") for k in base}
    preview = graph.merge("dev", dry_run=True, resolve=rules)
    assert {one.id for one in preview.conflicts} == {
        k for k, row in wanted.items() if row is CONFLICT
    }, seed
    whole = chance.choice(["ours", "theirs"])
    wanted = {k: merge_rows(base[k], sides[0][k], sides[1][k], whole) for k in base}
    before, done = read(graph), graph.merge("dev", resolve=[*rules, whole])
    after = read(graph)
    assert after == {k: row for k, row in wanted.items() if row}, seed
    inserted = sum(table.inserted for table in done.tables)
    deleted = sum(table.deleted for table in done.tables)
    assert (inserted, deleted) == (len(after.keys() - before), len(before.keys() - after)), seed


def test_rules_decide_as_they_do_for_dictionaries(tmp_path):
    check(tmp_path / "graph", 1, 120)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(2, 60))
def test_rules_decide_as_they_do_for_many_dictionaries(tmp_path, seed):
    check(tmp_path / "graph", seed, random.Random(seed).choice([40, 400, 2_000]))

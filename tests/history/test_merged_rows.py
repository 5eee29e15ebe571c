"""A merge replaces rows where they are, by what it knows from comparing them, and no others."""

from __future__ import annotations

import random

import pytest

import omnigraph
from omnigraph.errors import HistoricalVersionReclaimed, MergeConflicts
from omnigraph.identity import TableKey

SCHEMA = "node Item { slug: String @key  amount: I64 }"


def items(amounts: dict[str, int]) -> list[dict[str, object]]:
    return [{"type": "Item", "data": {"slug": s, "amount": a}} for s, a in amounts.items()]


def read_rows(graph, branch: str) -> tuple[dict[str, int], dict[str, int]]:
    """The amount and the row id of every item."""
    view = graph._open.views.read_newest(branch)
    found = view.snapshot.table(TableKey("node:Item")).scan(["id", "amount", "_rowid"]).to_pylist()
    row_ids = {row["id"]: row["_rowid"] for row in found}
    assert len(set(row_ids.values())) == len(found), "two rows share a row id"
    return {row["id"]: row["amount"] for row in found}, row_ids


def change(chance: random.Random, graph, branch: str, names: list[str], step: int) -> None:
    """Write some items, delete others and add a new one, and maybe merge fragments."""
    graph.load(items(dict.fromkeys(names[:-2], step)), "merge", branch=branch)
    for name in names[-2:]:
        graph.mutate(
            "query q($k: String) { delete Item where slug = $k }",
            params={"k": name},
            branch=branch,
        )
    graph.load(items({f"{branch}-{step}": step}), "append", branch=branch)
    if chance.random() < 0.5:
        graph.optimize(branch=branch)


def check(path, seed: int, rows: int) -> None:
    chance = random.Random(seed)
    graph = omnigraph.init(path, SCHEMA)
    names = [f"item-{number:05}" for number in range(rows)]
    for start in range(0, rows, rows // 3):
        graph.load(items(dict.fromkeys(names[start : start + rows // 3], 0)), "append")
    graph.create_branch("work")
    graph.create_branch("other")
    base = dict.fromkeys(names, 0)
    chance.shuffle(names)
    some = [names[start : start + rows // 8] for start in range(0, rows, rows // 8)]
    for step, target in enumerate(("main", "other")):
        if chance.random() < 0.7:
            change(chance, graph, target, some.pop(), 10 + step)
        change(chance, graph, "work", some.pop(), 20 + step)
        (before, known), (source, _) = read_rows(graph, target), read_rows(graph, "work")
        changed = {
            name for name in base.keys() | source.keys() if base.get(name) != source.get(name)
        }
        expected = {name: before[name] for name in before.keys() - changed}
        expected |= {name: source[name] for name in source.keys() & changed}
        planned = graph.merge("work", target, dry_run=True).tables
        assert graph.merge("work", target).tables == planned, seed
        after, row_ids = read_rows(graph, target)
        assert after == expected, seed
        stayed = (known.keys() & row_ids.keys()) - changed
        assert all(known[name] == row_ids[name] for name in stayed), seed


@pytest.mark.parametrize(("seed", "rows"), [(1, 40), (2, 40), (3, 40), (4, 900)])
def test_a_merge_replaces_what_the_source_changed_and_no_other_row(tmp_path, seed, rows):
    """On a fast-forward, on a fork, and after either side moved its rows."""
    check(tmp_path / "graph", seed, rows)


@pytest.mark.fuzz
@pytest.mark.parametrize("seed", range(10, 150))
def test_any_merge_replaces_what_the_source_changed_and_no_other_row(tmp_path, seed):
    check(tmp_path / "graph", seed, random.Random(seed).choice([24, 80, 300, 2_000]))


def test_a_fast_forward_finds_a_node_that_came_back_without_its_edges(tmp_path):
    """No commit of the source reported it: each checked only the nodes of its own edges."""
    schema = "node P { name: String @key }\nedge K: P -> P @card(1..2)"
    graph = omnigraph.init(tmp_path / "graph", schema)
    people = [{"type": "P", "data": {"name": name}} for name in ("a", "b")]
    graph.load([*people, {"edge": "K", "from": "a", "to": "b", "data": {}}], "append")
    graph.create_branch("work")
    work = graph.branch("work")
    work.mutate('query q() { delete P where name = "a" }')
    work.mutate('query q() { insert P { name: "a" } }')
    with pytest.raises(MergeConflicts, match="@card violation on edge K: source 'a' has 0 edges"):
        graph.merge("work", "main")


def test_a_state_that_was_read_before_is_removed_by_cleanup_all_the_same(tmp_path):
    settings = omnigraph.Settings(cleanup_grace_s=0)  # no other process writes
    graph = omnigraph.init(tmp_path / "graph", SCHEMA, settings=settings)
    for step in range(4):
        graph.load(items({"one": step}), "merge")
    old = graph.commits()[2].commit_id
    assert graph.at(old).nodes("Item").to_arrow().column("amount").to_pylist() == [1]
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(HistoricalVersionReclaimed):
        graph.at(old)

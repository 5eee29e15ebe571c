"""Writes of thousands of rows, where look-ups, fragments and deletions take other paths."""

from __future__ import annotations

from random import Random

import omnigraph
from graph.music_graph import affected, edge, entities, ids, node, run

SCHEMA = """\
node Item { slug: String @key  n: I32  group: String?  code: String?  @unique(code) }
edge Next: Item -> Item @card(0..3)
"""
COUNT = 3_000


def item(number, **more):
    data = {"n": number, "group": f"g{number % 7}", "code": f"c{number}"} | more
    return node("Item", slug=f"s{number}", **data)


def expected(numbers):
    return {f"s{n}": {"id": f"s{n}", "slug": f"s{n}", **item(n)["data"]} for n in numbers}


def test_a_large_graph_follows_a_dictionary(tmp_path):
    chance = Random(7)
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    graph.load([item(n) for n in range(COUNT)], "append")
    rows = expected(range(COUNT))
    assert entities(graph, "Item") == rows

    assert affected(graph, 'update Item set {group: "low"} where n < 1000') == (1000, 0)
    for row in rows.values():
        row["group"] = "low" if row["n"] < 1000 else row["group"]
    assert entities(graph, "Item") == rows

    picked = chance.sample(range(COUNT + 500), 1200)
    graph.load([item(n, group=None) for n in picked], "merge")
    for n in picked:
        rows |= expected([n])
        rows[f"s{n}"]["group"] = None
    assert entities(graph, "Item") == rows

    assert affected(graph, 'delete Item where group = "g3"')[0] == sum(
        row["group"] == "g3" for row in rows.values()
    )
    rows = {id: row for id, row in rows.items() if row["group"] != "g3"}
    assert entities(graph, "Item") == rows
    assert {t.table_key: t.row_count for t in graph.snapshot().tables}["node:Item"] == len(rows)


def test_a_cascade_over_thousands_of_edges_is_exact(tmp_path):
    chance = Random(11)
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    links = {(f"s{n}", f"s{chance.randrange(COUNT)}") for n in range(COUNT) for _ in range(2)}
    records = [item(n) for n in range(COUNT)]
    graph.load(records + [edge("Next", source, target) for source, target in links], "append")
    gone = {f"s{n}" for n in range(700)}
    kept = {pair for pair in links if not gone & set(pair)}
    assert affected(graph, "delete Item where n < 700") == (700, len(links) - len(kept))
    assert {(e["from"], e["to"]) for e in entities(graph, "Next").values()} == kept
    assert ids(graph, "Item") == {f"s{n}" for n in range(700, COUNT)}
    run(graph, "delete Item where n >= 0")
    assert list(graph.export()) == []
    graph.load([item(1)], "append")
    assert ids(graph, "Item") == {"s1"}


def test_every_row_of_a_type_can_be_replaced_again_and_again(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    for round_number in range(4):
        graph.load([item(n, group=f"r{round_number}") for n in range(500)], "overwrite")
        run(graph, 'update Item set {group: "odd"} where n = 7')
    groups = {row["group"] for row in entities(graph, "Item").values()}
    assert groups == {"r3", "odd"}
    first = graph.commits()[-2]
    view = graph.at(commit=first.commit_id)
    assert {r["data"]["group"] for r in view.export(["Item"])} == {"r0"}


def test_a_statement_may_change_more_rows_than_any_ceiling_in_one_commit(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    many = 9_000
    graph.load([item(n) for n in range(many)], "append")

    def state():
        version = {t.table_key: t.manifest_version for t in graph.snapshot().tables}["node:Item"]
        return len(graph.commits()), version

    commits, version = state()
    assert affected(graph, 'update Item set {group: "all"} where n >= 0') == (many, 0)
    assert state() == (commits + 1, version + 1)
    assert {row["group"] for row in entities(graph, "Item").values()} == {"all"}
    assert affected(graph, "delete Item where n >= 1") == (many - 1, 0)
    assert state() == (commits + 2, version + 2)
    assert ids(graph, "Item") == {"s0"}

"""The change feed: replayed from the beginning it is the graph at every commit."""

from __future__ import annotations

import itertools
import random
from pathlib import Path

import pytest

import omnigraph
from history.generated_history import GeneratedHistory, applied
from omnigraph.errors import BadRequest


def pages(graph, position="beginning", **given):
    """Every page from a position until the feed is caught up."""
    for _ in range(10_000):
        page = graph.changes(position, **given)
        yield page
        if page.caught_up:
            return
        position = page.position
    raise AssertionError("the feed never catches up")


def blocks(graph, position="beginning", **given):
    """The feed as commits with all their changes, however it was cut into pages."""
    joined: list[dict] = []
    goes_on = False
    for page in pages(graph, position, **given):
        found = page.wire()["blocks"]
        if goes_on:
            assert found[0]["cause"] == joined[-1]["cause"]
            joined[-1]["changes"] += found.pop(0)["changes"]
        joined += found
        goes_on = page.next_page_token is not None
    return joined


@pytest.mark.parametrize("seed", range(6))
def test_replaying_the_feed_gives_the_graph_at_every_commit(tmp_path: Path, seed: int) -> None:
    print(f"seed {seed}")
    generated = GeneratedHistory(tmp_path / "g.omni", seed)
    for _ in range(25):
        generated.step()
    for branch in generated.branches:
        entities: dict = {}
        for block in blocks(generated.graph, branch=branch):
            entities = applied(entities, block["changes"])
            commit = block["cause"]["graph_commit_id"]
            assert entities == generated.states[commit], (branch, commit)


@pytest.fixture(scope="module")
def long_history(tmp_path_factory) -> GeneratedHistory:
    generated = GeneratedHistory(tmp_path_factory.mktemp("generated") / "g.omni", seed=7)
    for _ in range(14):
        generated.step()
    return generated


def test_pages_of_any_size_give_the_same_stream(long_history: GeneratedHistory) -> None:
    graph = long_history.graph
    whole = blocks(graph, max_changes=8_192, max_commits=512)
    total = sum(len(block["changes"]) for block in whole)
    for size in (1, 2, 3, 5, 8, total - 1, total, total + 1):
        assert blocks(graph, max_changes=max(size, 1)) == whole, size
    for size in (1, 200, 1_000, 10_000):
        assert blocks(graph, max_bytes=size) == whole, size
    for size in (1, 2, 3):
        assert blocks(graph, max_commits=size) == whole, size
    chosen = random.Random(3)
    for _ in range(10):
        limits = {"max_changes": chosen.randrange(1, 20), "max_commits": chosen.randrange(1, 6)}
        assert blocks(graph, **limits) == whole, limits


def test_pages_keep_to_their_limits(long_history: GeneratedHistory) -> None:
    for page in pages(long_history.graph, max_changes=3, max_commits=2):
        assert sum(len(block.changes) for block in page.blocks) <= 3
        assert len(page.blocks) <= 2
    for page in pages(long_history.graph, max_bytes=1):
        assert sum(len(block.changes) for block in page.blocks) <= 1


def test_the_order_within_a_commit_never_changes(long_history: GeneratedHistory) -> None:
    for block in blocks(long_history.graph):
        keys = [
            (change["kind"] == "edge", change["type"]["id"], change["id"].encode())
            for change in block["changes"]
        ]
        assert keys == sorted(keys)
        assert len(keys) == len(set(keys))


def test_the_pages_of_one_commit_are_its_block(long_history: GeneratedHistory) -> None:
    graph = long_history.graph
    for block in blocks(graph):
        for size in (1, 4, 1_000):
            changes, token = [], None
            for _ in itertools.count():
                page = graph.commit_changes(
                    block["cause"]["graph_commit_id"], page_token=token, max_changes=size
                ).wire()
                assert page["cause"] == block["cause"]
                changes += page["changes"]
                token = page.get("next_page_token")
                if token is None:
                    break
            assert changes == block["changes"]


def test_a_filter_gives_what_it_names_and_every_commit(long_history: GeneratedHistory) -> None:
    graph = long_history.graph
    whole = blocks(graph)
    for given, fits in (
        ({"kinds": ["edge"]}, lambda c: c["kind"] == "edge"),
        ({"types": ["Person", "Knows"]}, lambda c: c["type"]["name"] in ("Person", "Knows")),
        ({"ops": ["delete", "update"]}, lambda c: c["op"] in ("delete", "update")),
        (
            {"kinds": ["node"], "ops": ["insert"]},
            lambda c: (c["kind"], c["op"]) == ("node", "insert"),
        ),
    ):
        expected = [
            {**block, "changes": [change for change in block["changes"] if fits(change)]}
            for block in whole
        ]
        assert blocks(graph, max_changes=2, **given) == expected, given


def test_the_feed_ends_where_it_was_cut(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.omni", "node A { k: String @key }")
    rows = [{"type": "A", "data": {"k": f"k{n}"}} for n in range(4)]
    graph.load(rows, "append")
    page = graph.changes("beginning", max_changes=3)
    graph.mutate('query q() { delete A where k = "k0" }')
    rest = graph.changes(page.position, max_changes=3)
    assert [len(block.changes) for block in rest.blocks] == [1]
    assert rest.caught_up is False
    (later,) = graph.changes(rest.position).blocks
    assert [change.op for change in later.changes] == ["delete"]


def test_where_a_feed_starts(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.omni", "node A { k: String @key }")
    made = [
        graph.mutate(f'query q() {{ insert A {{ k: "{k}" }} }}').commit.commit_id for k in "abc"
    ]
    assert graph.changes().wire()["blocks"] == []
    assert graph.changes().caught_up
    assert [b.commit.commit_id for b in graph.changes("beginning").blocks] == made
    assert [b.commit.commit_id for b in graph.changes(f"after:{made[0]}").blocks] == made[1:]
    cursor = graph.changes("now").cursor
    fourth = graph.mutate('query q() { insert A { k: "d" } }').commit.commit_id
    assert [b.commit.commit_id for b in graph.changes(cursor).blocks] == [fourth]
    with pytest.raises(BadRequest, match="not in the history"):
        graph.changes("after:01ARZ3NDEKTSV4RRFFQ69G5FAV")


def test_ids_of_any_length_are_compared_one_by_one(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.omni", "node A { k: String @key }")
    long = "é" * 200
    keys = ["a", long, long + "x", long + "y", long + "ya" * 500, "z"]
    graph.load([{"type": "A", "data": {"k": key}} for key in keys], "append")
    (block,) = blocks(graph, max_changes=1)
    expected = sorted(keys, key=str.encode)
    assert [change["after"]["properties"]["k"] for change in block["changes"]] == expected


def test_a_change_that_is_too_large_is_given_alone(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.omni", "node A { k: String @key  t: String? }")
    rows = [
        {"type": "A", "data": {"k": k, "t": "x" * size}}
        for k, size in zip("abcd", (1, 5_000, 1, 1), strict=True)
    ]
    graph.load(rows, "append")
    sizes = [len(page.blocks[0].changes) for page in pages(graph, max_bytes=1_000)]
    assert sizes == [1, 1, 2]


def test_moving_rows_changes_nothing(tmp_path: Path) -> None:
    graph = omnigraph.init(tmp_path / "g.omni", "node A { k: String @key  n: I32? }")
    for n in range(4):
        graph.load([{"type": "A", "data": {"k": f"k{n}", "n": 1}}], "append")
    cursor = graph.changes().cursor
    graph.optimize()
    graph.load([{"type": "A", "data": {"k": "k1", "n": 1}}], "merge")
    page = graph.changes(cursor)
    assert [block.changes for block in page.blocks] == [(), ()]

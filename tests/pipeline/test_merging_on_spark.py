"""Merges whose rows are compared in tasks: the same answer as in one process."""

from __future__ import annotations

from pathlib import Path

import pytest

import omnigraph
from history.test_random_triples import check
from omnigraph.errors import BadRequest
from omnigraph.history import three_way
from omnigraph.pipeline.tasks import InlineTasks

SCHEMA = "node A { k: String @key  n: I32? }"


def make_branches(place: Path, count: int) -> omnigraph.Graph:
    """Both sides change rows: one each alone, one both differently, and one both equally."""
    graph = omnigraph.init(place, SCHEMA)
    graph.load([{"type": "A", "data": {"k": f"k{n:03}", "n": 0}} for n in range(count)], "append")
    graph.create_branch("work")
    for branch, own, value in (("work", 0, 1), ("main", 1, 2)):
        rows = [{"k": f"k{n:03}", "n": value} for n in range(own, count - 2, 2)]
        rows += [{"k": f"k{count - 1:03}", "n": value}, {"k": f"k{count - 2:03}", "n": 9}]
        graph.load([{"type": "A", "data": row} for row in rows], "merge", branch=branch)
    return graph


@pytest.mark.parametrize("seed", [900, 901])
def test_random_triples_come_to_the_same_in_tasks(tmp_path, seed, monkeypatch) -> None:
    """The tasks run here, through the same pickling, with a few entities each."""
    monkeypatch.setattr(three_way, "ENTITIES_PER_TASK", 37)
    monkeypatch.setattr("omnigraph.graph.engines.open_tasks", lambda *_: InlineTasks())
    check(tmp_path / "graph", seed, engine="spark")


def test_random_triples_come_to_the_same_on_spark(spark, tmp_path) -> None:
    check(tmp_path / "graph", 902, engine="spark", session=spark)


def test_the_result_says_where_rows_were_compared(spark, tmp_path, monkeypatch) -> None:
    graph = make_branches(tmp_path / "g.omni", 40)
    found = {}
    for engine in ("local", "auto", "spark"):
        preview = graph.merge("work", dry_run=True, engine=engine, session=spark)
        found[engine] = preview.engine, preview.tables, preview.conflicts
    assert [engine for engine, *_ in found.values()] == ["local", "local", "spark"]
    assert len({repr(rest) for _, *rest in found.values()}) == 1
    assert [(one.id, one.kind) for one in found["spark"][2]] == [("k039", "divergent_update")]
    monkeypatch.setattr("omnigraph.history.three_way.LARGE_DELTA", 10)
    merged = graph.merge("work", engine="auto", session=spark, resolve="theirs")
    assert merged.wire()["engine"] == "spark"
    numbers = {row["id"]: row["n"] for row in graph.nodes("A").to_arrow().to_pylist()}
    assert [numbers[f"k{n:03}"] for n in (0, 1, 38, 39)] == [1, 2, 9, 1]


def test_an_unknown_engine_is_refused(tmp_path) -> None:
    graph = make_branches(tmp_path / "g.omni", 10)
    head = graph.commits()[0].commit_id
    with pytest.raises(BadRequest, match="engine 'sparc' is not one of auto, local, spark"):
        graph.merge("work", engine="sparc")
    assert graph.commits()[0].commit_id == head

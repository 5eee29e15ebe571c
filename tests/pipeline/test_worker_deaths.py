"""A Python worker that dies, or fails, once in any stage is replaced, and nothing else happens."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest

import omnigraph
from pipeline.fault_kernels import failing_tasks
from pipeline.random_loads import normal

TASKS = "omnigraph.pipeline.tasks.SparkTasks"
SCHEMA = """
node Person { name: String @key  age: I32?  photo: Blob? }
edge Knows: Person -> Person @card(0..9)
"""


def people(count: int, age: int) -> list[dict]:
    return [{"type": "Person", "data": {"name": f"p{i}", "age": age}} for i in range(count)]


def knows(count: int) -> list[dict]:
    return [
        {"edge": "Knows", "from": f"p{i}", "to": f"p{i + 1}", "data": {"id": f"k{i}"}}
        for i in range(count)
    ]


@pytest.fixture
def graph(new_graph):
    made = new_graph(SCHEMA)
    made.load([*people(5, 1), *knows(3)], "append")
    return made


@pytest.fixture
def fault(tmp_path, monkeypatch):
    """A fault planted in a stage, with a check that it was reached."""

    def arrange(stage: str, way: str = "kill"):
        marker = tmp_path / "failed"
        monkeypatch.setattr(TASKS, failing_tasks(stage, marker, way))
        return marker.exists

    return arrange


def ages(graph) -> dict:
    return {r["data"]["name"]: r["data"]["age"] for r in graph.export(["Person"])}


def require_one_commit(graph, before: int) -> None:
    assert len(graph.commits()) == before + 1
    assert graph.recovery_pending() == []
    assert graph.verify(deep=True).findings == ()


STAGES = ("read", "keys", "check", "write")
CASES = [
    *(("merge", stage, way) for stage in STAGES for way in ("kill", "raise")),
    ("partial", "fill", "kill"),
    ("overwrite", "write", "kill"),
    *(
        pytest.param(mode, stage, "kill", marks=pytest.mark.slow)
        for mode in ("append", "overwrite")
        for stage in STAGES
        if (mode, stage) != ("overwrite", "write")
    ),
]


@pytest.mark.parametrize(("mode", "stage", "way"), CASES)
def test_a_task_that_dies_once_is_done_again(spark, graph, fault, mode, stage, way):
    before, met = len(graph.commits()), fault(stage, way)
    match mode:
        case "merge":
            graph.load([*people(8, 100), *knows(6)], "merge", engine="spark")
            expected, edges = dict.fromkeys((f"p{i}" for i in range(8)), 100), 6
        case "partial":
            graph.load([*people(2, 100)], "merge", engine="spark", partial=True)
            expected = {"p0": 100, "p1": 100, "p2": 1, "p3": 1, "p4": 1}
            edges = 3
        case "append":
            graph.load([*people(9, 2)[5:], *knows(8)[3:]], "append", engine="spark")
            expected = {f"p{i}": 1 if i < 5 else 2 for i in range(9)}
            edges = 8
        case "overwrite":
            graph.load([*people(4, 7), *knows(2)], "overwrite", engine="spark")
            expected, edges = dict.fromkeys((f"p{i}" for i in range(4)), 7), 2
    assert met(), "the fault was met"
    assert ages(graph) == expected
    assert len(list(graph.export(["Knows"]))) == edges
    require_one_commit(graph, before)


def test_a_worker_that_dies_reading_a_data_frame_is_replaced(spark, graph, fault):
    before, met = len(graph.commits()), fault("read")
    columns = {"name": [f"f{i}" for i in range(40)], "age": [3] * 40}
    frame = spark.createDataFrame(pa.table(columns)).repartition(3)
    graph.load(frame, "append", type="Person")
    assert met(), "the fault was met"
    assert len(ages(graph)) == 45
    require_one_commit(graph, before)


def test_a_worker_that_dies_reading_a_table_is_replaced(spark, graph, fault):
    before, met = len(graph.commits()), fault("read")
    rows = pa.table({"from": ["p0", "p1"], "to": ["p4", "p4"]})
    graph.load(rows, "append", type="Knows", engine="spark")
    assert met(), "the fault was met"
    assert len(list(graph.export(["Knows"]))) == 5
    require_one_commit(graph, before)


@pytest.mark.parametrize("format", ["jsonl", "parquet"])
def test_a_worker_that_dies_exporting_leaves_every_row_once(
    spark, graph, fault, tmp_path, new_graph, format
):
    before, met = len(graph.commits()), fault("export")
    result = graph.at().export_files(tmp_path / "out", format=format, engine="spark")
    assert met(), "the fault was met"
    assert (result.rows, len(graph.commits())) == (8, before)
    if format == "jsonl":
        files = (tmp_path / "out").rglob("*.jsonl")
        lines = [json.loads(line) for f in files for line in f.read_text().splitlines()]
        assert normal(lines) == normal(graph.export())
    again = new_graph(SCHEMA)
    again.load(tmp_path / "out", "append", engine="local")
    assert normal(again.export()) == normal(graph.export())


@pytest.mark.parametrize("verb", ["optimize", "ensure_indices"])
def test_a_worker_that_dies_compacting_tables_is_replaced(spark, graph, fault, verb):
    graph.load(people(9, 2)[5:], "append")
    rows, met = normal(graph.export()), fault("compact")
    getattr(graph, verb)(engine="spark")
    assert met(), "the fault was met"
    again = omnigraph.open(graph.uri)
    assert normal(again.export()) == rows
    assert again.recovery_pending() == []
    assert again.verify(deep=True).findings == ()

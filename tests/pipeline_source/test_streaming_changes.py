"""Changes through a real session: a stream that is stopped, started again and refused."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.errors import StreamingQueryException

import omnigraph
from omnigraph.spark_source import register

SCHEMA = "node A { k: String @key  n: I32? }\nedge E: A -> A"


@pytest.fixture
def graph(tmp_path: Path) -> omnigraph.Graph:
    made = omnigraph.init(tmp_path / "g.omni", SCHEMA)
    put(made, "a", 1)
    put(made, "b", 1)
    return made


def put(graph, k: str, n: int) -> str:
    return graph.load([{"type": "A", "data": {"k": k, "n": n}}], "merge").commit.commit_id


def changes(reader, **options):
    for name, value in {"changes": "true", **options}.items():
        reader = reader.option(name, value)
    return reader.format("omnigraph")


def run(spark, graph, folder: Path, **options) -> list[tuple]:
    """Run a stream once over what is available."""
    brought = []

    def keep(frame, batch: int) -> None:
        brought.extend((batch, row["commit"], row["id"]) for row in frame.collect())

    query = (
        changes(spark.readStream, **options)
        .load(graph.uri)
        .writeStream.foreachBatch(keep)
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    try:
        assert query.awaitTermination(120), "it ends when everything was brought"
    finally:
        query.stop()
    return brought


def test_a_frame_of_a_range_has_typed_images_and_can_be_filtered(spark, graph) -> None:
    register(spark)
    put(graph, "a", 2)
    frame = changes(spark.read, type="A", startingAfter="beginning").load(graph.uri)
    assert frame.count() == 3
    (row,) = frame.where("before.n = 1 and after.n = 2").collect()
    assert (row["op"], row["id"]) == ("update", "a")
    texts = changes(spark.read, startingAfter="beginning").load(graph.uri)
    (found,) = (
        texts.where("op = 'update'")
        .selectExpr("get_json_object(after, '$.properties.n')")
        .collect()
    )
    assert found[0] == "2"


def test_a_stream_continues_from_its_checkpoint(spark, graph, tmp_path: Path) -> None:
    register(spark)
    options = {"startingAfter": "beginning", "maxCommitsPerTrigger": "1", "consumer": "copy"}
    first = run(spark, graph, tmp_path, **options)
    assert [(batch, id) for batch, _, id in first] == [(0, "a"), (1, "b")]
    assert run(spark, graph, tmp_path, **options) == []
    made = [put(graph, "c", n) for n in range(2)]
    graph.cleanup(keep=1, confirm=True)
    second = run(spark, graph, tmp_path, **options)
    assert [(batch, commit) for batch, commit, _ in second] == [(2, made[0]), (3, made[1])]


def test_a_gap_stops_the_stream_and_says_how_to_continue(spark, graph, tmp_path: Path) -> None:
    register(spark)
    run(spark, graph, tmp_path, startingAfter="beginning")
    for n in range(4):
        put(graph, "c", n)
    graph.cleanup(keep=1, confirm=True)
    with pytest.raises(StreamingQueryException, match=r"ChangeFeedGap.*take a baseline"):
        run(spark, graph, tmp_path, startingAfter="beginning")


def test_a_stream_that_cannot_be_created_says_why(spark, graph, tmp_path: Path) -> None:
    """Spark's own process stumbles over a reader that was refused; the reason is still reported."""
    register(spark)
    with pytest.raises(StreamingQueryException, match="option 'endingAt' is for batch reads only"):
        run(spark, graph, tmp_path, endingAt="now")
    with pytest.raises(Exception, match="did you mean 'startingAfter'"):
        run(spark, graph, tmp_path, startAfter="now")

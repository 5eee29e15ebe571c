"""The data source in a real session: reads, writes, and a stream that is interrupted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from omnigraph.spark_source import register


def test_a_frame_of_a_type_is_read_filtered_and_written(spark, graph, empty):
    register(spark)
    people = graph.nodes("Person").to_spark(spark)
    few = graph.nodes("Person").to_spark(spark, columns=["id", "age"])
    graph.load([{"type": "Person", "data": {"key": "later", "age": 50}}], "append")
    assert [tuple(row) for row in few.where("age > 7").orderBy("id").collect()] == [
        ("p8", 8),
        ("p9", 9),
    ]
    links = graph.edges("Knows").to_spark(spark)
    for frame, type_name in ((people, "Person"), (links, "Knows")):
        writer = frame.write.format("omnigraph").mode("append").option("type", type_name)
        writer.save(empty.uri)
    assert len(empty.commits()) == 3
    before = graph.at(commit=graph.commits()[1].commit_id)
    assert list(empty.export()) == list(before.export())


def test_a_refused_write_raises_and_changes_nothing(spark, graph):
    before = graph.commits()[0]
    rows = spark.createDataFrame([("p1", 5)], "key string, age int")
    writer = rows.write.format("omnigraph").mode("append").option("type", "Person")
    register(spark)
    with pytest.raises(Exception, match="KeyConflict"):
        writer.save(graph.uri)
    assert graph.commits()[0] == before


def test_moments_are_the_same_whatever_zone_a_session_has(spark, graph, empty):
    register(spark)
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        people = graph.nodes("Person").to_spark(spark)
        writer = people.write.format("omnigraph").mode("append").option("type", "Person")
        writer.save(empty.uri)
        text = """
        query q() {
          match {
            $o: Person { seen: datetime("2024-06-01T12:00:00.008Z") }
            $p: Person
            $p.seen > $o.seen
          }
          return { $p.key, $p.seen, datetime("2024-06-01T12:00:00.008Z") as then }
        }
        """
        found = graph.query(text, engine="spark", session=spark).rows
    finally:
        spark.conf.set("spark.sql.session.timeZone", "UTC")
    assert found == graph.query(text).rows
    assert len(found) == 1
    assert list(empty.export(["Person"])) == list(graph.export(["Person"]))


def stream(spark, graph, folder: Path, inputs: Path):
    """A query that writes one epoch for every file."""
    rows = spark.readStream.schema("text string").option("maxFilesPerTrigger", 1)
    return (
        rows.json(str(inputs))
        .writeStream.format("omnigraph")
        .option("type", "Note")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .trigger(availableNow=True)
        .start(graph.uri)
    )


def add_file(inputs: Path, number: int) -> list[str]:
    texts = [f"{number}-{row}" for row in range(3)]
    lines = "".join(json.dumps({"text": text}) + "\n" for text in texts)
    (inputs / f"{number:03}.json").write_text(lines)
    return texts


def forget_last_epoch(folder: Path) -> None:
    """Leave the state of a crash between the sink's commit and Spark's own record."""
    commits = folder / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in commits.glob(f"*{last}*"):
        path.unlink()


def test_a_repeated_epoch_writes_no_row_twice(spark, empty, tmp_path):
    register(spark)
    inputs = tmp_path / "inputs"
    inputs.mkdir()
    written: list[str] = []
    for number in range(3):
        written += add_file(inputs, number)
        query = stream(spark, empty, tmp_path, inputs)
        assert query.awaitTermination(120), "every file is read and the query ends"
        forget_last_epoch(tmp_path)
    found = [row["text"] for row in empty.nodes("Note").to_arrow().to_pylist()]
    assert sorted(found) == sorted(written)
    assert len(empty.commits()) == 1 + 3
    assert all(commit.origin for commit in empty.commits()[:3])

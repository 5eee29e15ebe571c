"""Reads, writes and streams through the data source, in whatever session the environment names.

python source_worker.py GRAPH FOLDER

The graph is made here. What was seen is printed, as JSON, for the test to look at.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

import omnigraph
from omnigraph.pipeline import spark
from omnigraph.settings import Settings
from omnigraph.spark_source import register

SCHEMA = """
node Person { key: String @key  age: I32?  big: U64?  place: Vector(2)?  photo: Blob? }
node Note { text: String }
edge Knows: Person -> Person { since: I64? }
"""
QUERY = "query q($least: I32) { match { $p: Person  $p.age >= $least } return { $p.key, $p.age } }"


def main(uri: str, folder: str) -> None:
    graph = omnigraph.init(uri, SCHEMA, settings=Settings.from_environment(os.environ))
    conf = {"spark.master": os.environ["MASTER"]} if "MASTER" in os.environ else {}
    session = spark(conf=conf)
    register(session)
    seen = {"session": type(session).__module__, "commits": len(graph.commits())}
    _write(session, graph)
    seen["read"] = _read(session, graph)
    seen["refused"] = _refused(session, graph)
    seen["written"] = len(graph.commits())
    seen["notes"] = _stream(session, graph, Path(folder))
    seen["streamed"] = [bool(commit.origin) for commit in graph.commits()[:2]]
    seen["followed"] = _follow(session, graph, Path(folder))
    graph = omnigraph.open(uri, settings=Settings.from_environment(os.environ))
    seen["people"] = sorted((r["data"]["key"], r["data"]["age"]) for r in graph.export(["Person"]))
    seen["knows"] = sorted((r["from"], r["to"]) for r in graph.export(["Knows"]))
    seen["pending"] = len(graph.recovery_pending())
    seen["findings"] = [str(one) for one in graph.verify(deep=True).findings]
    seen["staged"] = list(graph._open.views.root.store.list_prefixes("__staging"))
    print(json.dumps(seen))
    session.stop()


def _save(frame, graph, type_name: str, save_mode: str = "append", **options: str) -> None:
    writer = frame.write.format("omnigraph").mode(save_mode).option("type", type_name)
    for name, value in options.items():
        writer = writer.option(name, value)
    writer.save(graph.uri)


def _write(session, graph) -> None:
    """Four commits: rows of each kind, changed rows, and a type whose rows are all replaced."""
    rows = [(f"p{i}", i, 2**64 - 1 - i, [1.0, float(i)], bytes([i])) for i in range(10)]
    columns = "key string, age int, big decimal(20,0), place array<float>, photo binary"
    people = session.createDataFrame(
        [(key, age, _decimal(big), place, photo) for key, age, big, place, photo in rows], columns
    )
    _save(people.repartition(3), graph, "Person")
    links = [(f"p{i}", f"p{i + 1}", i) for i in range(9)]
    _save(session.createDataFrame(links, "from string, to string, since long"), graph, "Knows")
    changed = session.createDataFrame([("p0", 100), ("new", 50)], "key string, age int")
    _save(changed, graph, "Person", mode="merge", partial="true")
    few = session.createDataFrame([("p0", "p1")], "from string, to string")
    _save(few, graph, "Knows", "overwrite")


def _decimal(number: int):
    from decimal import Decimal

    return Decimal(number)


def _read(session, graph) -> dict:
    reader = session.read.format("omnigraph").option("type", "Person")
    people = reader.option("columns", "id,age,big,photo").load(graph.uri)
    found = sorted(tuple(row) for row in people.where("age > 7").collect())
    query = session.read.format("omnigraph").option("query", QUERY).option("name", "q")
    asked = query.option("params", '{"least": 50}').load(graph.uri)
    first = graph.commits()[-2].commit_id
    before = reader.option("commit", first).load(graph.uri)
    frame = graph.nodes("Person").to_spark(session, columns=["id"])
    return {
        "filtered": [(id, age, int(big or 0), list(photo or b"")) for id, age, big, photo in found],
        "query": sorted(tuple(row) for row in asked.collect()),
        "before": before.count(),
        "now": frame.count(),
    }


def _refused(session, graph) -> list[str]:
    """Return the message of each write that is refused."""
    twice = session.createDataFrame([("p1", 5)], "key string, age int")
    lost = session.createDataFrame([("p1", "nobody")], "from string, to string")
    attempts = [(twice, "Person"), (lost, "Knows"), (twice, "Nobody")]
    return [_reason(session, graph, frame, type_name) for frame, type_name in attempts]


def _reason(session, graph, frame, type_name: str) -> str:
    del session
    try:
        _save(frame, graph, type_name)
    except Exception as refused:  # noqa: BLE001 - whatever Spark makes of it
        return str(refused)
    return ""


def _stream(session, graph, folder: Path) -> list[str]:
    inputs = folder / "inputs"
    inputs.mkdir(parents=True)
    for number in range(2):
        lines = "".join(json.dumps({"text": f"{number}-{row}"}) + "\n" for row in range(3))
        (inputs / f"{number:03}.json").write_text(lines)
        query = (
            session.readStream.schema("text string")
            .option("maxFilesPerTrigger", 1)
            .json(str(inputs))
            .writeStream.format("omnigraph")
            .option("type", "Note")
            .option("checkpointLocation", str(folder / "checkpoint"))
            .trigger(availableNow=True)
            .start(graph.uri)
        )
        assert query.awaitTermination(300), "every file is read and the query ends"
        if number == 0:
            _forget_last_epoch(folder)
    return sorted(row["text"] for row in graph.nodes("Note").to_arrow().to_pylist())


def _follow(session, graph, folder: Path) -> list:
    """Count the changes by type and kind of a stream in two runs, and of a frame."""
    place = str(folder / "changes")
    for _ in range(2):
        query = (
            session.readStream.format("omnigraph")
            .option("changes", "true")
            .option("startingAfter", "beginning")
            .option("maxCommitsPerTrigger", "2")
            .option("rowsPerPartition", "4")
            .load(graph.uri)
            .writeStream.format("parquet")
            .option("checkpointLocation", str(folder / "following"))
            .trigger(availableNow=True)
            .start(place)
        )
        assert query.awaitTermination(300), "every commit is read and the query ends"
        graph.load([{"type": "Note", "data": {"text": "another"}}], "append")
    reader = session.read.format("omnigraph").option("changes", "true")
    whole = reader.option("startingAfter", "beginning").load(graph.uri)
    return [
        sorted(tuple(row) for row in frame.groupBy("type", "op").count().collect())
        for frame in (session.read.parquet(place), whole)
    ]


def _forget_last_epoch(folder: Path) -> None:
    """Leave the state of a crash between the sink's commit and Spark's own record."""
    commits = folder / "checkpoint" / "commits"
    last = max(int(path.name) for path in commits.iterdir() if path.name.isdigit())
    for path in commits.glob(f"*{last}*"):
        path.unlink()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""Read frames through a Spark Connect server repeatedly while the graph grows.

python connect_frames_worker.py GRAPH

The graph is made here, with a hundred people. What was seen is printed, as JSON, for the test.
"""

from __future__ import annotations

import json
import sys
from typing import Any

import omnigraph
from omnigraph.pipeline import spark
from omnigraph.spark_source import register

SCHEMA = "node Person { k: String @key  age: I32? }"
QUERY = "query q() { match { $p: Person } return { $p.k as k, $p.age as age } }"
PUSHDOWN = "spark.sql.python.filterPushdown.enabled"
PLAN_CACHE = "spark.connect.session.planCache.enabled"


class Growing:
    """A graph that gets ten more people on request."""

    def __init__(self, uri: str) -> None:
        self.graph, self.people = omnigraph.init(uri, SCHEMA), 0
        self.grow(100)

    def grow(self, count: int = 10) -> None:
        numbers = range(self.people, self.people + count)
        rows = [{"type": "Person", "data": {"k": f"p{n}", "age": n}} for n in numbers]
        self.graph.load(rows, "append")
        self.people += count


def main(uri: str) -> None:
    growing, session = Growing(uri), spark()
    register(session)
    session.conf.set(PUSHDOWN, "true")
    seen: dict[str, object] = {"session": type(session).__module__}
    frames = make_frames(session, growing)
    seen["filters"] = {name: use(frame) for name, frame in frames.items()}
    seen["cached"] = watch(session, growing)
    session.conf.set(PLAN_CACHE, "false")
    seen["not cached"] = watch(session, growing)
    print(json.dumps(seen))
    session.stop()


def make_frames(session, growing: Growing) -> dict:
    """A frame of all people, by every way to one."""
    graph, reader = growing.graph, session.read.format("omnigraph").option("type", "Person")
    reader.load(graph.uri).createOrReplaceTempView("people")
    session.sql(
        "create or replace temporary view people_in_sql using omnigraph "
        f"options (path '{graph.uri}', type 'Person')"
    )
    head = graph.commits()[0].commit_id
    result: Any = graph.query(QUERY, engine="spark", session=session)
    return {
        "load": reader.load(graph.uri),
        "load of a commit": reader.option("commit", head).load(graph.uri),
        "to_spark": graph.nodes("Person").to_spark(session),
        "query": result.to_spark(),
        "view": session.table("people"),
        "SQL view": session.table("people_in_sql"),
    }


def use(frame) -> list[int]:
    """Counts of the same frame, one after another, some with filters."""
    return [
        frame.where("age >= 90").count(),
        frame.count(),
        frame.where("upper(k) like 'P1%'").count(),
        frame.union(frame.where("age >= 50")).count(),
        frame.join(frame.where("age >= 50").select("k"), "k", "left_anti").count(),
    ]


def watch(session, growing: Growing) -> dict[str, list[int]]:
    """By how many people the graph had grown, since the frames were made, in what each shows."""
    frames, made_with = make_frames(session, growing), growing.people
    seen: dict[str, list[int]] = {name: [] for name in frames}
    for _ in range(2):
        growing.grow()
        for name, frame in frames.items():
            seen[name].append(frame.count() - made_with)
    return seen


if __name__ == "__main__":
    main(*sys.argv[1:])

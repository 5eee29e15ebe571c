"""Loads through a Spark Connect server that it starts on this machine."""

from __future__ import annotations

import os
import sys

import omnigraph
from omnigraph.errors import ConstraintViolated
from omnigraph.settings import Settings

SCHEMA = "node T { k: String @key  n: I32? }\nedge E: T -> T"


def main() -> None:
    settings = Settings.from_environment(os.environ)
    graph = omnigraph.init(sys.argv[1], SCHEMA, settings=settings)
    records = [{"type": "T", "data": {"k": f"a{i}"}} for i in range(10)]
    edges = [{"edge": "E", "from": "a1", "to": "a2"}]
    result = graph.load([*records, *edges], "append", engine="spark")
    assert (result.engine, result.total_entities) == ("spark", 11)
    again = [{"type": "T", "data": {"k": "a3", "n": 5}}, {"type": "T", "data": {"k": "new"}}]
    graph.load(again, "merge", engine="spark")
    try:
        graph.load([{"edge": "E", "from": "a1", "to": "gone"}], "append", engine="spark")
    except ConstraintViolated as refused:
        print(refused)
    from pyspark.sql import SparkSession

    session = SparkSession.getActiveSession()
    assert session is not None
    print(type(session).__module__, len(list(graph.export())))
    session.stop()


if __name__ == "__main__":
    main()

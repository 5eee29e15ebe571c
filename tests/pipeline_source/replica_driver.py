"""A program that replicates the changes of a graph to a database, until it is killed.

python replica_driver.py GRAPH CHECKPOINT DATABASE

What a batch brings and that it was here are one transaction: a batch that Spark repeats after a
crash replaces what it brought before. A query that fails, because a process of Spark's was killed,
is started again from the checkpoint, as a program does that is to run for long.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing, suppress
from typing import TYPE_CHECKING

from py4j.protocol import Py4JError  # type: ignore[import-untyped]
from pyspark.errors import PySparkException

from omnigraph.pipeline import spark
from omnigraph.spark_source import register

if TYPE_CHECKING:
    from pyspark.sql.streaming import StreamingQuery

CONF = {"spark.master": "local[1,4]", "spark.driver.memory": "512m"}
COLUMNS = ("position", "`commit`", "type", "id", "op", "before", "after")


def main(graph: str, checkpoint: str, database: str) -> None:
    session = spark(conf=CONF)
    register(session)
    with closing(sqlite3.connect(database)) as kept, kept:
        kept.execute(
            "create table if not exists changes "
            "(batch, position, commit_id, type, id, op, before, after)"
        )

    def keep(frame, batch: int) -> None:
        rows = [(batch, *row) for row in frame.select(*COLUMNS).collect()]
        with closing(sqlite3.connect(database)) as kept, kept:
            kept.execute("delete from changes where batch = ?", (batch,))
            kept.executemany("insert into changes values (?, ?, ?, ?, ?, ?, ?, ?)", rows)

    def start() -> StreamingQuery:
        return (
            session.readStream.format("omnigraph")
            .option("changes", "true")
            .option("startingAfter", "beginning")
            .option("maxCommitsPerTrigger", "2")
            .option("consumer", "replica")
            .load(graph)
            .writeStream.foreachBatch(keep)
            .option("checkpointLocation", checkpoint)
            .start()
        )

    while True:
        with suppress(PySparkException, Py4JError):
            start().awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

"""A program that follows the changes of a graph and keeps them in a database, until it is killed.

python replica_driver.py GRAPH CHECKPOINT DATABASE

What a batch brings and that it was here are one transaction: a batch that Spark repeats after a
crash replaces what it brought before.
"""

from __future__ import annotations

import sqlite3
import sys
from contextlib import closing

from omnigraph.pipeline import spark
from omnigraph.spark_source import register

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

    query = (
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
    query.awaitTermination()


if __name__ == "__main__":
    main(*sys.argv[1:])

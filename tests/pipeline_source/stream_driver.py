"""A program that writes a stream into a graph until there is nothing more to read, or it is killed.

python stream_driver.py GRAPH INPUTS CHECKPOINT
"""

from __future__ import annotations

import sys

from omnigraph.pipeline import spark
from omnigraph.spark_source import register

CONF = {"spark.master": "local[1,4]", "spark.driver.memory": "512m"}


def main(graph: str, inputs: str, checkpoint: str) -> None:
    session = spark(conf=CONF)
    register(session)
    print("started", flush=True)
    query = (
        session.readStream.schema("text string")
        .option("maxFilesPerTrigger", 1)
        .json(inputs)
        .writeStream.format("omnigraph")
        .option("type", "Note")
        .option("checkpointLocation", checkpoint)
        .trigger(availableNow=True)
        .start(graph)
    )
    query.awaitTermination()
    print("finished", flush=True)
    session.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])

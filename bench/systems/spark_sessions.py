"""Sessions that are up before a clock starts, and the tables of a graph for looking into them."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import lance

import omnigraph
from omnigraph.pipeline.spark_session import spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_EMPTY = "node T { k: String @key }"
# Spark writing files wants memory. The quick compiler of our sessions helps it too: the network
# of 10,000 persons took 3.7 s of processor time with it, 6.5 s with what Java chooses by itself.
_FOR_JAVA = {"spark.driver.memory": "4g"}


def warm_session(spec: dict[str, Any], *, for_java: bool = False) -> SparkSession:
    """A session on `parameters.cores` cores, or all, that has run something.

    With `for_java` it has the settings that are best for work done by Java.
    """
    cores = spec["parameters"].get("cores", os.cpu_count())
    conf = {"spark.master": f"local[{cores},4]", **(_FOR_JAVA if for_java else {})}
    session = spark(conf=conf)
    if for_java:
        session.range(1000).selectExpr("sum(id)").collect()
    else:
        # The first load imports everything in every worker.
        warm = omnigraph.init(Path(spec["root"]) / "warm", _EMPTY)
        warm.load([{"type": "T", "data": {"k": "a"}}], "append", engine="spark")
    return session


def stored_tables(graph: omnigraph.Graph, path: Path) -> dict[str, lance.LanceDataset]:
    """The tables of the newest commit, by type."""
    return {
        info.table_key.partition(":")[2]: lance.dataset(
            str(path / info.table_path), version=info.manifest_version
        )
        for info in graph.snapshot().tables
    }

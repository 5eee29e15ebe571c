"""Reading every hundredth row of a table through Spark: from a graph, and from Parquet.

The option `where` leaves the other rows unread; a filter of Spark's is applied to all of them. Each
sample reads a few times, and every time from a frame that is loaded again.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

import omnigraph
from bench.hashing import hash_rows
from bench.systems.spark_sessions import warm_session
from omnigraph.spark_source import register

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

_SCHEMA = "node Item { key: String @key  bucket: I32  amount: F64 }"
_GRAPH, _PARQUET = "graph", "items.parquet"
_ROW_GROUP = 1 << 18
_COLUMNS = ("id", "bucket", "amount")
_CONDITION = "bucket = 7"
_WARM, _TIMES = 2, 5


def prepare(spec: dict[str, Any]) -> dict[str, Any]:
    """Prepare the rows in a graph and in a file; the buckets lie scattered."""
    root, count = Path(spec["root"]), spec["parameters"]["rows"]
    numbers = np.arange(count)
    keys = pa.array([f"item-{number:09}" for number in range(count)])
    # Multiplying by a prime scatters the buckets, so that no group of rows is without one.
    buckets = pa.array(numbers * 7919 // 13 % 100, pa.int32())
    items = pa.table({"key": keys, "bucket": buckets, "amount": pa.array(numbers / 4)})
    omnigraph.init(root / _GRAPH, _SCHEMA).load(items, "append", type="Item", engine="local")
    pq.write_table(
        items.add_column(0, "id", keys),
        root / _PARQUET,
        compression="zstd",
        row_group_size=_ROW_GROUP,
    )
    return {}


def run_parquet(spec: dict[str, Any]) -> dict[str, Any]:
    """Spark's own reader, which knows the filter and the columns."""
    session = warm_session(spec, for_java=True)
    path = str(Path(spec["inputs"]) / _PARQUET)
    return _sample(lambda: session.read.parquet(path).where(_CONDITION).select(*_COLUMNS))


def run_where(spec: dict[str, Any]) -> dict[str, Any]:
    """The data source with the condition as an option."""
    session = warm_session(spec)
    return _sample(lambda: _load(session, spec, where=_CONDITION))


def run_filter(spec: dict[str, Any]) -> dict[str, Any]:
    """The data source, whose rows Spark filters."""
    session = warm_session(spec)
    return _sample(lambda: _load(session, spec).where(_CONDITION))


def _load(session: SparkSession, spec: dict[str, Any], **options: str) -> DataFrame:
    register(session)
    given = {"type": "Item", "columns": ",".join(_COLUMNS), **options}
    reader = session.read.format("omnigraph").options(**given)
    return reader.load(str(Path(spec["inputs"]) / _GRAPH))


def _sample(make: Callable[[], DataFrame]) -> dict[str, Any]:
    seconds = []
    for _ in range(_WARM + _TIMES):
        start = perf_counter()
        rows = make().collect()
        seconds.append(perf_counter() - start)
    found = [tuple(row) for row in rows]
    return {
        "timings": {"read": seconds[_WARM:]},
        "result_hash": hash_rows(found),
        "preview": [list(row) for row in found[:3]],
    }

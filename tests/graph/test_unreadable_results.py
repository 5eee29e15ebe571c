"""A result whose rows cannot be read to the end."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pytest

import omnigraph
from omnigraph.errors import BadRequest
from omnigraph.execution.read.read_context import ReadResult
from omnigraph.graph.queries import QueryResult


def some_then_none() -> Iterator[pa.RecordBatch]:
    """A stream that failed has nothing more to give, and does not say why."""
    yield pa.record_batch({"n": [1]})
    raise BadRequest("the files are gone")


def test_a_result_that_could_not_be_read_is_not_empty_the_second_time(tmp_path):
    graph = omnigraph.init(tmp_path / "g.omni", "node A { n: I64 @key }")
    real = graph.query("query q() { match { $a: A } return { $a.n as n } }")
    read = ReadResult(pa.schema({"n": pa.int64()}), some_then_none(), real._profile)
    result = QueryResult(real.plan, read, {}, None)
    for ask in (list, len, QueryResult.to_arrow):
        with pytest.raises(BadRequest, match="the files are gone"):
            ask(result)

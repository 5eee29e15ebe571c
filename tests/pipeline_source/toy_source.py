"""A source independent of the engine: numbers from 0 to 99, and their planner."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from dataclasses import dataclass

import pyarrow as pa
from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    GreaterThanOrEqual,
    InputPartition,
)


@dataclass
class Numbers(InputPartition):
    first: int
    made: str
    planned: str


class PlainReader(DataSourceReader):
    """Accept no filters."""

    def __init__(self, made: str) -> None:
        self._made, self._first = made, 0

    def partitions(self) -> list[Numbers]:
        return [Numbers(self._first, self._made, uuid.uuid4().hex)]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        assert isinstance(partition, Numbers)
        count = 100 - partition.first
        columns = {
            "n": pa.array(range(partition.first, 100), pa.int64()),
            "made": [partition.made] * count,
            "planned": [partition.planned] * count,
        }
        yield pa.RecordBatch.from_pydict(columns)


class FilteringReader(PlainReader):
    """Accept `n >= …` as documented."""

    def pushFilters(self, filters):
        for one in filters:
            if isinstance(one, GreaterThanOrEqual):
                self._first = one.value
            else:
                yield one


class PlainToy(DataSource):
    def __init__(self, options) -> None:
        super().__init__(options)
        self.made = uuid.uuid4().hex

    @classmethod
    def name(cls) -> str:
        return "plain_toy"

    def schema(self) -> str:
        return "n long, made string, planned string"

    def reader(self, schema) -> DataSourceReader:
        del schema
        return PlainReader(self.made)


class FilteringToy(PlainToy):
    @classmethod
    def name(cls) -> str:
        return "filtering_toy"

    def reader(self, schema) -> DataSourceReader:
        del schema
        return FilteringReader(self.made)

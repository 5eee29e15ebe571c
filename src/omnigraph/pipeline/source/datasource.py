"""The data source as Spark sees it."""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from omnigraph.pipeline.source.columns import struct_type
from omnigraph.pipeline.source.options import read_options
from omnigraph.pipeline.source.reader import make_reader, source_schema
from omnigraph.pipeline.source.writer import BatchWriter, StreamWriter

FORMAT = "omnigraph"


class PlainSource(DataSource):
    """Rows of a graph; filters stay with Spark."""

    pushdown = False

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        return struct_type(source_schema(read_options(self.options)))

    def reader(self, schema: StructType) -> DataSourceReader:
        return make_reader(read_options(self.options), schema, pushdown=self.pushdown)

    def writer(
        self,
        schema: StructType,  # noqa: ARG002 - Spark's signature
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceWriter:
        return BatchWriter(read_options(self.options), overwrite=overwrite)

    def streamWriter(
        self,
        schema: StructType,  # noqa: ARG002 - Spark's signature
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceStreamWriter:
        return StreamWriter(read_options(self.options), overwrite=overwrite)


class FilteringSource(PlainSource):
    """The same for sessions in which Spark hands filters over."""

    pushdown = True

"""The data source as Spark sees it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import cast

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType

from omnigraph.errors import BadRequest
from omnigraph.pipeline.spark_columns import to_struct_type
from omnigraph.spark_source.batch_read import (
    make_reader,
    read_environment_settings,
    read_source_schema,
    resolve_pin,
)
from omnigraph.spark_source.batch_write import BatchWriter, StreamWriter
from omnigraph.spark_source.change_source import ChangeReader, ChangeStream, PinnedChanges
from omnigraph.spark_source.options import (
    asks_for_changes,
    change_options,
    pin_option,
    read_options,
    write_options,
)

FORMAT = "omnigraph"


class GraphSource(DataSource):
    """Rows of a graph, pinned at one commit, or what commits changed.

    Spark makes one instance for each relation, keeps it, and asks it for a reader as often as it
    likes; what a reader answered once is kept too and used for other queries on the relation. So
    everything that decides which rows there are is decided here, once: the commit is pinned when
    the instance is made, and no filter of any query is taken.
    """

    def __init__(self, options: Mapping[str, str]) -> None:
        super().__init__(cast("dict[str, str]", options))
        self._changes: PinnedChanges | None = None
        if asks_for_changes(options):
            self._changes = PinnedChanges.pin(change_options(options), read_environment_settings())
        else:
            self._pin = resolve_pin(pin_option(options), read_environment_settings())

    @classmethod
    def name(cls) -> str:
        return FORMAT

    def schema(self) -> StructType:
        if self._changes is not None:
            return to_struct_type(self._changes.schema)
        return to_struct_type(read_source_schema(read_options(self.options), self._pin))

    def reader(self, schema: StructType) -> DataSourceReader:
        if self._changes is not None:
            return ChangeReader(self._changes, schema, read_environment_settings())
        return make_reader(read_options(self.options), self._pin, schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        if self._changes is None:
            raise BadRequest("a stream reads what changed; set option 'changes' to 'true'")
        return ChangeStream(self._changes, schema, read_environment_settings())

    def writer(
        self,
        schema: StructType,  # noqa: ARG002 - Spark's signature
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceWriter:
        return BatchWriter(write_options(self.options), overwrite=overwrite)

    def streamWriter(
        self,
        schema: StructType,  # noqa: ARG002 - Spark's signature
        overwrite: bool,  # noqa: FBT001
    ) -> DataSourceStreamWriter:
        return StreamWriter(write_options(self.options), overwrite=overwrite)

"""All rows of one type, as a table or as a data frame."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.errors import TypeNotFound
from omnigraph.execution.stored_rows import build_logical_schema, read_all, read_batches
from omnigraph.graph.branch_snapshots import CatalogSnapshot
from omnigraph.graph.row_forms import Row, RowForms, convert_rows
from omnigraph.pipeline.spark_package import require_spark

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


class TypeRows(RowForms):
    """The nodes or edges of a type in one snapshot; nothing is read before it is asked for.

    >>> people = graph.nodes("Person")
    >>> len(people), people.to_arrow().column_names
    (2, ['id', 'age', 'name', 'photo'])
    >>> graph.edges("Knows").first()
    {'id': 'k1', 'src': 'Ada', 'dst': 'Ben'}
    """

    def __init__(
        self, view: CatalogSnapshot, type_: NodeType | EdgeType | None, asked: str
    ) -> None:
        if type_ is None:
            raise TypeNotFound(asked, f"the schema has no type '{asked}'")
        self._view, self._type = view, type_

    def __repr__(self) -> str:
        return f"TypeRows({self._type.table_key!r}, {self._view.snapshot.id!r})"

    def __len__(self) -> int:
        return self._view.snapshot.entry(self._type.table_key).row_count

    def __iter__(self) -> Iterator[Row]:
        for batch in self.batches():
            yield from convert_rows(pa.Table.from_batches([batch]))

    def _read_first(self, count: int) -> pa.Table:
        found: list[pa.RecordBatch] = []
        for batch in self.batches():
            found.append(batch)
            if sum(one.num_rows for one in found) >= count:
                break
        return pa.Table.from_batches(found, self.arrow_schema).slice(0, count)

    def to_arrow(self) -> pa.Table:
        """Every row in memory, blobs included."""
        return read_all(self._view.snapshot.table(self._type.table_key), self._type)

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns with their Arrow types."""
        return build_logical_schema(self._type)

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same rows in batches, without holding them all.

        >>> sum(batch.num_rows for batch in graph.nodes("Person").batches())
        2
        """
        return read_batches(self._view.snapshot.table(self._type.table_key), self._type)

    def to_spark(
        self,
        session: SparkSession | None = None,
        *,
        columns: Sequence[str] | None = None,
        where: str | None = None,
    ) -> DataFrame:
        """A data frame that reads the rows of this snapshot, whatever is written later.

        Args:
            session: The session to read in; as for every verb on Spark by default.
            columns: Only these columns; Spark does not tell a source which columns a plan uses.
            where: Only rows for which this is true, a condition as in the `where` of a mutation;
                other rows are not read, where a filter of Spark's reads them all.
        """
        require_spark("to_spark()")
        from omnigraph.pipeline import spark  # noqa: PLC0415 - loads Spark
        from omnigraph.pipeline.query.type_frame import build_type_frame  # noqa: PLC0415
        from omnigraph.pipeline.tasks import check_executors  # noqa: PLC0415

        snapshot = self._view.snapshot
        chosen = spark(session, settings=snapshot.root.settings)
        check_executors(chosen)
        return build_type_frame(chosen, snapshot, self._view.catalog, self._type, columns, where)

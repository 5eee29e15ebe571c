"""The committed rows of a snapshot, as the constraint rules ask for them."""

from __future__ import annotations

from collections.abc import Sequence

import pyarrow as pa

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.execution.read.table_reader import Reader
from omnigraph.identity import TableKey
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import Table


class CommittedRows:
    """Looks rows up in the tables of one snapshot, opening each table once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self._snapshot = snapshot
        self._tables: dict[TableKey, Table] = {}

    def table(self, key: TableKey) -> Table:
        if key not in self._tables:
            self._tables[key] = self._snapshot.table(key)
        return self._tables[key]

    def reader(self, type_: NodeType | EdgeType) -> Reader:
        """The rows of a type as queries read them."""
        key = type_.table_key
        return Reader(self.table(key), type_, self._snapshot.entry(key).row_count)

    def find(self, table: TableKey, by: str, values: pa.Array, columns: Sequence[str]) -> pa.Table:
        opened = self.table(table)
        # An empty table is known from the manifest: asking it would cost a read for nothing.
        if not len(values) or not self._snapshot.entry(table).row_count:
            return opened.schema.empty_table().select(list(columns))
        return opened.lookup(by, values, list(columns))

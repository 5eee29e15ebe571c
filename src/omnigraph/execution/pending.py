"""What a write has gathered so far, and how it looks to the statements that follow."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.constraints.table_changes import NO_IDS, TableChange, get_column, mask_remaining
from omnigraph.execution.stored_rows import make_empty_rows
from omnigraph.identity import TableKey


@dataclass
class PendingTable:
    """The rows a write will leave in one table: one image per id, the last one given."""

    type: NodeType | EdgeType
    rows: pa.Table
    deleted: pa.Array = field(default_factory=lambda: NO_IDS)
    are_all_new: bool = True
    """Whether every id was minted by this write, so that none can be there already."""

    @property
    def ids(self) -> pa.Array:
        return get_column(self.rows, "id")

    def put(self, rows: pa.Table, *, are_new: bool) -> None:
        """Add rows, replacing those with the same ids."""
        if self.rows.num_rows:
            kept = self.rows.filter(mask_remaining(self.ids, get_column(rows, "id")))
            rows = pa.concat_tables([kept, rows]).combine_chunks()
        self.rows = rows
        self.are_all_new = self.are_all_new and are_new

    def remove(self, ids: pa.Array) -> pa.Array:
        """Mark ids as deleted; gives those that were not marked before."""
        if not len(ids):
            return ids
        fresh = pc.unique(ids)
        fresh = fresh.filter(mask_remaining(fresh, self.deleted))
        self.deleted = pa.concat_arrays([self.deleted, fresh])
        return fresh

    def change(self) -> TableChange:
        return TableChange(self.type, self.rows, self.deleted)

    @property
    def is_empty(self) -> bool:
        return self.rows.num_rows == 0 and len(self.deleted) == 0


@dataclass
class Pending:
    """Every table a write touches."""

    tables: dict[TableKey, PendingTable] = field(default_factory=dict)

    def table(self, type_: NodeType | EdgeType) -> PendingTable:
        key = type_.table_key
        if key not in self.tables:
            self.tables[key] = PendingTable(type_, make_empty_rows(type_))
        return self.tables[key]

    def changes(self) -> Mapping[TableKey, TableChange]:
        return {key: table.change() for key, table in self.tables.items() if not table.is_empty}

"""The changes applied to bare Lance tables, in the format our tables have and with no graph.

`ChangeLog` is the least that makes a change durable: one append to one table, which readers have
to fold. `BareTables` does to each table what the change asks for, a commit per table, with nothing
that holds them together.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any

import lance
import pyarrow as pa

from bench.systems.changes import TABLES, Change, Row

FORMAT: Mapping[str, Any] = {"data_storage_version": "2.2", "enable_stable_row_ids": True}
NOTES = {"lance": {"data_storage_version": "2.2", "stable_row_ids": True, "handle": "stays open"}}


class ChangeLog:
    """One table to which every change is appended."""

    def __init__(self, table: lance.LanceDataset) -> None:
        self._table = table

    @classmethod
    def create(cls, path: Path, rows: Iterable[Row]) -> ChangeLog:
        return cls(lance.write_dataset(_logged(Change("base", tuple(rows))), str(path), **FORMAT))

    @classmethod
    def open(cls, path: Path) -> ChangeLog:
        return cls(lance.dataset(str(path)))

    def apply(self, change: Change) -> None:
        self._table.insert(_logged(change))

    def count(self) -> int:
        return int(self._table.count_rows())

    def versions(self) -> int:
        return len(self._table.versions())

    def rows(self) -> Iterable[Row]:
        """Return the sum of the log; rows come back in the order they were appended."""
        left: dict[tuple[str, str], Row] = {}
        for line in self._table.to_table().to_pylist():
            key = (line["table"], line["key"])
            if line["is_put"]:
                left[key] = Row(*key, line["value"])
            else:
                left.pop(key, None)
        return left.values()


class BareTables:
    """A table for each kind of row."""

    def __init__(self, folder: Path, rows: Sequence[Row]) -> None:
        self._tables = {
            name: lance.write_dataset(
                table_of([row for row in rows if row.table == name]),
                str(folder / f"{name}.lance"),
                **FORMAT,
            )
            for name in TABLES
        }

    def apply(self, change: Change) -> None:
        match change.kind:
            case "insert" | "node and edge":
                for row in change.puts:
                    self._tables[row.table].insert(table_of([row]))
            case "upsert":
                (row,) = change.puts
                merge = self._tables[row.table].merge_insert("id").when_matched_update_all()
                merge.when_not_matched_insert_all().execute(table_of([row]))
            case "update":
                (row,) = change.puts
                self._tables[row.table].update({"value": str(row.value)}, f"id = '{row.key}'")
            case "delete":
                (row,) = change.drops
                self._tables[row.table].delete(f"id = '{row.key}'")
            case kind:
                raise ValueError(f"no bare way to do {kind!r}")

    def rows(self) -> Iterable[Row]:
        for name, table in self._tables.items():
            for line in table.to_table().to_pylist():
                yield Row(name, line["id"], line["value"])


def table_of(rows: Sequence[Row]) -> pa.Table:
    """The rows of one table, as narrow as they can be."""
    fields = [pa.field("id", pa.string(), nullable=False), pa.field("value", pa.int64())]
    columns = [pa.array([row.key for row in rows]), pa.array([row.value for row in rows])]
    return pa.table(columns, schema=pa.schema(fields))


def _logged(change: Change) -> pa.Table:
    rows = [*change.puts, *change.drops]
    return pa.table(
        {
            "is_put": pa.array([True] * len(change.puts) + [False] * len(change.drops)),
            "table": pa.array([row.table for row in rows]),
            "key": pa.array([row.key for row in rows]),
            "value": pa.array([row.value for row in rows]),
        }
    )

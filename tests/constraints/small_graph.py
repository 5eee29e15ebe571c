"""Graphs of a few rows, held in Arrow tables, for the tests of the rules."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.assign_identities import identify_first
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.constraints.constraint_checks import find_violations
from omnigraph.constraints.table_changes import TableChange
from omnigraph.errors import Violation
from omnigraph.identity import TableKey
from omnigraph.language.source import SourceText
from omnigraph.types.arrow import build_entity_schema
from omnigraph.types.canonical_strings import encode_canonical

Row = Mapping[str, object]


@lru_cache
def catalog_of(schema: str) -> Catalog:
    return identify_first(compile_schema(SourceText(schema)), "domain")


def arrow_rows(type_: NodeType | EdgeType, rows: Sequence[Row]) -> pa.Table:
    """The rows as the engine holds them: what is left out is NULL, a key gives the id."""
    schema = build_entity_schema(type_.kind, type_.properties)
    whole = [{field.name: _cell(type_, row, field.name) for field in schema} for row in rows]
    return pa.Table.from_pylist(whole, schema)


def _cell(type_: NodeType | EdgeType, row: Row, name: str) -> object:
    if name != "id" or "id" in row:
        return row.get(name)
    assert isinstance(type_, NodeType), "an edge is given with its id"
    parts = [encode_canonical(row[member.name], member.type) for member in type_.key]
    if len(parts) == 1:
        return parts[0]
    return json.dumps(parts, ensure_ascii=False, separators=(",", ":"))


@dataclass(frozen=True)
class SmallGraph:
    """The committed rows of every table, and the check of a write to them."""

    catalog: Catalog
    tables: Mapping[str, pa.Table]

    @classmethod
    def of(cls, schema: str, committed: Mapping[str, Sequence[Row]] | None = None) -> SmallGraph:
        catalog, rows = catalog_of(schema), committed or {}
        assert set(rows) <= set(catalog.by_table_key), "rows of a type that is not in the schema"
        tables = {
            str(key): arrow_rows(type_, rows.get(key, []))
            for key, type_ in catalog.by_table_key.items()
        }
        return cls(catalog, tables)

    def find(self, table: TableKey, by: str, values: pa.Array, columns: Sequence[str]) -> pa.Table:
        rows = self.tables[table]
        if not rows.num_rows:
            return rows.select(list(columns))
        found = rows.filter(pc.is_in(rows.column(by), value_set=values.drop_null()))
        # Callers must not count on an order, so this is not the order the rows were given in.
        backwards = pa.array(range(found.num_rows - 1, -1, -1), pa.int64())
        return found.select(list(columns)).take(backwards)

    def change(
        self, key: str, *rows: Row, deleted: Sequence[str] = (), **options: object
    ) -> TableChange:
        type_ = self.catalog.by_table_key[TableKey(key)]
        gone = pa.array(deleted, pa.string())
        return TableChange(type_, arrow_rows(type_, rows), gone, **options)

    def replacing_all(self, key: str, *rows: Row) -> TableChange:
        type_ = self.catalog.by_table_key[TableKey(key)]
        fresh = arrow_rows(type_, rows)
        kept = set(fresh.column("id").to_pylist())
        gone = [id for id in self.tables[key].column("id").to_pylist() if id not in kept]
        return TableChange(type_, fresh, pa.array(gone, pa.string()), replaces_all=True)

    def violations(self, *changes: TableChange) -> list[Violation]:
        by_key = {change.table_key: change for change in changes}
        return list(find_violations(by_key, self.catalog, self))

    def messages(self, *changes: TableChange) -> list[str]:
        return [violation.message for violation in self.violations(*changes)]

"""Records of any types, one after the other, gathered into a table for each type."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec
import pyarrow as pa

from omnigraph.identity import EntityKind
from omnigraph.interchange.source_tables import SourceTable

BATCH_ROWS = 50_000


@dataclass
class _Gathered:
    """The rows of one type: those of the last batch as lists, the others as tables."""

    columns: dict[str, list[object]] = field(default_factory=dict)
    rows: int = 0
    tables: list[pa.Table] = field(default_factory=list)

    def add(self, row: Mapping[str, object]) -> None:
        for name, value in row.items():
            column = self.columns.setdefault(name, [])
            column.extend([None] * (self.rows - len(column)))
            column.append(value)
        self.rows += 1
        if self.rows == BATCH_ROWS:
            self.flush()

    def flush(self) -> None:
        if self.rows:
            columns = {
                name: _build_array(values + [None] * (self.rows - len(values)))
                for name, values in self.columns.items()
            }
            self.tables.append(pa.table(columns))
        self.columns, self.rows = {}, 0

    def close(self) -> pa.Table:
        self.flush()
        try:
            return pa.concat_tables(self.tables, promote_options="permissive")
        except (pa.ArrowTypeError, pa.ArrowInvalid):
            return pa.concat_tables(_as_texts(self.tables), promote_options="permissive")


class RecordTables:
    """Gathers nodes and edges by the names of their types, in the order they are first met."""

    def __init__(self, origin: str, group: str | None) -> None:
        self._origin, self._group = origin, group
        self._nodes: dict[str, _Gathered] = {}
        self._edges: dict[str, _Gathered] = {}

    def add_node(self, type_name: str, id: str | None, properties: Mapping[str, object]) -> None:
        structure = {} if id is None else {":id": id}
        self._nodes.setdefault(type_name, _Gathered()).add({**structure, **properties})

    def add_edge(
        self,
        type_name: str,
        ends: tuple[str, str],
        properties: Mapping[str, object],
        id: str | None = None,
    ) -> None:
        structure = {":from": ends[0], ":to": ends[1], ":id": id}
        self._edges.setdefault(type_name, _Gathered()).add({**structure, **properties})

    def list_tables(self) -> tuple[SourceTable, ...]:
        """A table for each type, in memory."""
        nodes = [self._make(name, rows, EntityKind.NODE) for name, rows in self._nodes.items()]
        edges = [self._make(name, rows, EntityKind.EDGE) for name, rows in self._edges.items()]
        return (*nodes, *edges)

    def _make(self, name: str, gathered: _Gathered, kind: EntityKind) -> SourceTable:
        table, is_node = gathered.close(), kind is EntityKind.NODE
        return SourceTable(
            name=name,
            origin=self._origin,
            read=table.to_batches,
            has_text_dates=True,
            kind=kind,
            key=":id" if is_node and ":id" in table.column_names else None,
            group=self._group if is_node else None,
            ends=None if is_node else (":from", ":to"),
            end_groups=(None, None) if is_node else (self._group, self._group),
            is_named_exactly=True,
        )


def _build_array(values: list[object]) -> pa.Array:
    """The values as a column; as JSON text where they are of several kinds."""
    try:
        return pa.array(values)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError, OverflowError):
        return pa.array([_encode(value) for value in values], pa.string())


def _encode(value: object) -> str | None:
    if value is None or isinstance(value, str):
        return value
    try:
        return msgspec.json.encode(value).decode()
    except TypeError:
        return str(value)


def _as_texts(tables: list[pa.Table]) -> list[pa.Table]:
    """The tables with those columns as text whose types do not go together."""
    kinds: dict[str, set[str]] = {}
    for table in tables:
        for one in table.schema:
            kinds.setdefault(one.name, set()).add(str(one.type))
    mixed = {name for name, found in kinds.items() if len(found - {"null"}) > 1}
    converted = []
    for table in tables:
        columns = {
            name: _build_texts(table.column(name)) if name in mixed else table.column(name)
            for name in table.column_names
        }
        converted.append(pa.table(columns))
    return converted


def _build_texts(column: pa.ChunkedArray) -> pa.Array:
    return pa.array([_encode(value) for value in column.to_pylist()], pa.string())

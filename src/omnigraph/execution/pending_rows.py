"""Pending rows of a write over its committed ones: lookup, selection by condition, and staging.

Staging writes the files of table transactions; nothing becomes visible.
"""

from __future__ import annotations

import datetime
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum
from functools import reduce

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import EdgeType, NodeType
from omnigraph.constraints.table_changes import NO_IDS, TableChange, get_column, mask_remaining
from omnigraph.execution.predicates import RowScope, evaluate_mask, make_scalar
from omnigraph.execution.read.code_arrays import Longs, to_longs
from omnigraph.execution.read.pushdown import split
from omnigraph.execution.read.read_context import Given
from omnigraph.execution.read.table_reader import ID, FoundRows, Reader
from omnigraph.execution.stored_rows import (
    convert_to_table_rows,
    derive_key_ids,
    make_empty_rows,
    read_by_id,
    read_by_row_id,
)
from omnigraph.identity import TableKey
from omnigraph.plan.expressions import (
    Comparator,
    Compare,
    Constant,
    EntityId,
    Operand,
    ParameterValue,
    Predicate,
    PropertyValue,
)
from omnigraph.plan.walk import list_conjuncts, list_operands_of
from omnigraph.storage.prepared_write import StagedTable, Ticket, Writable, drop_fork, open_writable
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import (
    StagedTransaction,
    Table,
    stage_changes,
    stage_fresh,
    stage_overwrite,
)
from omnigraph.types.arrow import to_arrow_type
from omnigraph.types.property import FLOATS, PropertyType, Scalar


class CommittedRows:
    """Row lookup in the tables of one snapshot; opens each table once."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self._tables: dict[TableKey, Table] = {}

    def table(self, key: TableKey) -> Table:
        if key not in self._tables:
            self._tables[key] = self.snapshot.table(key)
        return self._tables[key]

    def reader(self, type_: NodeType | EdgeType) -> Reader:
        """Return a reader of the rows of a type, as for queries."""
        key = type_.table_key
        return Reader(self.table(key), type_, self.snapshot.entry(key).row_count)

    def find(self, table: TableKey, by: str, values: pa.Array, columns: Sequence[str]) -> pa.Table:
        opened = self.table(table)
        # The manifest counts the rows: an empty table need not be read.
        if not len(values) or not self.snapshot.entry(table).row_count:
            return opened.schema.empty_table().select(list(columns))
        return opened.lookup(by, values, list(columns))


@dataclass
class PendingTable:
    """Pending rows of one table: one image per id, the last one written."""

    type: NodeType | EdgeType
    rows: pa.Table
    deleted: pa.Array = field(default_factory=lambda: NO_IDS)
    are_all_new: bool = True
    """True if every id was minted by this write, so that none can be stored already."""

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
        """Mark ids as deleted; return those that were not marked before."""
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
    """Pending rows of every table of a write."""

    tables: dict[TableKey, PendingTable] = field(default_factory=dict)

    def table(self, type_: NodeType | EdgeType) -> PendingTable:
        key = type_.table_key
        if key not in self.tables:
            self.tables[key] = PendingTable(type_, make_empty_rows(type_))
        return self.tables[key]

    def changes(self) -> Mapping[TableKey, TableChange]:
        return {key: table.change() for key, table in self.tables.items() if not table.is_empty}


_ID_TYPE = PropertyType(Scalar.STRING)
_NO_ROWS: Longs = np.empty(0, np.int64)
_TAKEN_SHARE = 0.05
"""Above this share of the rows, scanning all ids is faster than taking some."""


@dataclass(frozen=True)
class RowSelector:
    """Evaluates conditions of one mutation against one snapshot."""

    committed: CommittedRows
    parameters: Mapping[str, object]
    now: datetime.datetime

    def matching_ids(self, type_: NodeType | EdgeType, where: Predicate) -> pa.Array:
        """Return the ids of committed rows that match a condition."""
        named = self._find_named_id(type_, where)
        if named is None:
            return _read_ids(self.committed.reader(type_), self._scan(type_, where))
        names = sorted({ID, *_list_columns(where)})
        found = self.committed.find(type_.table_key, ID, named, names)
        return get_column(found.filter(self.mask(found, where)), ID)

    def matching_rows(
        self, type_: NodeType | EdgeType, where: Predicate, pending: pa.Table
    ) -> pa.Table:
        """Select whole rows that match the condition, pending ones in place of committed ones."""
        # A row found by key is read whole; otherwise the columns of the condition come first.
        table, named = self.committed.table(type_.table_key), self._find_named_id(type_, where)
        if named is not None:
            found = read_by_id(table, named, type_)
            found = found.filter(self.mask(found, where))
        else:
            found = read_by_row_id(table, self._scan(type_, where), type_)
        if not pending.num_rows:
            return found
        found = found.filter(mask_remaining(get_column(found, ID), get_column(pending, ID)))
        return pa.concat_tables([found, pending.filter(self.mask(pending, where))])

    def mask(self, rows: pa.Table, where: Predicate) -> pa.Array:
        def values(_variable: str, name: str) -> pa.Array:
            return get_column(rows, name)

        return evaluate_mask(where, RowScope(rows.num_rows, values, self.parameters, self.now))

    def _scan(self, type_: NodeType | EdgeType, where: Predicate) -> Longs:
        """Return the row ids of committed rows that match a condition, in table order."""
        reader = self.committed.reader(type_)
        parts = split([where], reader, Given(self.parameters, self.now))
        names = sorted({name for part in parts.rest for name in _list_columns(part)})
        batches = reader.batches(names, parts.filter)
        return np.concatenate(
            [_NO_ROWS, *(self._filter_kept(batch, parts.rest) for batch in batches)]
        )

    def _filter_kept(self, found: FoundRows, conditions: Sequence[Predicate]) -> Longs:
        """Return the rows that match every condition."""

        def values(_variable: str, name: str) -> pa.Array:
            return found.column(name)

        scope = RowScope(found.size, values, self.parameters, self.now)
        masks = [evaluate_mask(condition, scope) for condition in conditions]
        if not masks:
            return found.row_ids
        return found.row_ids[to_longs(pc.indices_nonzero(reduce(pc.and_, masks)))]

    def _find_named_id(self, type_: NodeType | EdgeType, where: Predicate) -> pa.Array | None:
        """Return the only id that can match, if a condition fixes the id or the whole key."""
        fixed = {
            name: pa.array([value.as_py()], value.type)
            for name, value in self._list_fixed_columns(type_, where)
        }
        if ID in fixed:
            return fixed[ID]
        if not isinstance(type_, NodeType) or not type_.key:
            return None
        members = {member.name: fixed.get(member.name) for member in type_.key}
        if any(values is None for values in members.values()):
            return None
        return derive_key_ids(type_, members)

    def _list_fixed_columns(
        self, type_: NodeType | EdgeType, where: Predicate
    ) -> Iterator[tuple[str, pa.Scalar]]:
        for part in list_conjuncts(where):
            if not isinstance(part, Compare) or part.op is not Comparator.EQ:
                continue
            for side, other in ((part.left, part.right), (part.right, part.left)):
                found = self._find_fixed(type_, side, other)
                if found is not None:
                    yield found

    def _find_fixed(
        self, type_: NodeType | EdgeType, side: Operand, other: Operand
    ) -> tuple[str, pa.Scalar] | None:
        if not isinstance(side, EntityId | PropertyValue):
            return None
        if not isinstance(other, Constant | ParameterValue):
            return None
        name = ID if isinstance(side, EntityId) else side.property
        property_ = type_.property(name)
        wanted = property_.type if property_ is not None else _ID_TYPE
        given = other.value if isinstance(other, Constant) else self.parameters[other.name]
        value = make_scalar(given, other.type)
        same = value.type == to_arrow_type(wanted)
        exact = same and wanted.scalar not in FLOATS and not wanted.is_list
        return (name, value) if exact and value.is_valid else None


def _read_ids(reader: Reader, row_ids: Longs) -> pa.Array:
    """Return the ids of rows, in their order; of many, by scanning the ids of all."""
    if len(row_ids) <= reader.row_count * _TAKEN_SHARE:
        return reader.take(row_ids, [ID]).column(ID)
    batches = reader.batches([ID])
    kept = (batch.column(ID).filter(np.isin(batch.row_ids, row_ids)) for batch in batches)
    return pa.concat_arrays([NO_IDS, *kept])


def _list_columns(where: Predicate) -> Iterator[str]:
    for operand in list_operands_of(where):
        if isinstance(operand, PropertyValue):
            yield operand.property
        elif isinstance(operand, EntityId):
            yield ID


class Placement(StrEnum):
    """Handling of stored rows with the same ids."""

    FRESH = "fresh"
    """Ids that are known not to be stored: minted by this write, or looked up."""
    UPSERT = "upsert"
    OVERWRITE = "overwrite"


def stage_tables(
    snapshot: Snapshot,
    ticket: Ticket,
    changes: Iterable[tuple[TableChange, Placement]],
) -> tuple[StagedTable, ...]:
    """Stage one transaction for each table that changes; unused forks are removed."""
    staged: list[StagedTable] = []
    opened: list[Writable] = []
    try:
        for change, placement in changes:
            writable = open_writable(snapshot, snapshot.entry(change.table_key))
            opened.append(writable)
            one = _stage(writable, change, placement, ticket.properties)
            if one is None:
                drop_fork(opened.pop())
            else:
                staged.append(StagedTable(writable, one))
    except BaseException:
        for writable in opened:
            drop_fork(writable)
        raise
    return tuple(staged)


def _stage(
    writable: Writable, change: TableChange, placement: Placement, properties: Mapping[str, str]
) -> StagedTransaction | None:
    table, rows = writable.table, convert_to_table_rows(change.rows, change.type)
    match placement:
        case Placement.FRESH:
            return stage_fresh(table, rows, properties=properties)
        case Placement.OVERWRITE:
            return stage_overwrite(table, rows, properties=properties)
        case Placement.UPSERT:
            deleted: pa.Array | None = change.deleted if len(change.deleted) else None
            upserts = rows if rows.num_rows else None
            return stage_changes(
                table, upserts, deleted, properties=properties, table_key=change.table_key
            )

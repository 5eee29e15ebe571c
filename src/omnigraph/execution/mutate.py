"""Run a mutation: its statements, one after the other, on the pending rows of a write."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import assert_never

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Catalog, EdgeType, NodeType
from omnigraph.constraints.table_changes import get_column
from omnigraph.embedding.row_vectors import complete_vectors, mask_null
from omnigraph.embedding.text_vectors import TextVectors
from omnigraph.errors import BadRequest
from omnigraph.execution.pending_rows import CommittedRows, Pending, PendingTable, RowSelector
from omnigraph.execution.stored_rows import (
    build_assigned_columns,
    build_logical_schema,
    derive_key_ids,
    get_default_value,
    read_by_id,
)
from omnigraph.identity import EntityKind, TableKey, UlidSource
from omnigraph.plan.plan_nodes import (
    DeleteEntities,
    InsertEntity,
    InsertMode,
    MutationPlan,
    UpdateEntities,
)
from omnigraph.types.arrow import to_arrow_type


@dataclass(frozen=True, slots=True)
class MutationInput:
    """Input of a mutation; `now` and the parameters are the same in every retry."""

    parameters: Mapping[str, object]
    now: datetime.datetime
    ids: UlidSource
    open_vectors: Callable[[], TextVectors]
    """Opens what computes vectors; each text is embedded once, over all retries."""


@dataclass
class MutationRun:
    """Pending rows of a mutation, and the number of entities its statements matched."""

    pending: Pending
    affected_nodes: int = 0
    affected_edges: int = 0

    def count(self, type_: NodeType | EdgeType, entities: int) -> None:
        if type_.kind is EntityKind.NODE:
            self.affected_nodes += entities
        else:
            self.affected_edges += entities


def run_mutation(
    plan: MutationPlan, catalog: Catalog, committed: CommittedRows, given: MutationInput
) -> MutationRun:
    """Run all statements in order; later ones see the writes of earlier ones.

    All deletes match the state before the mutation, so each entity is counted once.
    """
    run = MutationRun(Pending())
    for statement in plan.statements:
        type_ = catalog.by_table_key[TableKey(statement.table_key)]
        match statement:
            case InsertEntity():
                _apply_insert(run, type_, statement, committed, given)
            case UpdateEntities():
                _update(run, type_, statement, committed, given)
            case DeleteEntities():
                _delete(run, catalog, type_, statement, committed, given)
            case _:
                assert_never(statement)
    outside = set(run.pending.tables) - {TableKey(key) for key in plan.touched}
    assert not outside, f"the mutation touched {outside}, which its plan does not name"
    return run


def _apply_insert(
    run: MutationRun,
    type_: NodeType | EdgeType,
    statement: InsertEntity,
    committed: CommittedRows,
    given: MutationInput,
) -> None:
    assigned = build_assigned_columns(type_, statement.assignments, given.parameters, given.now)
    pending = run.pending.table(type_)
    if statement.mode is InsertMode.STRICT:
        id = pa.array([given.ids.next()])
    else:
        assert isinstance(type_, NodeType), "only nodes have keys"
        id = derive_key_ids(type_, assigned)
    base = None
    if statement.mode is InsertMode.PARTIAL:
        base = _find_stored(type_, id, pending, committed)
    row = _build_row(type_, id, assigned, base)
    row = _make_vectors(type_, row, assigned, base, given.open_vectors)
    pending.put(row, are_new=statement.mode is InsertMode.STRICT)
    run.count(type_, 1)


def _find_stored(
    type_: NodeType | EdgeType, id: pa.Array, pending: PendingTable, committed: CommittedRows
) -> pa.Table | None:
    """The entity as it is now, pending or committed."""
    found = pending.rows.filter(pc.is_in(pending.ids, value_set=id))
    if not found.num_rows:
        found = read_by_id(committed.table(type_.table_key), id, type_)
    return found if found.num_rows else None


def _build_row(
    type_: NodeType | EdgeType,
    id: pa.Array,
    assigned: Mapping[str, pa.Array],
    base: pa.Table | None,
) -> pa.Table:
    """Build whole rows from assigned columns, those of stored rows, and defaults."""
    columns, schema = [], build_logical_schema(type_)
    for name in schema.names:
        if name == "id":
            columns.append(id)
        elif name in assigned:
            columns.append(assigned[name])
        elif base is not None:
            columns.append(get_column(base, name))
        else:
            columns.append(_get_omitted_column(type_, name))
    return pa.table(columns, schema=schema)


def _get_omitted_column(type_: NodeType | EdgeType, name: str) -> pa.Array:
    property_ = type_.by_name[name]
    if property_.embed is not None:
        return pa.nulls(1, to_arrow_type(property_.type))
    if property_.default is None and not property_.type.nullable:
        raise BadRequest(f"missing required property '{name}' of {type_.name}")
    default = get_default_value(property_, f"{type_.name}.{name}")
    return pa.array([default.as_py()], default.type)


def _make_vectors(
    type_: NodeType | EdgeType,
    rows: pa.Table,
    assigned: Mapping[str, pa.Array],
    before: pa.Table | None,
    open_vectors: Callable[[], TextVectors],
) -> pa.Table:
    """Compute the vectors of assigned texts.

    An assigned vector is kept, and so is one whose text is unchanged.
    """
    for property_ in type_.embedded:
        assert property_.embed is not None, "listed as embedded"
        source = property_.embed.source
        if property_.name in assigned or (before is not None and source not in assigned):
            continue
        stale = mask_null(get_column(rows, property_.name))
        if before is not None:
            same = pc.equal(get_column(rows, source), get_column(before, source)).fill_null(False)
            stale = stale | ~same.to_numpy(zero_copy_only=False)
        if not stale.any():
            continue
        made = complete_vectors(type_, rows, property_, stale, open_vectors())
        if made.lacking.any() and not property_.type.nullable:
            raise BadRequest(f"{type_.name}: {made.reason}")
        rows = made.rows
    return rows


def _update(
    run: MutationRun,
    type_: NodeType | EdgeType,
    statement: UpdateEntities,
    committed: CommittedRows,
    given: MutationInput,
) -> None:
    pending = run.pending.table(type_)
    selector = RowSelector(committed, given.parameters, given.now)
    rows = selector.matching_rows(type_, statement.where, pending.rows)
    assigned = build_assigned_columns(type_, statement.assignments, given.parameters, given.now)
    if not rows.num_rows:
        return
    before = rows
    for name, value in assigned.items():
        index = rows.schema.get_field_index(name)
        repeated = value if rows.num_rows == 1 else value.take(pa.array([0] * rows.num_rows))
        rows = rows.set_column(index, rows.schema.field(index), repeated)
    rows = _make_vectors(type_, rows, assigned, before, given.open_vectors)
    pending.put(rows, are_new=False)
    run.count(type_, rows.num_rows)


def _delete(
    run: MutationRun,
    catalog: Catalog,
    type_: NodeType | EdgeType,
    statement: DeleteEntities,
    committed: CommittedRows,
    given: MutationInput,
) -> None:
    selector = RowSelector(committed, given.parameters, given.now)
    matched = selector.matching_ids(type_, statement.where)
    fresh = run.pending.table(type_).remove(matched)
    run.count(type_, len(fresh))
    if not len(fresh):
        return
    for edge_key, end in statement.cascades:
        edge = catalog.by_table_key[TableKey(edge_key)]
        found = committed.find(edge.table_key, end, fresh, ["id"])
        run.count(edge, len(run.pending.table(edge).remove(get_column(found, "id"))))

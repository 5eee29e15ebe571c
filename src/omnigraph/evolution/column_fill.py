"""Plan the tables of an apply before anything is written: columns, and the values of new ones."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from omnigraph.catalog.catalog import Draft, EdgeType, NodeType, Property, TypeKind
from omnigraph.errors import BadExpression
from omnigraph.evolution.apply_result import ChangedTable, TableEffect
from omnigraph.evolution.migration_plan import PlannedMigration
from omnigraph.evolution.migration_steps import (
    AddConstraint,
    AddProperty,
    AddType,
    ChangeCardinality,
    ChangePropertyType,
    DropType,
    RemoveConstraint,
    RenameProperty,
    RenameType,
    Step,
    UnsupportedChange,
    UpdateTypeMetadata,
)
from omnigraph.execution.stored_rows import build_table_schema, get_default_value
from omnigraph.identity import PropertyId, TableIdentity
from omnigraph.storage.manifest import TableEntry
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import (
    Column,
    EmptyColumn,
    FilledColumn,
    RetainedColumn,
    Table,
    find_expression_error,
    quote_identifier,
    quote_literal,
)
from omnigraph.writer.change import CatalogSnapshot

_SAFE = 1 << 53
_CASTS = {
    pa.string(): "Utf8",
    pa.bool_(): "Boolean",
    pa.int32(): "Int32",
    pa.int64(): "Int64",
    pa.uint32(): "UInt32",
    pa.uint64(): "UInt64",
}
_COMPUTED = " "
"""Prefix of the names of computed values; no stored column has it."""


@dataclass(frozen=True, slots=True)
class ConstantFilling:
    """A constant for every row."""

    field: pa.Field
    value: object

    @property
    def read(self) -> Mapping[str, str]:
        """The expressions to read, by the names of their values."""
        return {}

    def fill(self, rows: pa.RecordBatch) -> pa.Array:
        return pa.repeat(pa.scalar(self.value, self.field.type), rows.num_rows)

    @property
    def expression(self) -> str | None:
        """The value as an expression, where its rendering is unambiguous."""
        kind, value = self.field.type, self.value
        if isinstance(value, bool | str) or (isinstance(value, int) and abs(value) < _SAFE):
            return (
                f"arrow_cast({quote_literal(value)}, '{_CASTS[kind]}')" if kind in _CASTS else None
            )
        return None


@dataclass(frozen=True, slots=True)
class ConvertedFilling:
    """The values of a column, cast without loss to another type."""

    field: pa.Field
    source: str

    @property
    def read(self) -> Mapping[str, str]:
        return {self.source: quote_identifier(self.source)}

    def fill(self, rows: pa.RecordBatch) -> pa.Array:
        values, wanted = rows.column(self.source), self.field.type
        if pa.types.is_list(wanted) and not pa.types.is_list(values.type):
            return _convert_to_lists(values, wanted)
        return values.cast(wanted)


@dataclass(frozen=True, slots=True)
class ComputedFilling:
    """The value of an expression, which must be a value of the type."""

    field: pa.Field
    expression: str

    @property
    def read(self) -> Mapping[str, str]:
        return {f"{_COMPUTED}{self.field.name}": self.expression}

    def fill(self, rows: pa.RecordBatch) -> pa.Array:
        values = rows.column(f"{_COMPUTED}{self.field.name}")
        try:
            return values.cast(self.field.type)
        except pa.ArrowException as error:
            raise BadExpression(
                self.field.name,
                self.expression,
                f"it gives what is not a value of the property: {error}",
            ) from error


Filling = ConstantFilling | ConvertedFilling | ComputedFilling


def collect_expressions(fillings: Sequence[Filling]) -> dict[str, str]:
    """Return the expressions these fillings read; none for constants."""
    return {name: text for filling in fillings for name, text in filling.read.items()}


def render_constants(fillings: Sequence[Filling]) -> dict[str, str] | None:
    """Return the values of all-constant columns as expressions, else None.

    Lance evaluates these expressions itself, so no value is passed to it.
    """
    texts = {
        filling.field.name: filling.expression if isinstance(filling, ConstantFilling) else None
        for filling in fillings
    }
    known = {name: text for name, text in texts.items() if text is not None}
    return known if len(known) == len(texts) else None


def require_computable(table: Table, fillings: Sequence[Filling]) -> None:
    """Raise if an expression is invalid or refers to columns that a table lacks."""
    for filling in fillings:
        if isinstance(filling, ComputedFilling):
            mistake = find_expression_error(table, filling.expression)
            if mistake is not None:
                raise BadExpression(filling.field.name, filling.expression, mistake)


def make_filler(fillings: Sequence[Filling]) -> Callable[[pa.RecordBatch], pa.RecordBatch]:
    """Return a picklable function that computes the new columns of a batch."""
    return partial(fill_columns, tuple(fillings))


def fill_columns(fillings: Sequence[Filling], rows: pa.RecordBatch) -> pa.RecordBatch:
    columns = [filling.fill(rows) for filling in fillings]
    # A deleted row has no values, whatever the column allows.
    schema = pa.schema([filling.field.with_nullable(True) for filling in fillings])
    return pa.record_batch(columns, schema=schema)


def _convert_to_lists(values: pa.Array, wanted: pa.ListType) -> pa.Array:
    """Return each value as a list of one member; NULL stays NULL."""
    items = values.drop_null().cast(wanted.value_type)
    lengths = pc.is_valid(values).cast(pa.int32())
    offsets = pa.concat_arrays([pa.array([0], pa.int32()), pc.cumulative_sum(lengths)])
    return pa.ListArray.from_arrays(offsets, items, wanted, mask=pc.is_null(values))


Entity = NodeType | EdgeType


@dataclass(frozen=True, slots=True)
class ColumnPlan:
    """The desired columns of a table, in order, and the fillings of new ones."""

    columns: tuple[Column, ...]
    fillings: tuple[Filling, ...] = ()

    def changes(self, stored: pa.Schema) -> bool:
        """Return whether these columns differ from the stored ones."""
        wanted = [c.field for c in self.columns]
        is_same = all(isinstance(c, RetainedColumn) for c in self.columns)
        return not is_same or not pa.schema(wanted).equals(stored)


def plan_columns(
    stored: pa.Schema, before: Entity, after: Entity, expressions: Mapping[str, str]
) -> ColumnPlan:
    """Return the plan from the stored columns of a table to those of its type.

    `expressions` compute properties for stored rows.

    A column whose values fit the type is retained, whatever its old name. Lance changes nullability
    only where it adds no column; where it must do both, the column is rewritten.
    """
    wanted = build_table_schema(after)
    was = {p.id: p for p in before.properties}
    properties = {p.name: p for p in after.properties}
    adds = bool(expressions) or any(_is_added(p, was) for p in after.properties)
    columns: list[Column] = []
    fillings: list[Filling] = []
    for name in wanted.names:
        if name not in properties:
            columns.append(RetainedColumn(stored.field(name), name))
            continue
        property_, field_ = properties[name], wanted.field(name)
        old = was.get(property_.id)
        filling: Filling | None
        if name in expressions:
            filling = ComputedFilling(field_, expressions[name])
        elif old is None:
            filling = _fill_first_values(property_, field_, after)
        else:
            there = stored.field(old.name)
            filling = _convert_column(there, field_, adds=adds)
            if filling is None:
                columns.append(RetainedColumn(field_, old.name))
                continue
        if filling is None:
            columns.append(EmptyColumn(field_))
        else:
            columns.append(FilledColumn(field_))
            fillings.append(filling)
    return ColumnPlan(tuple(columns), tuple(fillings))


def _is_added(property_: Property, was: Mapping[PropertyId, Property]) -> bool:
    """Return whether the property needs a new column."""
    old = was.get(property_.id)
    return old is None or _find_stored_kind(old) != _find_stored_kind(property_)


def _find_stored_kind(property_: Property) -> tuple[object, ...]:
    """Return the parts of a column's type other than its nullability."""
    type_ = property_.type
    return (type_.scalar, type_.is_list, type_.dimension)


def _fill_first_values(property_: Property, field_: pa.Field, type_: Entity) -> Filling | None:
    if property_.default is None:
        return None
    value = get_default_value(property_, f"{type_.name}.{property_.name}")
    return ConstantFilling(field_, value.as_py())


def _convert_column(there: pa.Field, wanted: pa.Field, *, adds: bool) -> Filling | None:
    if there.type == wanted.type and (there.nullable == wanted.nullable or not adds):
        return None
    return ConvertedFilling(wanted, there.name)


def find_step_position(schema: Draft, step: Step) -> str:
    """Return the file, line and column of the declaration a step is about."""
    return schema.find_position(_name_entity(step))


def _name_entity(step: Step) -> str:
    """Return the entity a step is about, by its name after the migration."""
    match step:
        case UnsupportedChange():
            return step.entity
        case ChangeCardinality():
            return f"{TypeKind.EDGE}:{step.type_name}"
        case RenameType():
            return f"{step.type_kind}:{step.new}"
        case AddType() | DropType() | UpdateTypeMetadata():
            return f"{step.type_kind}:{step.name}"
        case RenameProperty():
            return f"{step.type_kind}:{step.type_name}.{step.new}"
        case AddConstraint() | RemoveConstraint():
            columns = step.constraint.read().columns
            first = columns[0] if columns else ""
            return f"{step.type_kind}:{step.type_name}.{first}"
        case _:
            return f"{step.type_kind}:{step.type_name}.{step.property_name}"


@contextmanager
def locating_expressions(schema: Draft, type_: Entity) -> Iterator[None]:
    """Add the source location of the property to errors of its expression."""
    try:
        yield
    except BadExpression as error:
        if error.position is not None:
            raise
        entity = f"{type_.table_key}.{error.property}"
        raise BadExpression(
            f"{type_.name}.{error.property}",
            error.expression,
            error.reason,
            schema.find_position(entity),
        ) from error


@dataclass(frozen=True, slots=True)
class TableWork:
    """One retained type: before, after, and its columns."""

    before: Entity
    after: Entity
    entry: TableEntry
    source: TableEntry
    """The version its rows are read from: its own, or that after mutations."""
    columns: ColumnPlan
    has_other_columns: bool = False
    """True if its columns change, even if no row does."""

    @property
    def is_mutated(self) -> bool:
        return self.source != self.entry

    @property
    def is_moved(self) -> bool:
        """True if its table gets another version."""
        return self.has_other_columns or self.is_mutated

    @property
    def described(self) -> ChangedTable:
        key, rows = self.after.table_key, self.entry.row_count
        if self.is_mutated:
            return ChangedTable.of(key, TableEffect.ROWS, rows, self.source.row_count)
        written = tuple(filling.field.name for filling in self.columns.fillings)
        effect = TableEffect.COLUMNS if written and rows else TableEffect.METADATA
        return ChangedTable.of(key, effect, rows, rows, written if rows else ())


@dataclass(frozen=True, slots=True)
class ApplyPlan:
    """The effects of an apply on tables, known before anything is written."""

    migration: PlannedMigration
    added: tuple[Entity, ...]
    kept: tuple[TableWork, ...]
    dropped: tuple[TableEntry, ...]
    sole_branch: bool
    """True if there must be no other branch."""
    base_version: int
    """The manifest version it was planned on."""

    @property
    def tables(self) -> tuple[ChangedTable, ...]:
        """The affected tables, by name."""
        found = [ChangedTable.of(t.table_key, TableEffect.CREATED, 0, 0) for t in self.added]
        found += [
            ChangedTable.of(e.table_key, TableEffect.DROPPED, e.row_count, 0) for e in self.dropped
        ]
        found += [
            work.described
            for work in self.kept
            if work.is_moved or work.before.name != work.after.name
        ]
        return tuple(sorted(found, key=lambda table: table.table_key))


def plan_tables(
    view: CatalogSnapshot, rows: Snapshot, migration: PlannedMigration, *, sole_branch: bool
) -> ApplyPlan:
    """Return the effects of a plan on the tables of a view, after mutations gave `rows`."""
    before: dict[TableIdentity, Entity] = {
        t.identity: t for t in view.catalog.by_table_key.values()
    }
    after = [t for _, t in sorted(migration.catalog.by_table_key.items())]
    kept_ids = {t.identity for t in after}
    shown = view.snapshot.state.by_identity
    kept = [
        _plan_table(rows, before[t.identity], t, shown[t.identity], migration.steps)
        for t in after
        if t.identity in before
    ]
    return ApplyPlan(
        migration,
        tuple(t for t in after if t.identity not in before),
        tuple(kept),
        tuple(shown[identity] for identity in before if identity not in kept_ids),
        sole_branch,
        view.snapshot.manifest_version,
    )


def _plan_table(
    rows: Snapshot, before: Entity, after: Entity, entry: TableEntry, steps: Sequence[Step]
) -> TableWork:
    expressions, source = _list_expressions(after, steps), rows.state.by_identity[entry.identity]
    if before == after and not expressions:
        return TableWork(before, after, entry, source, ColumnPlan(()))
    stored = rows.open_entry(source).schema
    columns = plan_columns(stored, before, after, expressions)
    return TableWork(before, after, entry, source, columns, columns.changes(stored))


def _list_expressions(type_: Entity, steps: Sequence[Step]) -> dict[str, str]:
    """Return the expressions for properties of a type, by name."""
    return {
        step.property_name: step.expression
        for step in steps
        if isinstance(step, AddProperty | ChangePropertyType)
        and (str(step.type_kind), step.type_name) == (str(type_.kind), type_.name)
        and step.expression is not None
    }

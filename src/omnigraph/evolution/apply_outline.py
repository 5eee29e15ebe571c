"""All of an apply that is known before anything is written: what becomes of each table."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from omnigraph.catalog.evolve import MigrationPlan
from omnigraph.catalog.migration_steps import AddProperty, ChangePropertyType, Step
from omnigraph.evolution.apply_result import ChangedTable, TableEffect
from omnigraph.evolution.column_plan import ColumnPlan, Entity, plan_columns
from omnigraph.identity import TableIdentity
from omnigraph.storage.manifest import TableEntry
from omnigraph.storage.snapshot import Snapshot
from omnigraph.writer.change import CatalogSnapshot


@dataclass(frozen=True, slots=True)
class TableWork:
    """One type that stays: what it was, what it becomes, and its columns."""

    before: Entity
    after: Entity
    entry: TableEntry
    source: TableEntry
    """Where its rows are read: its own table, or what mutations made of it."""
    columns: ColumnPlan
    has_other_columns: bool = False
    """Whether its table becomes another one even if no row changes."""

    @property
    def is_mutated(self) -> bool:
        return self.source != self.entry

    @property
    def is_moved(self) -> bool:
        """Whether its table gets another version."""
        return self.has_other_columns or self.is_mutated

    @property
    def described(self) -> ChangedTable:
        key, rows = self.after.table_key, self.entry.row_count
        if self.is_mutated:
            return ChangedTable(key, TableEffect.ROWS, rows, self.source.row_count)
        written = tuple(filling.field.name for filling in self.columns.fillings)
        effect = TableEffect.COLUMNS if written and rows else TableEffect.METADATA
        return ChangedTable(key, effect, rows, rows, written if rows else ())


@dataclass(frozen=True, slots=True)
class Outline:
    """All of an apply that is known before anything is written."""

    plan: MigrationPlan
    added: tuple[Entity, ...]
    kept: tuple[TableWork, ...]
    dropped: tuple[TableEntry, ...]
    needs_sole_branch: bool

    @property
    def tables(self) -> tuple[ChangedTable, ...]:
        """The tables it is about, by name."""
        found = [ChangedTable(t.table_key, TableEffect.CREATED, 0, 0) for t in self.added]
        found += [
            ChangedTable(e.table_key, TableEffect.DROPPED, e.row_count, 0) for e in self.dropped
        ]
        found += [
            work.described
            for work in self.kept
            if work.is_moved or work.before.name != work.after.name
        ]
        return tuple(sorted(found, key=lambda table: table.table_key))


def outline_tables(
    view: CatalogSnapshot, rows: Snapshot, plan: MigrationPlan, *, needs_sole_branch: bool
) -> Outline:
    """What becomes of the tables of a view, whose rows are by then those of `rows`."""
    before: dict[TableIdentity, Entity] = {
        t.identity: t for t in view.catalog.by_table_key.values()
    }
    after = [t for _, t in sorted(plan.catalog.by_table_key.items())]
    kept_ids = {t.identity for t in after}
    shown = view.snapshot.state.by_identity
    kept = [
        _plan_table(rows, before[t.identity], t, shown[t.identity], plan.steps)
        for t in after
        if t.identity in before
    ]
    return Outline(
        plan,
        tuple(t for t in after if t.identity not in before),
        tuple(kept),
        tuple(shown[identity] for identity in before if identity not in kept_ids),
        needs_sole_branch,
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
    """The expressions for properties of a type, by name."""
    return {
        step.property_name: step.expression
        for step in steps
        if isinstance(step, AddProperty | ChangePropertyType)
        and (str(step.type_kind), step.type_name) == (str(type_.kind), type_.name)
        and step.expression is not None
    }

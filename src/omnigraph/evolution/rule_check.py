"""Check new rules on stored rows, and report each violation with its position in the schema."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice

import pyarrow as pa

from omnigraph.catalog.catalog import Constraint, ConstraintKind, Draft, EdgeType, NodeType
from omnigraph.constraints.constraint_checks import (
    find_value_violations,
    find_wrong_sources,
    list_missing_values,
    list_wrong_sources,
)
from omnigraph.constraints.row_ids import list_mismatches
from omnigraph.constraints.table_changes import REPORTED, TableChange, get_column
from omnigraph.constraints.unique_keys import find_unique_violations
from omnigraph.errors import ConstraintViolated, Violation
from omnigraph.evolution.column_fill import (
    ApplyPlan,
    ColumnPlan,
    Entity,
    Filling,
    TableWork,
    collect_expressions,
    locating_expressions,
)
from omnigraph.evolution.migration_steps import (
    AddConstraint,
    AddProperty,
    ChangeCardinality,
    ChangePropertyType,
    ConstraintDocument,
    Step,
)
from omnigraph.evolution.property_compatibility import allows_less
from omnigraph.execution.stored_rows import build_logical_schema, derive_key_ids
from omnigraph.identity import ID_COLUMN, TableKey
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import (
    EmptyColumn,
    RetainedColumn,
    Table,
    quote_identifier,
    read_computed,
)

_COMPARING = frozenset({ConstraintKind.KEY, ConstraintKind.UNIQUE})


@dataclass(frozen=True, slots=True)
class NewRules:
    """Rules that stored rows of a type may break."""

    type: Entity
    constraints: tuple[Constraint, ...] = ()
    required: tuple[str, ...] = ()
    members: tuple[str, ...] = ()
    """Properties whose values must be among those of an enum."""
    counts_edges: bool = False

    @property
    def is_empty(self) -> bool:
        rules = (self.constraints, self.required, self.members)
        return not any(rules) and not self.counts_edges

    def split(self) -> Iterator[tuple[str | None, NewRules]]:
        """Yield the rules one by one, each with the property it is declared on, if any."""
        for name in self.required:
            yield name, NewRules(self.type, required=(name,))
        for name in self.members:
            yield name, NewRules(self.type, members=(name,))
        declared = {property_.name for property_ in self.type.properties}
        for constraint in self.constraints:
            first = next((name for name in constraint.columns if name in declared), None)
            yield first, NewRules(self.type, constraints=(constraint,))
        if self.counts_edges:
            yield None, NewRules(self.type, counts_edges=True)


def list_new_rules(after: Entity, steps: Sequence[Step]) -> NewRules:
    """Return the rules that these steps add, or that the values they change could break."""
    own = [step for step in steps if _is_about(step, after)]
    added = [s.constraint for s in own if isinstance(s, AddConstraint)]
    changed = [s for s in own if isinstance(s, ChangePropertyType)]
    new = [s for s in own if isinstance(s, AddProperty)]
    computed = {s.property_name for s in new if s.expression is not None}
    computed |= {s.property_name for s in changed if s.expression is not None}
    # Values not checked by any rule yet. A default is a value of its type already.
    filled = computed | {s.property_name for s in new if s.default is not None}
    less = {s.property_name for s in changed if allows_less(s.old.read(), s.new.read())}
    checked = [
        c
        for c in after.constraints
        if c.kind is not ConstraintKind.INDEX
        and (ConstraintDocument.of(c) in added or filled & set(c.columns))
    ]
    concerned = [p for p in after.properties if p.name in computed | less]
    return NewRules(
        after,
        tuple(checked),
        tuple(p.name for p in concerned if not p.type.nullable),
        tuple(p.name for p in concerned if p.type.enum_values is not None),
        any(isinstance(step, ChangeCardinality) for step in own),
    )


def _is_about(step: Step, type_: Entity) -> bool:
    if isinstance(step, ChangeCardinality):
        return isinstance(type_, EdgeType) and step.type_name == type_.name
    if not isinstance(step, AddConstraint | AddProperty | ChangePropertyType):
        return False
    return str(step.type_kind) == str(type_.kind) and step.type_name == type_.name


# --- rows -----------------------------------------------------------------------------------------


def find_violations(table: Table, columns: ColumnPlan, rules: NewRules) -> Iterator[Violation]:
    """Yield rows that break a rule: values first, then keys, then cardinalities."""
    if rules.is_empty:
        return
    yield from _find_wrong_values(table, columns, rules)
    for constraint in rules.constraints:
        if constraint.kind in _COMPARING:
            yield from _find_wrong_together(table, columns, rules.type, constraint)
    if rules.counts_edges and isinstance(rules.type, EdgeType):
        yield from _find_wrong_counts(table, rules.type)


def _find_wrong_values(table: Table, columns: ColumnPlan, rules: NewRules) -> Iterator[Violation]:
    single = [c for c in rules.constraints if c.kind not in _COMPARING]
    names = {name for c in single for name in c.columns} | {*rules.required, *rules.members}
    if not names:
        return
    type_ = _reduce_type(rules.type, names, single)
    for batch in _read_rows_after(table, columns, type_, sorted(names)):
        change = TableChange(type_, batch, replaces_all=True)
        yield from list_missing_values(change, rules.required)
        yield from find_value_violations(change)


def _find_wrong_together(
    table: Table, columns: ColumnPlan, full: Entity, constraint: Constraint
) -> Iterator[Violation]:
    type_ = _reduce_type(full, set(constraint.columns), [constraint])
    rows = pa.concat_tables(_read_rows_after(table, columns, type_, constraint.columns))
    change = TableChange(type_, rows, replaces_all=True)
    if constraint.kind is ConstraintKind.KEY:
        yield from _find_wrong_ids(change)
    yield from find_unique_violations(change, _NoCommittedRows())


def _find_wrong_ids(change: TableChange) -> Iterator[Violation]:
    """Yield nodes whose id is not derived from their key; edges refer to the stored id."""
    type_ = change.type
    assert isinstance(type_, NodeType), "only nodes have keys"
    members = [p.name for p in type_.key]
    yield from list_missing_values(change, members, ": it is part of the key")
    derived = derive_key_ids(type_, {name: get_column(change.rows, name) for name in members})
    yield from list_mismatches(change, derived)


def _find_wrong_counts(table: Table, edge: EdgeType) -> Iterator[Violation]:
    sources = get_column(table.scan(["src"]), "src")
    yield from list_wrong_sources(edge, find_wrong_sources(edge, sources))


class _NoCommittedRows:
    """Committed rows beside the checked ones: none, since all rows are checked."""

    def find(self, table: TableKey, by: str, values: pa.Array, columns: Sequence[str]) -> pa.Table:
        raise AssertionError(f"asked for {columns} of {table} by {by} of {len(values)} values")


def _reduce_type(type_: Entity, names: set[str], constraints: Sequence[Constraint]) -> Entity:
    """Return the type with only these properties and rules."""
    properties = tuple(p for p in type_.properties if p.name in names)
    return replace(type_, properties=properties, constraints=tuple(constraints))


def _read_rows_after(
    table: Table, columns: ColumnPlan, type_: Entity, names: Sequence[str]
) -> Iterator[pa.Table]:
    """Yield the rows after the migration: ids, endpoints, and these columns."""
    structural = [ID_COLUMN, "src", "dst"] if isinstance(type_, EdgeType) else [ID_COLUMN]
    wanted = build_logical_schema(type_)
    fillings = {f.field.name: f for f in columns.fillings if f.field.name in names}
    there = {c.field.name: c for c in columns.columns}
    read = {name: quote_identifier(name) for name in structural}
    for name in names:
        kept = there.get(name)
        if isinstance(kept, RetainedColumn):
            read[kept.source] = quote_identifier(kept.source)
    read |= collect_expressions(list(fillings.values()))
    for batch in read_computed(table, read):
        values = {name: batch.column(name) for name in structural}
        for name in names:
            if name not in values:
                values[name] = _read_values(
                    batch, there.get(name), fillings.get(name), wanted, name
                )
        yield pa.table([values[name] for name in wanted.names], schema=wanted)


def _read_values(
    batch: pa.RecordBatch,
    there: object,
    filling: Filling | None,
    wanted: pa.Schema,
    name: str,
) -> pa.Array:
    if filling is not None:
        return filling.fill(batch)
    if isinstance(there, EmptyColumn):
        return pa.nulls(batch.num_rows, wanted.field(name).type)
    source = there.source if isinstance(there, RetainedColumn) else name
    return batch.column(source).cast(wanted.field(name).type)


def require_rules(rows: Snapshot, outline: ApplyPlan, schema: Draft) -> None:
    """Raise if stored rows break a new rule.

    Raises:
        BadExpression: an expression has no valid value for a row.
        ConstraintViolated: with the first of them, the number of all, and where the schema
            declares the rule that the first one breaks.
    """
    found = _find_broken(rows, outline, schema)
    shown = list(islice(found, REPORTED))
    if not shown:
        return
    (first, work), total = shown[0], len(shown) + sum(1 for _ in found)
    position = schema.find_position(_find_entity(rows, outline, work, first))
    raise ConstraintViolated([violation for violation, _ in shown], total, position)


def _find_broken(
    rows: Snapshot, outline: ApplyPlan, schema: Draft
) -> Iterator[tuple[Violation, TableWork]]:
    for work in outline.kept:
        rules = list_new_rules(work.after, outline.migration.steps)
        with locating_expressions(schema, work.after):
            for violation in _find_violations(rows, work, rules):
                yield violation, work


def _find_violations(rows: Snapshot, work: TableWork, rules: NewRules) -> Iterator[Violation]:
    if not rules.is_empty and work.source.row_count:
        yield from find_violations(rows.open_entry(work.source), work.columns, rules)


def _find_entity(rows: Snapshot, outline: ApplyPlan, work: TableWork, wanted: Violation) -> str:
    """Return the entity that declares the broken rule, by checking each rule alone."""
    key = work.after.table_key
    for member, rule in list_new_rules(work.after, outline.migration.steps).split():
        if any(found == wanted for found in _find_violations(rows, work, rule)):
            return key if member is None else f"{key}.{member}"
    return key

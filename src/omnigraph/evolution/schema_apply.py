"""The change that gives a branch another schema.

Planned, checked and written outside of the fence, like any other change: new tables are empty and
nobody knows them, new columns are files nothing refers to. One publish then shows the schema
together with every table it changes.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from itertools import islice
from uuid import uuid4

from omnigraph.catalog.catalog import Catalog, TypeKind
from omnigraph.catalog.codec import SchemaState, encode_ir, encode_state
from omnigraph.catalog.draft import Draft
from omnigraph.catalog.evolve import MigrationPlan, plan_migration
from omnigraph.catalog.identify import apart_from_other_branches
from omnigraph.catalog.migration_steps import AddProperty, ChangePropertyType, Step
from omnigraph.constraints.evaluate import REPORTED
from omnigraph.errors import (
    AlreadyExists,
    ConstraintViolated,
    ReadSetChanged,
    UnsupportedSchemaChange,
    Violation,
)
from omnigraph.evolution.apply_result import ChangedTable, TableEffect
from omnigraph.evolution.column_plan import ColumnPlan, Entity, plan_columns
from omnigraph.evolution.column_writers import ColumnWriters
from omnigraph.evolution.fillings import collect_expressions, make_filler, render_constants
from omnigraph.evolution.in_the_way import is_hard_drop, require_sole_branch
from omnigraph.evolution.rule_scan import find_violations, list_new_rules
from omnigraph.execution.stored_rows import build_table_schema
from omnigraph.identity import TableIdentity
from omnigraph.language.source import NOWHERE
from omnigraph.storage.created import create_table
from omnigraph.storage.initialize import GENESIS_VERSION, NewTable
from omnigraph.storage.manifest import (
    Register,
    Rename,
    SchemaChange,
    SchemaContract,
    SetVersion,
    TableEntry,
    Tombstone,
)
from omnigraph.storage.recovery import WriterKind, drop_created
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.staged import StagedTable, Ticket, Writable, drop_fork, open_writable
from omnigraph.storage.tables import ColumnOrder, Table, stage_columns
from omnigraph.writer.change import CatalogSnapshot, Prepared

SCHEMA = "schema_contract"
PURGES = "purges"
"""In the record of a commit: what was dropped is to go from older states too."""
_MOST_COUNTERS = 64
"""So often ids are given out anew because a table that nobody knows is in their place."""


@dataclass(frozen=True, slots=True)
class TableWork:
    """One type that stays: what it was, what it becomes, and its columns."""

    before: Entity
    after: Entity
    entry: TableEntry
    columns: ColumnPlan
    is_moved: bool
    """Whether its table gets another version."""

    @property
    def described(self) -> ChangedTable:
        written = tuple(filling.field.name for filling in self.columns.fillings)
        rows = self.entry.row_count
        effect = TableEffect.COLUMNS if written and rows else TableEffect.METADATA
        return ChangedTable(self.after.table_key, effect, rows, rows, written if rows else ())


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


@dataclass(frozen=True, slots=True)
class Wanted:
    """The schema as it shall be, and how to get there."""

    schema: Draft
    allow_data_loss: bool = False
    expressions: Mapping[str, str] = field(default_factory=dict)
    """What gives rows that are there their values, by `Type.property`."""
    other: CatalogSnapshot | None = None
    """A branch that has the schema already: what is new gets the ids and tables it has there."""


class SchemaApply:
    """The change from whatever schema a branch has to the one that is wanted."""

    kind = WriterKind.SCHEMA_APPLY
    is_costly = True

    def __init__(self, wanted: Wanted, writers: ColumnWriters) -> None:
        self._wanted, self._writers = wanted, writers
        self._accepted: SchemaContract | None = None
        self.outline: Outline | None = None
        """What the newest preparation came to."""

    def outline_on(self, view: CatalogSnapshot) -> Outline:
        """Everything that can be said and refused before anything is written.

        Raises:
            CompileError: rename hints that do not fit the schema of the branch.
            UnsupportedSchemaChange: a step cannot be taken.
            SchemaChangeBlocked: other branches could not follow.
            ReadSetChanged: the branch got another schema since this was first planned.
        """
        self._require_same_start(view.snapshot)
        start = view.catalog
        if self._wanted.other is None:
            start = apart_from_other_branches(start, view.snapshot.ref.incarnation)
        self.outline = self._outline_from(view, start)
        return self.outline

    def _require_same_start(self, snapshot: Snapshot) -> None:
        """A plan is made for one schema: on another it might drop what somebody just added."""
        if self._accepted is None:
            self._accepted = snapshot.contract
        elif self._accepted != snapshot.contract:
            raise ReadSetChanged(SCHEMA, "the schema it was planned on", "another one")

    def _outline_from(self, view: CatalogSnapshot, start: Catalog) -> Outline:
        wanted = self._wanted
        plan = plan_migration(
            start,
            wanted.schema,
            allow_data_loss=wanted.allow_data_loss,
            expressions=wanted.expressions,
            other=wanted.other.catalog if wanted.other else None,
        )
        _require_supported(plan, wanted.schema)
        return _outline(view, plan)

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> Prepared | None:
        outline = self.outline_on(view)
        if outline.plan.is_empty:
            return None
        require_rules(view.snapshot, outline)
        made = _Made(view.snapshot, ticket)
        with made.undo_on_failure():
            outline = self.outline = self._create(view, outline, made)
            staged = tuple(
                self._stage_columns(work, made) for work in outline.kept if work.is_moved
            )
        return Prepared(
            staged,
            details={"schema": _describe_change(outline.plan)},
            schema=self._make_schema_change(outline, made),
            needs_sole_branch=outline.needs_sole_branch,
        )

    def may_retry(self, cause: ReadSetChanged) -> bool:
        """Whatever else moved, the rows that are there then get the schema."""
        return cause.member != SCHEMA

    def _create(self, view: CatalogSnapshot, outline: Outline, made: _Made) -> Outline:
        """Make the new tables; where the place of one is taken, all ids are given out anew."""
        if self._wanted.other is not None:
            for type_ in outline.added:
                made.share(type_, self._wanted.other.snapshot)
            return outline
        for _ in range(_MOST_COUNTERS):
            try:
                for type_ in outline.added:
                    made.create(type_)
            except AlreadyExists:
                made.undo()
                counter = outline.plan.catalog.next_identity_id
                outline = self._outline_from(view, replace(view.catalog, next_identity_id=counter))
                continue
            return outline
        raise AlreadyExists(f"no place for the tables of {view.snapshot.root.uri}")

    def _stage_columns(self, work: TableWork, made: _Made) -> StagedTable:
        writable = made.open(work.entry)
        table, columns = writable.table, work.columns
        orders = _list_orders(table, columns) if columns.fillings else []
        staged = stage_columns(
            table,
            columns.columns,
            self._writers.write(orders),
            uuid=str(uuid4()),
            properties=made.ticket.properties,
        )
        return StagedTable(writable, staged)

    def _make_schema_change(self, outline: Outline, made: _Made) -> SchemaChange:
        catalog, text = outline.plan.catalog, self._wanted.schema.source.text
        state = encode_state(SchemaState.of(catalog, text))
        return SchemaChange(
            SchemaContract(text, encode_ir(catalog), state),
            registered=tuple(
                Register(one.identity, one.table_key, one.path) for one, _ in made.tables
            ),
            created=tuple(shown for _, shown in made.tables),
            renamed=tuple(
                Rename(work.entry.identity, work.entry.table_key, work.after.table_key)
                for work in outline.kept
                if work.entry.table_key != work.after.table_key
            ),
            dropped=tuple(
                Tombstone(entry.identity, entry.table_key, entry.version + 1)
                for entry in outline.dropped
            ),
        )


def _describe_change(plan: MigrationPlan) -> dict[str, object]:
    """What the commit says about the change."""
    steps: dict[str, object] = {"steps": [step.describe() for step in plan.steps]}
    return {**steps, PURGES: True} if any(map(is_hard_drop, plan.steps)) else steps


class _Made:
    """What a preparation has made so far; all of it can be removed again."""

    def __init__(self, snapshot: Snapshot, ticket: Ticket) -> None:
        self.ticket, self._snapshot = ticket, snapshot
        self._created: list[tuple[NewTable, SetVersion]] = []
        self._shared: list[tuple[NewTable, SetVersion]] = []
        self._opened: list[Writable] = []

    def create(self, type_: Entity) -> None:
        new = NewTable(type_.identity, type_.table_key, build_table_schema(type_))
        self._created.append((new, create_table(self._snapshot.root, new, self.ticket)))

    def share(self, type_: Entity, owner: Snapshot) -> None:
        """Show the table of another branch as it was made, without a row."""
        new = NewTable(type_.identity, type_.table_key, build_table_schema(type_))
        owner.root.handles.open(owner.root.location(new.path), GENESIS_VERSION)
        first = SetVersion(new.identity, new.table_key, GENESIS_VERSION, None, 0)
        self._shared.append((new, first))

    @property
    def tables(self) -> list[tuple[NewTable, SetVersion]]:
        return [*self._created, *self._shared]

    def open(self, entry: TableEntry) -> Writable:
        writable = open_writable(self._snapshot, entry)
        self._opened.append(writable)
        return writable

    def undo(self) -> None:
        for new, _ in self._created:
            drop_created(self._snapshot.root, new.path, self.ticket.operation_id)
        for writable in self._opened:
            drop_fork(writable)
        self._created, self._opened = [], []

    @contextmanager
    def undo_on_failure(self) -> Iterator[None]:
        try:
            yield
        except BaseException:
            self.undo()
            raise


def _outline(view: CatalogSnapshot, plan: MigrationPlan) -> Outline:
    before: dict[TableIdentity, Entity] = {
        t.identity: t for t in view.catalog.by_table_key.values()
    }
    after = [t for _, t in sorted(plan.catalog.by_table_key.items())]
    kept_ids = {t.identity for t in after}
    shown = view.snapshot.state.by_identity
    kept = [
        _plan_tables(view.snapshot, before[t.identity], t, shown[t.identity], plan.steps)
        for t in after
        if t.identity in before
    ]
    return Outline(
        plan,
        tuple(t for t in after if t.identity not in before),
        tuple(kept),
        tuple(shown[identity] for identity in before if identity not in kept_ids),
        require_sole_branch(view.snapshot, plan.steps),
    )


def _plan_tables(
    snapshot: Snapshot, before: Entity, after: Entity, entry: TableEntry, steps: Sequence[Step]
) -> TableWork:
    expressions = _list_expressions(after, steps)
    if before == after and not expressions:
        return TableWork(before, after, entry, ColumnPlan(()), is_moved=False)
    stored = snapshot.open_entry(entry).schema
    columns = plan_columns(stored, before, after, expressions)
    return TableWork(before, after, entry, columns, columns.changes(stored))


def _list_expressions(type_: Entity, steps: Sequence[Step]) -> dict[str, str]:
    """The expressions for properties of a type, by name."""
    return {
        step.property_name: step.expression
        for step in steps
        if isinstance(step, AddProperty | ChangePropertyType)
        and (str(step.type_kind), step.type_name) == (str(type_.kind), type_.name)
        and step.expression is not None
    }


def require_rules(snapshot: Snapshot, outline: Outline) -> None:
    """Raise if rows break what the schema demands from now on.

    Raises:
        ConstraintViolated: with the first of them and the number of all.
    """
    found = _find_broken_rules(snapshot, outline)
    shown = list(islice(found, REPORTED))
    if shown:
        raise ConstraintViolated(shown, len(shown) + sum(1 for _ in found))


def _find_broken_rules(snapshot: Snapshot, outline: Outline) -> Iterator[Violation]:
    for work in outline.kept:
        rules = list_new_rules(work.after, outline.plan.steps)
        if not rules.is_empty and work.entry.row_count:
            yield from find_violations(snapshot.open_entry(work.entry), work.columns, rules)


def _require_supported(plan: MigrationPlan, schema: Draft) -> None:
    """Raise for the first step that cannot be taken, with its place in the text."""
    change = plan.first_unsupported
    if change is None:
        return
    kind, _, rest = change.entity.partition(":")
    name, _, member = rest.partition(".")
    place = None
    if kind in tuple(TypeKind):
        span = schema.span_of((TypeKind(kind), name), member or None)
        if span is not NOWHERE:
            line, column = schema.source.line_and_column(span.start)
            place = f"{schema.source.name}:{line}:{column}"
    raise UnsupportedSchemaChange(change.entity, change.reason, change.code, place)


def _list_orders(table: Table, columns: ColumnPlan) -> list[ColumnOrder]:
    constants = render_constants(columns.fillings)
    read = collect_expressions(columns.fillings) if constants is None else constants
    compute = make_filler(columns.fillings) if constants is None else None
    return [
        ColumnOrder(table.location, table.version, fragment, read, compute)
        for fragment in table.fragment_ids()
    ]

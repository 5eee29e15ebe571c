"""Apply a schema to a branch: one change that writes every table and the accepted schema."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

from omnigraph.catalog.assign_identities import offset_for_branch, offset_for_operation
from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.catalog import Catalog, Draft
from omnigraph.catalog.codec import SchemaState, encode_ir, encode_state
from omnigraph.errors import (
    CompileError,
    ReadSetChanged,
    SchemaChangeBlocked,
    SchemaDropsEverything,
    UnsupportedSchemaChange,
)
from omnigraph.evolution.column_fill import (
    ApplyPlan,
    ColumnPlan,
    TableWork,
    collect_expressions,
    find_step_position,
    locating_expressions,
    make_filler,
    plan_tables,
    render_constants,
    require_computable,
)
from omnigraph.evolution.migration_plan import (
    MigrationPlan,
    PlannedMigration,
    is_additive,
    plan_migration,
)
from omnigraph.evolution.migration_steps import AddType, DropMode, DropProperty, DropType, Step
from omnigraph.evolution.rule_check import require_rules
from omnigraph.evolution.table_rewrites import (
    ColumnWriters,
    CreatedTables,
    NamedChange,
    find_mutated,
    open_rewritten_rows,
    run_mutations,
)
from omnigraph.execution.pending_rows import Placement, stage_tables
from omnigraph.identity import OperationId
from omnigraph.language.source import SourceText
from omnigraph.storage.layout import SCHEMA_SOURCE
from omnigraph.storage.manifest import Register, Rename, SchemaChange, SchemaContract, Tombstone
from omnigraph.storage.prepared_write import StagedTable, Ticket, mint_ticket
from omnigraph.storage.refs import list_names, list_tags
from omnigraph.storage.snapshot import Snapshot
from omnigraph.storage.tables import ColumnJob, Table, stage_columns, stage_overwrite
from omnigraph.storage.write_plan import WriterKind
from omnigraph.writer.change import CatalogSnapshot, PlanContent


def require_sole_branch(snapshot: Snapshot, steps: Sequence[Step], schema: Draft) -> bool:
    """Return whether the branch must be the only one; raise if it is not.

    Raises:
        SchemaChangeBlocked: naming the blocking branches, or for hard drops the blocking tags, and
            the blocked steps.
    """
    others = [step for step in steps if not is_additive(step)]
    if not others:
        return False
    store = snapshot.root.store
    names = sorted(set(list_names(store)) - {snapshot.branch})
    if names:
        position = find_step_position(schema, others[0])
        raise SchemaChangeBlocked([step.describe() for step in others], names, position=position)
    hard = [step for step in steps if is_hard_drop(step)]
    tags = sorted(tag.name for tag in list_tags(store)) if hard else []
    if tags:
        position = find_step_position(schema, hard[0])
        raise SchemaChangeBlocked([step.describe() for step in hard], tags=tags, position=position)
    return True


def is_hard_drop(step: Step) -> bool:
    """Return whether a step also removes data from older versions."""
    return isinstance(step, DropType | DropProperty) and step.mode is DropMode.HARD


SCHEMA = "schema_contract"
PURGES = "purges"
"""Member of the commit record: dropped data is to be removed from older versions too."""


@dataclass(frozen=True, slots=True)
class DesiredSchema:
    """The desired schema, and the options of the migration."""

    schema: Draft
    allow_data_loss: bool = False
    allow_drop_all: bool = False
    expressions: Mapping[str, str] = field(default_factory=dict)
    """Expressions for stored rows, by `Type.property`."""
    other: CatalogSnapshot | None = None
    """A branch that has the schema already; new types get its ids and tables."""
    mutations: tuple[NamedChange, ...] = ()
    """Mutations run first, in order, under the accepted schema."""
    check: Callable[[Catalog, Catalog], None] | None = None
    """Raises if the migration must be refused."""


class SchemaApply:
    """The change from the schema of a branch to the desired one."""

    kind = WriterKind.SCHEMA_APPLY
    is_costly = True

    def __init__(self, wanted: DesiredSchema, writers: ColumnWriters) -> None:
        self._desired, self._writers = wanted, writers
        self._accepted: CatalogSnapshot | None = None
        self._sole_branch, self._is_stale = False, False
        self.outline: ApplyPlan | None = None
        """The outline of the last preparation."""

    def preview(self, view: CatalogSnapshot) -> None:
        """Run every check of an apply and return its outline; change nothing.

        Raises:
            OmniError: what an apply would raise.
        """
        plan = self._plan_on(view)
        with run_mutations(view, self._choose_mutations(plan), mint_ticket(view.snapshot)) as rows:
            self.outline = self._plan_tables(view, rows, plan)
            self._require_expressions(rows, self.outline)
            require_rules(rows, self.outline, self._desired.schema)

    def _plan_on(
        self, view: CatalogSnapshot, operation: OperationId | None = None
    ) -> PlannedMigration:
        """Return the migration, after every check that reads no row.

        For an `operation` that creates the new tables, these get ids of their own.

        Raises:
            CompileError: rename hints that do not fit the schema of the branch.
            UnsupportedSchemaChange: a step is unsupported.
            SchemaDropsEverything: no existing type would remain.
            SchemaChangeBlocked: other branches have the schema that the steps break.
            SchemaBreaksQueries: stored queries would no longer compile.
            ReadSetChanged: the branch got another schema since this was first planned.
        """
        self._require_same_start(view)
        start = view.catalog
        if self._desired.other is None:
            start = offset_for_branch(start, view.snapshot.ref.incarnation)
        plan = self._plan_from(start)
        makes_tables = any(isinstance(step, AddType) for step in plan.steps)
        if operation is not None and makes_tables and self._desired.other is None:
            plan = self._plan_from(offset_for_operation(start, operation))
        self._require_some_left(view, plan)
        schema = self._desired.schema
        self._sole_branch = require_sole_branch(view.snapshot, plan.steps, schema)
        if self._desired.check is not None:
            self._desired.check(view.catalog, plan.catalog)
        return plan

    def _require_some_left(self, view: CatalogSnapshot, plan: PlannedMigration) -> None:
        """Raise if every type would be dropped, as by a wrong or an empty file."""
        there = view.catalog.by_table_key
        left = {type_.identity for type_ in plan.catalog.by_table_key.values()}
        is_left = any(type_.identity in left for type_ in there.values())
        if not there or is_left or self._desired.allow_drop_all:
            return
        rows = sum(entry.row_count for entry in view.snapshot.entries.values())
        names = sorted(type_.name for type_ in there.values())
        raise SchemaDropsEverything(names, rows, self._desired.schema.source.name)

    def _require_expressions(self, rows: Snapshot, outline: ApplyPlan) -> None:
        """Raise if an expression cannot be computed, before any row is read for one."""
        for work in outline.kept:
            with locating_expressions(self._desired.schema, work.after):
                require_computable(rows.open_entry(work.source), work.columns.fillings)

    def _plan_tables(
        self, view: CatalogSnapshot, rows: Snapshot, migration: PlannedMigration
    ) -> ApplyPlan:
        return plan_tables(view, rows, migration, sole_branch=self._sole_branch)

    def _choose_mutations(self, migration: PlannedMigration) -> tuple[NamedChange, ...]:
        """Return no mutations if the schema does not change: a repeated apply does nothing."""
        return () if migration.plan.is_empty else self._desired.mutations

    def _require_same_start(self, view: CatalogSnapshot) -> None:
        """Raise if the schema changed since it was planned: it might drop concurrent additions."""
        if self._accepted is None:
            self._accepted = view
            return
        now = view.snapshot.contract
        if self._accepted.snapshot.contract != now:
            self._is_stale = True
            steps = _list_changes(self._accepted.catalog, now)
            described = f" ({', '.join(step.describe() for step in steps)})" if steps else ""
            schema = self._desired.schema
            position = find_step_position(schema, steps[0]) if steps else schema.source.name
            before = "the schema it was planned on"
            raise ReadSetChanged(SCHEMA, before, f"another one{described}", position)

    def _plan_from(self, start: Catalog) -> PlannedMigration:
        wanted = self._desired
        plan = plan_migration(
            start,
            wanted.schema,
            allow_data_loss=wanted.allow_data_loss,
            expressions=wanted.expressions,
            other=wanted.other.catalog if wanted.other else None,
        )
        _require_supported(plan.plan, wanted.schema)
        return plan

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        plan = self._plan_on(view, ticket.operation_id)
        with run_mutations(view, self._choose_mutations(plan), ticket) as rows:
            return self._prepare_on(view, rows, self._plan_tables(view, rows, plan), ticket)

    def _prepare_on(
        self, view: CatalogSnapshot, rows: Snapshot, outline: ApplyPlan, ticket: Ticket
    ) -> PlanContent | None:
        self.outline = outline
        if outline.migration.plan.is_empty:
            return None
        self._require_expressions(rows, outline)
        require_rules(rows, outline, self._desired.schema)
        made = CreatedTables(view.snapshot, ticket)
        with made.undo_on_failure():
            self._create(outline, made)
            moved = [work for work in outline.kept if work.is_moved]
            staged = tuple(
                table for work in moved if (table := self._stage(work, rows, made)) is not None
            )
        return PlanContent(
            staged,
            details={"schema": self._describe(outline.migration.plan)},
            schema=self._make_schema_change(outline, made),
            sole_branch=outline.sole_branch,
        )

    def may_retry(self, cause: ReadSetChanged) -> bool:
        """Return whether to prepare again on the current rows.

        If the schema moved, the next preparation reports its changes.
        """
        return cause.member != SCHEMA or not self._is_stale

    def _create(self, outline: ApplyPlan, made: CreatedTables) -> None:
        """Create the new tables, or show those of the other branch."""
        for type_ in outline.added:
            if self._desired.other is None:
                made.create(type_)
            else:
                made.share(type_, self._desired.other.snapshot)

    def _stage(self, work: TableWork, rows: Snapshot, made: CreatedTables) -> StagedTable | None:
        """Stage the next version of a table; None where mutations changed no row."""
        with locating_expressions(self._desired.schema, work.after):
            if not work.is_mutated:
                return self._stage_columns(work, made)
            mutated = rows.open_entry(work.source)
            if work.has_other_columns:
                return self._stage_rewrite(work, mutated, made)
        change = find_mutated(made.snapshot.open_entry(work.entry), mutated, work.before)
        for table in stage_tables(made.snapshot, made.ticket, [(change, Placement.UPSERT)]):
            made.watch(table.writable)
            return table
        return None

    def _stage_rewrite(self, work: TableWork, mutated: Table, made: CreatedTables) -> StagedTable:
        writable = made.open(work.entry)
        with open_rewritten_rows(mutated, work.columns) as rows:
            staged = stage_overwrite(
                writable.table,
                rows,
                schema=rows.schema,
                properties=made.ticket.properties,
            )
        return StagedTable(writable, staged)

    def _stage_columns(self, work: TableWork, made: CreatedTables) -> StagedTable:
        writable = made.open(work.entry)
        table, columns = writable.table, work.columns
        orders = _list_orders(table, columns) if columns.fillings else []
        staged = stage_columns(
            table,
            columns.columns,
            self._writers.write(orders),
            properties=made.ticket.properties,
        )
        return StagedTable(writable, staged)

    def _make_schema_change(self, outline: ApplyPlan, made: CreatedTables) -> SchemaChange:
        catalog, text = outline.migration.catalog, self._desired.schema.source.text
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

    def _describe(self, plan: MigrationPlan) -> dict[str, object]:
        """Return the details recorded with the commit."""
        described: dict[str, object] = {"steps": [step.describe() for step in plan.steps]}
        if self._desired.mutations:
            described["mutations"] = [mutation.name for mutation in self._desired.mutations]
        if any(map(is_hard_drop, plan.steps)):
            described[PURGES] = True
        return described


def _list_changes(accepted: Catalog, now: SchemaContract) -> tuple[Step, ...]:
    """Return the concurrent changes of the schema; none if they cannot be determined."""
    try:
        text = compile_schema(SourceText(now.source, SCHEMA_SOURCE))
        return plan_migration(accepted, text).steps
    except CompileError:
        return ()  # its rename hints do not fit any more


def _require_supported(plan: MigrationPlan, schema: Draft) -> None:
    """Raise for the first unsupported step, with its position in the text."""
    change = plan.first_unsupported
    if change is not None:
        position = schema.find_position(change.entity)
        raise UnsupportedSchemaChange(change.entity, change.reason, change.code, position)


def _list_orders(table: Table, columns: ColumnPlan) -> list[ColumnJob]:
    constants = render_constants(columns.fillings)
    read = collect_expressions(columns.fillings) if constants is None else constants
    compute = make_filler(columns.fillings) if constants is None else None
    return [
        ColumnJob(table.location, table.version, fragment, read, compute)
        for fragment in table.fragment_ids()
    ]

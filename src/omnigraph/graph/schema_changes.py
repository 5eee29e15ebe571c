"""Change the schema of a branch: plan, apply, and purge dropped data if that was allowed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import CompileError
from omnigraph.graph.engines import EngineName, require_engine
from omnigraph.graph.guard import Guard
from omnigraph.graph.mutations import Mutation
from omnigraph.graph.open_graph import GraphHandle, rewrite_mirror
from omnigraph.graph.revisions import RevisionLike
from omnigraph.identity import MAIN
from omnigraph.language.query_parser import parse_query_file
from omnigraph.language.source import SourceText, as_source_text
from omnigraph.policy.decision import Action
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import SCHEMA_SOURCE, normalize_branch
from omnigraph.storage.manifest import CommitRecord, History
from omnigraph.storage.snapshot import Snapshot
from omnigraph.writer.change import CatalogSnapshot, WriteOptions

if TYPE_CHECKING:
    from omnigraph.evolution.apply_result import AppliedMutation, SchemaApplyResult
    from omnigraph.evolution.migration_plan import MigrationPlan
    from omnigraph.evolution.schema_apply import SchemaApply
    from omnigraph.evolution.table_rewrites import ColumnWriters
    from omnigraph.graph.idempotency import WriteKey
    from omnigraph.writer.driver import Writer

_OLD_SCHEMA = (
    "a mutation runs before the change, under the schema that is there; "
    "new properties get their values by an expression"
)


class SchemaVerbs(GraphHandle):
    """The verbs that plan and apply a schema."""

    def plan_schema(
        self,
        schema: str | Path | SourceText,
        *,
        branch: str | None = None,
        allow_data_loss: bool = False,
        expressions: Mapping[str, str] | None = None,
    ) -> MigrationPlan:
        """Plan the steps from the accepted schema to another one; change nothing.

        >>> wanted = graph.schema.replace("age: I32?", "age: I32?  nick: String?")
        >>> [step.describe() for step in graph.plan_schema(wanted).steps]
        ['add property Person.nick: String?']
        """
        from omnigraph.catalog.build import compile_schema
        from omnigraph.evolution.migration_plan import plan_migration

        self._guard.allow(Action.READ)
        desired = compile_schema(as_source_text(schema, "<schema>"))
        accepted = self._open.views.read_newest(self._choose(branch)).catalog
        return plan_migration(
            accepted, desired, allow_data_loss=allow_data_loss, expressions=expressions
        ).plan

    def apply_schema(
        self,
        schema: str | Path | SourceText,
        *,
        branch: str | None = None,
        allow_data_loss: bool = False,
        allow_drop_all: bool = False,
        expressions: Mapping[str, str] | None = None,
        mutations: Sequence[str | Path | SourceText] = (),
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> SchemaApplyResult:
        """Apply a schema to a branch as one commit or not at all.

        Existing rows keep their ids, their history and every value the schema still has.

        Args:
            schema: The desired schema.
            branch: The branch to change; only additions are possible while there are others.
            allow_data_loss: Remove dropped data from older states too, permanently.
            allow_drop_all: Accept a schema that drops every type of the graph.
            expressions: The values of new and changed properties in stored rows: SQL over the
                properties of the row, by `Type.property`.
            mutations: Query texts that change rows first, in the same commit. Their queries use
                the accepted schema, have no parameters, and are run in order.
            expected_head: The commit the branch must be at.
            actor: The actor the commit is recorded for.
            message: The message of the commit.
            dry_run: Report the effects, or raise as the apply would. Mutations are run on
                copies, for which the graph must be open for writing.
            engine: The engine that writes columns: `local`, in this process, or `spark`.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.
            idempotency_key: The key under which the change is made once.

        >>> wanted = graph.schema.replace("age: I32?", "age: I32?  nick: String?")
        >>> done = graph.apply_schema(wanted)
        >>> [(step.describe(), done.applied) for step in done.steps]
        [('add property Person.nick: String?', True)]
        """
        if mutations or not dry_run:
            self._open.require_writable()
        branch = self._choose(branch)
        self._guard.allow(Action.SCHEMA_APPLY, target_branch=branch, actor=actor)
        if mutations:
            self._guard.allow(Action.CHANGE, branch=branch, actor=actor)
        options = self._make_write_options(branch, actor, message, expected_head, idempotency_key)
        migration = Migration(
            as_source_text(schema, "<schema>"),
            options,
            allow_data_loss=allow_data_loss,
            allow_drop_all=allow_drop_all,
            expressions=expressions or {},
            mutations=[as_source_text(text, "<mutation>") for text in mutations],
            check=self._make_query_check(),
            guard=self._guard,
            writers=self._column_writers(engine, session, spark_conf),
        )
        apply = preview_migration if dry_run else apply_migration
        return apply(self._open.writer, migration)

    def _make_query_check(self) -> Callable[[Catalog, Catalog], None] | None:
        """Return a check that raises if stored queries would not run with another schema."""
        if not self._registry:
            return None
        from omnigraph.stored_queries import check_schema_change

        return partial(check_schema_change, self._registry)

    def _column_writers(
        self, engine: str, session: object | None, spark_conf: Mapping[str, str] | None
    ) -> ColumnWriters | None:
        """Return the writers of new columns; None for threads of this process."""
        if engine == "local":
            return None
        require_engine(engine)
        from omnigraph.graph.engines import open_tasks
        from omnigraph.pipeline.bulk_rewrite import TaskColumnWriters

        return TaskColumnWriters(lambda: open_tasks(engine, self.settings, session, spark_conf))


@dataclass(frozen=True, slots=True, kw_only=True)
class Migration:
    """A desired schema for a branch, and the options of its migration."""

    schema: SourceText = field(kw_only=False)
    options: WriteOptions = field(kw_only=False)
    allow_data_loss: bool = False
    allow_drop_all: bool = False
    expressions: Mapping[str, str] = field(default_factory=dict)
    mutations: Sequence[SourceText] = ()
    """Texts whose queries are run first, in order."""
    check: Callable[[Catalog, Catalog], None] | None = None
    guard: Guard = field(default_factory=Guard)
    writers: ColumnWriters | None = None
    """The writers of new columns; None for threads of this process."""

    @property
    def key(self) -> WriteKey | None:
        """The key, with all that distinguishes two migrations of a branch."""
        from omnigraph.graph.idempotency import WriteKey

        texts = [text.text for text in self.mutations]
        members = (self.schema.text, self.allow_data_loss, self.expressions, texts)
        return WriteKey.of(self.options, "apply_schema", *members)

    def list_mutations(self) -> tuple[Mutation, ...]:
        return tuple(
            Mutation(source, query.name, None, self.options, self.guard)
            for source in self.mutations
            for query in parse_query_file(source).queries
        )

    def make_change(self, mutations: tuple[Mutation, ...]) -> SchemaApply:
        from omnigraph.catalog.build import compile_schema
        from omnigraph.evolution.schema_apply import DesiredSchema, SchemaApply
        from omnigraph.evolution.table_rewrites import Threads

        desired = DesiredSchema(
            compile_schema(self.schema),
            self.allow_data_loss,
            self.allow_drop_all,
            self.expressions,
            mutations=mutations,
            check=self.check,
        )
        return SchemaApply(desired, self.writers or Threads())


def apply_migration(writer: Writer, migration: Migration) -> SchemaApplyResult:
    """Apply a schema to a branch as one commit or not at all.

    Raises:
        CompileError: mistakes in the schema.
        UnsupportedSchemaChange: a step is unsupported.
        BadExpression: an expression does not give rows a value.
        SchemaDropsEverything: no existing type would remain.
        SchemaChangeBlocked: other branches have the schema that the steps break.
        ConstraintViolated: stored rows break the desired schema.
        ReadSetChanged: a concurrent change gave the branch another schema.
    """
    from omnigraph.evolution.apply_result import SchemaApplyResult
    from omnigraph.graph.idempotency import write_once

    options, key, mutations = migration.options, migration.key, migration.list_mutations()
    change = migration.make_change(mutations)

    def describe() -> SchemaApplyResult:
        return _describe(change, mutations, options)

    with _advise_on_mutations(migration.mutations):
        result = write_once(writer, change, options, key, SchemaApplyResult, describe)
    if result.commit is not None:
        version = result.commit.manifest_version
        result = msgspec.structs.replace(result, applied=True, manifest_version=version)
    if not result.is_replayed:
        snapshot = writer.branches.read_newest(options.branch).snapshot
        if result.applied:
            _mirror(snapshot)
        if migration.allow_data_loss:
            purge_dropped(writer, snapshot, options)
    return result


def preview_migration(writer: Writer, migration: Migration) -> SchemaApplyResult:
    """Return the result of `apply_migration`, or raise its error; write nothing visible."""
    options, mutations = migration.options, migration.list_mutations()
    change = migration.make_change(mutations)
    with _advise_on_mutations(migration.mutations):
        change.preview(writer.branches.read_newest(options.branch))
    return msgspec.structs.replace(_describe(change, mutations, options), dry_run=True)


@contextmanager
def _advise_on_mutations(mutations: Sequence[SourceText]) -> Iterator[None]:
    """Add to mistakes in mutations that they run under the accepted schema."""
    try:
        yield
    except CompileError as error:
        names = {source.name for source in mutations}
        said = [
            msgspec.structs.replace(
                one, hint=one.hint or (_OLD_SCHEMA if one.source in names else None)
            )
            for one in error.diagnostics
        ]
        raise CompileError(said) from error


def _describe(
    change: SchemaApply, mutations: Sequence[Mutation], options: WriteOptions
) -> SchemaApplyResult:
    """Return the result of the newest preparation, without a commit."""
    from omnigraph.evolution.apply_result import SchemaApplyResult

    assert change.outline is not None, "what was written or tried was planned"
    plan = change.outline.migration.plan
    return SchemaApplyResult(
        supported=plan.supported,
        step_count=plan.step_count,
        steps=plan.steps,
        notes=plan.notes,
        mutations=_list_runs(mutations),
        branch=normalize_branch(options.branch),
        applied=False,
        dry_run=False,
        manifest_version=change.outline.base_version,
        tables=change.outline.tables,
        actor_id=options.actor_id,
        commit=None,
    )


def adopt_schema(
    writer: Writer, other: CatalogSnapshot, options: WriteOptions
) -> CommitRecord | None:
    """Give a branch the additions of the schema of another one; return the commit, if any."""
    from omnigraph.catalog.build import compile_schema
    from omnigraph.evolution.schema_apply import DesiredSchema, SchemaApply
    from omnigraph.evolution.table_rewrites import Threads

    schema = compile_schema(SourceText(other.snapshot.contract.source, SCHEMA_SOURCE))
    change = SchemaApply(DesiredSchema(schema, other=other), Threads())
    published = writer.write(change, options)
    if published is None:
        return None
    _mirror(writer.branches.read_newest(options.branch).snapshot)
    return published.commit


def _list_runs(mutations: Sequence[Mutation]) -> tuple[AppliedMutation, ...]:
    """List the effects of the mutations that were run."""
    from omnigraph.evolution.apply_result import AppliedMutation

    done = [one.done for one in mutations if one.done is not None]
    return tuple(
        AppliedMutation(plan.name, run.affected_nodes, run.affected_edges) for plan, run in done
    )


def _mirror(snapshot: Snapshot) -> None:
    """Rewrite the schema files beside the graph, if the branch is `main`."""
    if snapshot.branch == MAIN:
        rewrite_mirror(snapshot.root, snapshot.contract)


# --- purges ---------------------------------------------------------------------------------------


def purge_dropped(writer: Writer, snapshot: Snapshot, options: WriteOptions) -> None:
    """Complete the hard drops of the newest schema change, if it allowed data loss."""
    from omnigraph.evolution.table_rewrites import ForgetColumns
    from omnigraph.maintenance.cleanup import run_cleanup
    from omnigraph.maintenance.retention import Retention

    if not _is_due(snapshot):
        return
    root = snapshot.root
    writer.write(ForgetColumns(), WriteOptions(branch=options.branch, actor_id=options.actor_id))
    run_cleanup(root, Retention(keep=1))
    _delete_folders(root, snapshot)


def _is_due(snapshot: Snapshot) -> bool:
    from omnigraph.evolution.schema_apply import PURGES

    for commit in History().commits(snapshot.manifest):
        recorded = commit.details.get("schema")
        if isinstance(recorded, dict):
            return PURGES in recorded
    return False


def _delete_folders(root: GraphRoot, snapshot: Snapshot) -> None:
    """Delete the tables of dropped types that no snapshot shows."""
    from omnigraph.maintenance.retention import ReachabilityScan, Retention

    registrations = snapshot.state.registrations
    dropped = [registrations[identity].path for identity in snapshot.state.tombstones]
    with root.acquire_fence() as guard:
        shown = {
            path for path, _ in ReachabilityScan(root, Retention(keep=1)).mark_remaining().pins
        }
        for path in dropped:
            if path not in shown and root.store.exists(path):
                guard.check()
                root.store.delete_prefix(path)

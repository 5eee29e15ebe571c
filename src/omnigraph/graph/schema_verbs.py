"""The verbs that change the schema of a branch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.graph.engines import EngineName, require_engine
from omnigraph.graph.graph_view import as_source_text
from omnigraph.graph.open_graph import BranchVerbs
from omnigraph.graph.place_names import PlaceLike
from omnigraph.language.source import SourceText
from omnigraph.policy.actions import Action

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog
    from omnigraph.catalog.evolve import MigrationPlan
    from omnigraph.evolution.apply_result import SchemaApplyResult
    from omnigraph.evolution.column_writers import ColumnWriters


class SchemaVerbs(BranchVerbs):
    """Planning another schema for a branch, and giving it that."""

    def plan_schema(
        self,
        schema: str | Path | SourceText,
        *,
        branch: str | None = None,
        allow_data_loss: bool = False,
        expressions: Mapping[str, str] | None = None,
    ) -> MigrationPlan:
        """The steps from the accepted schema to another one; changes nothing.

        >>> wanted = graph.schema.replace("age: I32?", "age: I32?  nick: String?")
        >>> [step.describe() for step in graph.plan_schema(wanted).steps]
        ['add property Person.nick: String?']
        """
        from omnigraph.catalog.build import compile_schema
        from omnigraph.catalog.evolve import plan_migration

        self._guard.allow(Action.READ)
        desired = compile_schema(as_source_text(schema, "<schema>"))
        accepted = self._open.views.read_newest(self._choose(branch)).catalog
        return plan_migration(
            accepted, desired, allow_data_loss=allow_data_loss, expressions=expressions
        )

    def apply_schema(
        self,
        schema: str | Path | SourceText,
        *,
        branch: str | None = None,
        allow_data_loss: bool = False,
        allow_drop_all: bool = False,
        expressions: Mapping[str, str] | None = None,
        mutations: Sequence[str | Path | SourceText] = (),
        expected_head: PlaceLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        dry_run: bool = False,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
    ) -> SchemaApplyResult:
        """Give a branch another schema as one commit, or leave everything as it is.

        Rows that are there keep their ids, their history and every value the schema still has.

        Args:
            schema: The schema as it shall be.
            branch: The branch to change. Where there are others, only additions are possible.
            allow_data_loss: Remove what is dropped from older states too, for good.
            allow_drop_all: Take a schema that has none of the types that are there.
            expressions: What gives rows that are there their values of new and changed
                properties: SQL over the properties a row has, by `Type.property`.
            mutations: Query texts that change rows first, in the same commit. Their queries know
                the schema as it is now, take no parameters, and are run in order.
            expected_head: Only if the branch is at this commit.
            actor: Who the commit is recorded for.
            message: A text kept with the commit.
            dry_run: Only say what would be done, or raise what would be refused. With mutations,
                the graph must not be open for reading only: they are tried on copies.
            engine: Where values of columns are written: `local`, in this process, or `spark`.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.
            idempotency_key: Names the change: it is made once, however often it is asked for.

        >>> wanted = graph.schema.replace("age: I32?", "age: I32?  nick: String?")
        >>> done = graph.apply_schema(wanted)
        >>> [(step.describe(), done.applied) for step in done.steps]
        [('add property Person.nick: String?', True)]
        """
        from omnigraph.graph import evolving
        from omnigraph.graph.keyed_writes import WriteKey

        if mutations or not dry_run:
            self._open.require_writable()
        branch = self._choose(branch)
        self._guard.allow(Action.SCHEMA_APPLY, target_branch=branch, actor=actor)
        if mutations:
            self._guard.allow(Action.CHANGE, branch=branch, actor=actor)
        source, who = as_source_text(schema, "<schema>"), actor or self.actor
        texts = [as_source_text(text, "<mutation>") for text in mutations]
        head = self._find_commit_id(expected_head, branch)
        asked = (
            source.text,
            branch.strip(),
            allow_data_loss,
            head,
            expressions,
            [text.text for text in texts],
            *(() if message is None else (message,)),
        )
        request = evolving.SchemaRequest(
            source,
            branch,
            who,
            allow_data_loss,
            allow_drop_all,
            head,
            dry_run,
            expressions or {},
            texts,
            self._make_query_check(),
            self._guard,
            WriteKey.of(idempotency_key, "apply_schema", who, *asked),
            message,
        )
        writers = self._column_writers(engine, session, spark_conf)
        return evolving.apply_schema(self._open.writer, request, writers)

    def _make_query_check(self) -> Callable[[Catalog, Catalog], None] | None:
        """What raises if stored queries that run with one schema would not run with another."""
        if not self._registry:
            return None
        from omnigraph.stored_queries import check_schema_change

        return partial(check_schema_change, self._registry)

    def _column_writers(
        self, engine: str, session: object | None, spark_conf: Mapping[str, str] | None
    ) -> ColumnWriters | None:
        """Who writes the values of new columns; None for threads of this process."""
        if engine == "local":
            return None
        require_engine(engine)
        from omnigraph.graph.bulk_loading import open_tasks
        from omnigraph.pipeline.column_writing import TaskColumnWriters

        return TaskColumnWriters(lambda: open_tasks(engine, self.settings, session, spark_conf))

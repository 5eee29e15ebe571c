"""Run mutations as commits, and stored queries by name."""

from __future__ import annotations

import datetime
from collections.abc import Mapping
from functools import cache, partial
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequest, QueryNotFound, ReadSetChanged
from omnigraph.graph.guard import Guard
from omnigraph.graph.open_graph import GraphHandle
from omnigraph.graph.queries import QueryResult
from omnigraph.graph.reads import ReadVerbs
from omnigraph.graph.revisions import RevisionLike, format_optional_revision
from omnigraph.language.source import SourceText, as_source_text
from omnigraph.plan.compile import compile_plan
from omnigraph.plan.plan_nodes import MutationPlan
from omnigraph.policy.decision import Action
from omnigraph.settings import EmbedSettings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import normalize_branch
from omnigraph.storage.manifest import with_commit
from omnigraph.storage.prepared_write import Ticket
from omnigraph.storage.write_plan import WriterKind
from omnigraph.stored_queries import QueryRegistry, StoredQuery, describe_queries
from omnigraph.types.parameters import coerce_parameters
from omnigraph.wire.write_results import MutationResult
from omnigraph.writer.change import CatalogSnapshot, PlanContent, WriteOptions

if TYPE_CHECKING:
    from omnigraph.embedding.text_vectors import TextVectors
    from omnigraph.execution.mutate import MutationInput, MutationRun
    from omnigraph.execution.pending_rows import PendingTable, Placement
    from omnigraph.writer.driver import Writer


class MutationVerbs(GraphHandle):
    """The verb that runs a mutation on a branch."""

    def mutate(
        self,
        query: str | Path | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run a mutation of a query text as one commit.

        With `expected_head` the branch must be at that commit, else `PreconditionFailed`. The
        `message` is stored with the commit. Repeated with the same `idempotency_key`, it returns
        the first result; see `find_write`.

        >>> graph.mutate('query q() { insert Person { name: "Cy" } }').affected_nodes
        1
        """
        self._open.require_writable()
        self._guard.allow(Action.CHANGE, branch=self._choose(branch), actor=actor)
        options = self._make_write_options(branch, actor, message, expected_head, idempotency_key)
        source = as_source_text(query, "<query>")
        mutation = Mutation(source, name, params, options, self._guard)
        mutation.is_costly = self._open.embeds_writes and self._embeds(options.branch)
        return commit_mutation(self._open.writer, mutation)

    def _embeds(self, branch: str) -> bool:
        """Return whether a type of the branch has vectors that are computed when it is written."""
        types = self._open.views.read_newest(branch).catalog.nodes.values()
        return any(type_.embedded for type_ in types)


class StoredQueryVerbs(ReadVerbs, MutationVerbs):
    """The verbs that list and run stored queries."""

    def stored_queries(self) -> list[dict[str, object]]:
        """List the stored queries with their descriptions, parameters and results.

        >>> graph.stored_queries()
        []
        """
        return list_queries(self._registry, self.at().view, self._guard)

    def invoke(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        snapshot: RevisionLike | None = None,
        expect_mutation: bool | None = None,
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> QueryResult | MutationResult:
        """Run a stored query, a read or a mutation.

        Args:
            name: The query; one the actor may not run is reported as missing.
            params: The parameters.
            branch: The branch to read or change.
            snapshot: The snapshot to read instead; only for reads.
            expect_mutation: Whether a mutation, or a read, is expected; refuse the other.
            expected_head: The commit the branch must be at; only for mutations.
            actor: The actor the commit is recorded for.
            message: The message of the commit.
            idempotency_key: The key under which a mutation is made once.

        >>> graph.invoke("nothing")
        Traceback (most recent call last):
        omnigraph.errors.QueryNotFound: query 'nothing' not found
        """
        found = find_query(self._registry, name, self._guard, actor)
        check_request(
            found,
            expect_mutation,
            is_pinned=snapshot is not None,
            is_conditional=expected_head is not None,
        )
        if found.is_mutation:
            return self.mutate(
                found.source,
                name,
                params,
                branch=branch,
                expected_head=expected_head,
                actor=actor,
                message=message,
                idempotency_key=idempotency_key,
            )
        read_at = format_optional_revision(snapshot)
        return self.at(snapshot=read_at, branch=branch).query(found.source, name, params)


def commit_mutation(writer: Writer, mutation: Mutation) -> MutationResult:
    """Run one mutation as one commit; with an idempotency key, once."""
    options = mutation.options
    if options.idempotency_key is None:
        _check_text(writer, mutation)
        published = writer.write(mutation, options)
        return with_commit(mutation.describe(), published.commit if published else None)
    from omnigraph.graph.idempotency import WriteKey, write_once

    key = WriteKey.of(options, "mutate", *mutation.identity)
    _check_text(writer, mutation)
    return write_once(writer, mutation, options, key, MutationResult, mutation.describe)


def _check_text(writer: Writer, mutation: Mutation) -> None:
    """Raise the errors of the text before the head is checked."""
    if mutation.options.expected_head is not None:
        mutation.bind(writer.branches.read_newest(mutation.options.branch))


class Mutation:
    """The change that runs the statements of a mutation on the current state of a branch."""

    kind = WriterKind.MUTATION

    def __init__(
        self,
        source: SourceText,
        name: str | None,
        parameters: Mapping[str, object] | None,
        options: WriteOptions,
        guard: Guard,
    ) -> None:
        self._source, self._name, self._parameters = source, name, parameters
        self.options, self._guard = options, guard
        self.is_costly = False
        """True if it embeds texts, which takes long."""
        self._given: MutationInput | None = None
        self.done: tuple[MutationPlan, MutationRun] | None = None

    @property
    def identity(self) -> tuple[object, ...]:
        """The members that an idempotency key covers."""
        return self._source.text, self._name, self._parameters

    @property
    def name(self) -> str:
        """The name of the query; available once it is prepared."""
        assert self.done is not None, "what was written was prepared"
        return self.done[0].name

    def bind(self, view: CatalogSnapshot) -> tuple[MutationPlan, MutationInput]:
        """Return the plan for the schema of a view, and its input."""
        plan = self._plan(view)
        if self._given is None:
            # A retry must use the same time and parameters.
            self._given = self._make_input(view.snapshot.root, plan)
        return plan, self._given

    def _plan(self, view: CatalogSnapshot) -> MutationPlan:
        plan = compile_plan(self._source, view.catalog, self._name)
        if not isinstance(plan, MutationPlan):
            raise BadRequest(f"query '{plan.name}' only reads; run it with `query`")
        self._guard.check_mutation(plan, view, self.options.actor_id)
        return plan

    def _make_input(self, root: GraphRoot, plan: MutationPlan) -> MutationInput:
        from omnigraph.execution.mutate import MutationInput

        declared = [(p.name, p.type) for p in plan.parameters]
        has_any = bool(declared or self._parameters)
        parameters = coerce_parameters(declared, self._parameters) if has_any else {}
        microseconds = root.now_us() // 1_000 * 1_000
        epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
        now = epoch + datetime.timedelta(microseconds=microseconds)
        open_vectors = cache(partial(_open_vectors, root.settings.embed))
        return MutationInput(parameters, now, root.ids, open_vectors)

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> PlanContent | None:
        from omnigraph.constraints.constraint_checks import require_valid
        from omnigraph.execution.mutate import run_mutation
        from omnigraph.execution.pending_rows import CommittedRows, stage_tables

        plan, given = self.bind(view)
        committed = CommittedRows(view.snapshot)
        run = run_mutation(plan, view.catalog, committed, given)
        self.done = plan, run
        changes = run.pending.changes()
        if not changes:
            return None
        require_valid(changes, view.catalog, committed)
        to_stage = [
            (changes[key], _find_placement(run.pending.tables[key])) for key in sorted(changes)
        ]
        staged = stage_tables(view.snapshot, ticket, to_stage)
        return PlanContent(staged) if staged else None

    def describe(self) -> MutationResult:
        """Return the result of the newest preparation, without a commit."""
        assert self.done is not None, "what was written was prepared"
        plan, run = self.done
        return MutationResult(
            branch=normalize_branch(self.options.branch),
            query_name=plan.name,
            affected_nodes=run.affected_nodes,
            affected_edges=run.affected_edges,
            actor_id=self.options.actor_id,
            commit=None,
        )

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        """Return true: it depends on no earlier state, unless the caller expects a head."""
        return True


def _open_vectors(settings: EmbedSettings) -> TextVectors:
    from omnigraph.embedding.text_vectors import TextVectors

    return TextVectors(settings)


def _find_placement(table: PendingTable) -> Placement:
    from omnigraph.execution.pending_rows import Placement

    only_new = table.are_all_new and not len(table.deleted)
    return Placement.FRESH if only_new else Placement.UPSERT


# --- stored queries -------------------------------------------------------------------------------


def list_queries(
    registry: QueryRegistry, view: CatalogSnapshot, guard: Guard
) -> list[dict[str, object]]:
    """List the queries that the actor may run."""
    entries = describe_queries(registry, view.catalog)
    return [entry for name, entry in entries.items() if guard.may_invoke(name)]


def find_query(
    registry: QueryRegistry, name: str, guard: Guard, actor: str | None = None
) -> StoredQuery:
    """Return a query that the actor may run.

    Raises:
        QueryNotFound: there is none of this name, or the actor may not run it.
    """
    found = registry.find(name)
    if found is None or not guard.may_invoke(name, actor):
        raise QueryNotFound(name)
    return found


def check_request(
    query: StoredQuery,
    expect_mutation: bool | None,  # noqa: FBT001
    *,
    is_pinned: bool,
    is_conditional: bool,
) -> None:
    """Refuse options that do not apply to the kind of the query."""
    if expect_mutation is True and not query.is_mutation:
        raise BadRequest(f"stored query '{query.name}' only reads; run it with `query`")
    if expect_mutation is False and query.is_mutation:
        raise BadRequest(f"stored query '{query.name}' changes the graph; run it with `mutate`")
    if query.is_mutation and is_pinned:
        raise BadRequest(f"stored query '{query.name}' changes the graph, and a snapshot is fixed")
    if not query.is_mutation and is_conditional:
        raise BadRequest(f"stored query '{query.name}' only reads, and expects no head")

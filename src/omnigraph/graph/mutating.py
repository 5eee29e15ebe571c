"""The verbs that change rows of a branch, and mutations as changes of a graph."""

from __future__ import annotations

import datetime
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.constraints.constraint_checks import require_valid
from omnigraph.errors import BadRequest, ReadSetChanged
from omnigraph.execution.embed_on_write import WriteVectors, embeds_on_write
from omnigraph.execution.mutate import MutationInput, MutationRun, run_mutation
from omnigraph.execution.pending_rows import CommittedRows, PendingTable, Placement, stage_tables
from omnigraph.graph.engines import EngineName, LoadEngineName, ModeName
from omnigraph.graph.graph_view import as_source_text
from omnigraph.graph.guard import Guard
from omnigraph.graph.idempotency import WriteKey, write_once
from omnigraph.graph.open_graph import BranchVerbs
from omnigraph.graph.results import MutationResult
from omnigraph.graph.revisions import RevisionLike
from omnigraph.language.source import SourceText
from omnigraph.output_files import OutputFile, output_file
from omnigraph.plan.compile import compile_plan
from omnigraph.plan.nodes import MutationPlan
from omnigraph.policy.decision import Action
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import normalize_branch
from omnigraph.storage.recovery import WriterKind
from omnigraph.storage.staged import Ticket
from omnigraph.types.parameters import coerce_parameters
from omnigraph.writer.change import CatalogSnapshot, Prepared

if TYPE_CHECKING:
    from omnigraph.execution.load_input import LoadMode
    from omnigraph.graph import loading
    from omnigraph.graph.embedding_verbs import GraphEmbedSummary
    from omnigraph.graph.results import LoadResult
    from omnigraph.writer.driver import Writer


@dataclass(frozen=True, slots=True)
class MutationRequest:
    """A mutation, as a caller asks for it."""

    source: SourceText
    name: str | None
    parameters: Mapping[str, object] | None
    branch: str
    actor_id: str | None
    expected_head: str | None
    key: WriteKey | None = None
    guard: Guard = field(default_factory=Guard)
    message: str | None = None


def commit_mutation(writer: Writer, request: MutationRequest) -> MutationResult:
    """Run one mutation as one commit."""
    settings = writer.branches.root.settings.embed
    is_costly = embeds_on_write(
        settings, lambda: writer.branches.read_newest(request.branch).catalog
    )
    mutation = Mutation(request, is_costly=is_costly)
    if request.expected_head is not None:
        # A mistake in the text is reported as such, wherever the head is.
        mutation.bind(writer.branches.read_newest(request.branch))
    written = write_once(
        writer,
        mutation,
        mutation.describe,
        request.key,
        branch=request.branch,
        actor=request.actor_id,
        expected_head=request.expected_head,
        message=request.message,
    )
    answer = mutation.describe() if written.kept is None else written.kept.answer
    return MutationResult(
        branch=normalize_branch(request.branch),
        query_name=str(answer["query_name"]),
        affected_nodes=int(str(answer["affected_nodes"])),
        affected_edges=int(str(answer["affected_edges"])),
        actor_id=request.actor_id,
        commit=written.commit,
        is_replayed=written.kept is not None,
    )


class Mutation:
    """The statements of a mutation, run on whatever the branch is when they are prepared."""

    kind = WriterKind.MUTATION

    def __init__(self, request: MutationRequest, *, is_costly: bool = False) -> None:
        self._request, self.is_costly = request, is_costly
        self._given: MutationInput | None = None
        self.done: tuple[MutationPlan, MutationRun] | None = None

    @property
    def name(self) -> str:
        """What it is called, once it is prepared."""
        assert self.done is not None, "what was written was prepared"
        return self.done[0].name

    def bind(self, view: CatalogSnapshot) -> tuple[MutationPlan, MutationInput]:
        """The plan for the schema of a view, and what it is given."""
        plan = _plan(view, self._request)
        if self._given is None:
            # Taken once: a retry must not see another moment or other parameters.
            self._given = _make_input(view.snapshot.root, plan, self._request)
        return plan, self._given

    def prepare(self, view: CatalogSnapshot, ticket: Ticket) -> Prepared | None:
        plan, given = self.bind(view)
        committed = CommittedRows(view.snapshot)
        run = run_mutation(plan, view.catalog, committed, given)
        self.done = plan, run
        changes = run.pending.changes()
        if not changes:
            return None
        require_valid(changes, view.catalog, committed)
        placed = [
            (changes[key], _find_placement(run.pending.tables[key])) for key in sorted(changes)
        ]
        staged = stage_tables(view.snapshot, ticket, placed)
        return Prepared(staged) if staged else None

    def describe(self) -> Mapping[str, object]:
        """What it did, once it is prepared."""
        assert self.done is not None, "what was written was prepared"
        plan, run = self.done
        return {
            "query_name": plan.name,
            "affected_nodes": run.affected_nodes,
            "affected_edges": run.affected_edges,
        }

    def may_retry(self, cause: ReadSetChanged) -> bool:  # noqa: ARG002 - whatever moved
        """Always: run on what is there now, it does what it would have done a moment later.

        It carries nothing over from the state it was first run on. Who decided by an earlier read
        says so with an expected head.
        """
        return True


def _plan(view: CatalogSnapshot, request: MutationRequest) -> MutationPlan:
    plan = compile_plan(request.source, view.catalog, request.name)
    if not isinstance(plan, MutationPlan):
        raise BadRequest(f"query '{plan.name}' only reads; run it with `query`")
    request.guard.check_mutation(plan, view, request.actor_id)
    return plan


def _make_input(root: GraphRoot, plan: MutationPlan, request: MutationRequest) -> MutationInput:
    declared = [(p.name, p.type) for p in plan.parameters]
    parameters = coerce_parameters(declared, request.parameters)
    microseconds = root.now_us() // 1_000 * 1_000
    epoch = datetime.datetime(1970, 1, 1, tzinfo=datetime.UTC)
    now = epoch + datetime.timedelta(microseconds=microseconds)
    return MutationInput(parameters, now, root.ids, WriteVectors(root.settings.embed))


def _find_placement(table: PendingTable) -> Placement:
    only_new = table.are_all_new and not len(table.deleted)
    return Placement.FRESH if only_new else Placement.UPSERT


class WritingVerbs(BranchVerbs):
    """Changing the rows of a branch."""

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
        `message` is kept with the commit. With an `idempotency_key` it is made once, however often
        it is asked for; see `find_write`.

        >>> graph.mutate('query q() { insert Person { name: "Cy" } }').affected_nodes
        1
        """
        from omnigraph.graph import mutating
        from omnigraph.graph.idempotency import WriteKey

        self._open.require_writable()
        source, who, where = (
            as_source_text(query, "<query>"),
            actor or self.actor,
            self._choose(branch),
        )
        head = self._find_commit_id(expected_head, where)
        asked = (source.text, name, params, where.strip(), head, *_list_given(message))
        key = WriteKey.of(idempotency_key, "mutate", who, *asked)
        self._guard.allow(Action.CHANGE, branch=where, actor=actor)
        request = mutating.MutationRequest(
            source, name, params, where, who, head, key, self._guard, message
        )
        return mutating.commit_mutation(self._open.writer, request)

    def load(
        self,
        records: loading.Input,
        mode: LoadMode | ModeName,
        *,
        branch: str | None = None,
        base: str | None = None,
        expected_head: RevisionLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        engine: LoadEngineName | None = None,
        format: str | None = None,
        type: str | None = None,
        columns: Mapping[str, str] | None = None,
        select: Sequence[str] = (),
        match: Sequence[str] = (),
        partial: bool = False,
        on_error: str = "fail",
        rejects: str | Path | OutputFile | None = None,
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        idempotency_key: str | None = None,
        delimiter: str | None = None,
    ) -> LoadResult:
        """Load rows as one commit or not at all.

        Args:
            records: A file of JSON lines, its bytes, or records; with the pipeline also several
                files, folders and patterns, Parquet and CSV, an Arrow table, a Spark data frame,
                or a frame of pandas, Polars or any other library that hands out Arrow data.
            mode: `append`, `merge` or `overwrite`.
            branch: The branch to load into.
            base: Create the branch from this one first, if it does not exist.
            expected_head: Only if the branch is at this commit.
            actor: Who the commit is recorded for.
            message: A text kept with the commit.
            engine: `local`, in this process, `spark`, or `auto`, by the amount of input and whether
                Spark is up. The result says which, and why. By default as the settings say.
            format: `jsonl`, `parquet`, `csv` or `tsv`; by the names of the files otherwise.
            type: The type of the rows of a table, or of plain dictionaries; records name their
                types themselves.
            columns: Which column of a table holds which property, by its name; also for `id`,
                `from` and `to`. The others hold the property of their own name.
            select: The columns of a table to read; by default all, and then all must be known.
            match: The columns by which a merge finds edges that have no ids, such as
                `["from", "to"]`. By default those of an `@unique` with both ends; without one,
                such edges are new ones.
            partial: A merge keeps what a record leaves out.
            on_error: `fail` rejects the load on bad rows, `skip` skips them.
            rejects: A file for the rejected records; one that appears while the load runs is not
                replaced.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.
            idempotency_key: Names the load: it is made once, however often it is asked for.
            delimiter: What separates the columns of a text file; a comma, or a tab in `.tsv`.

        >>> done = graph.load(
        ...     [
        ...         {"type": "Person", "data": {"name": "Cy", "age": 41}},
        ...         {"edge": "Knows", "from": "Cy", "to": "Ada"},
        ...     ],
        ...     "append",
        ... )
        >>> done.nodes, done.edges, done.commit.actor_id
        ({'Person': 1}, {'Knows': 1}, 'maria')
        """
        from omnigraph.execution.load_input import LoadOptions
        from omnigraph.graph import loading

        branch = self._choose(branch)
        self._allow_load(branch, base, actor)
        options = LoadOptions(
            mode=_parse_mode(mode),
            format=format,
            type=type,
            columns=columns or {},
            select=tuple(select),
            match=tuple(match),
            partial=partial,
            on_error=on_error,
            rejects=None if rejects is None else output_file(rejects),
            delimiter=delimiter,
        )
        views, schema_of = self._open.views, base or branch
        given, options = loading.as_input(
            records, options, lambda: views.read_newest(schema_of).catalog
        )
        request = loading.GraphLoadRequest(
            options=options,
            branch=branch,
            base=base,
            actor_id=actor or self.actor,
            message=message,
            expected_head=self._find_commit_id(expected_head, schema_of),
        )
        runs_on = loading.EngineOptions(engine=engine, session=session, spark_conf=spark_conf or {})
        return _load_input(self._open.writer, given, request, runs_on, idempotency_key)

    def _allow_load(self, branch: str, base: str | None, actor: str | None) -> None:
        from omnigraph.graph import loading

        self._open.require_writable()
        if base is not None and not loading.has_branch(self._open.views.root, branch):
            self._guard.allow(Action.BRANCH_CREATE, branch=base, target_branch=branch, actor=actor)
        self._guard.allow(Action.CHANGE, branch=branch, actor=actor)

    def embed(
        self,
        types: Sequence[str] = (),
        *,
        spec: str | Path | Mapping[str, object] | None = None,
        branch: str | None = None,
        reembed_all: bool = False,
        per_minute: float | None = None,
        actor: str | None = None,
        message: str | None = None,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> GraphEmbedSummary:
        """Fill the vectors that are NULL, as one commit.

        Writes make vectors themselves where a provider is configured; this is for those that were
        written without one, or before.

        Args:
            types: Only these; by default every type whose schema or spec says what its vectors
                are made of.
            spec: Which properties make which vector, instead of what `@embed` says.
            branch: The branch to work on.
            reembed_all: Replace all vectors, not only those that are NULL.
            per_minute: The maximum number of texts to send to the provider per minute.
            actor: Who the commit is recorded for.
            message: A text kept with the commit.
            engine: `local`, in this process, or `spark`.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.

        >>> settings = omnigraph.Settings.from_environment({"OMNIGRAPH_EMBED_PROVIDER": "mock"})
        >>> schema = 'node Note { slug: String @key  text: String  v: Vector(3)? @embed("text") }'
        >>> notes = omnigraph.init("notes.omni", schema, settings=settings)
        >>> _ = notes.load([{"type": "Note", "data": {"slug": "a", "text": "tides"}}], "append")
        >>> notes.embed().embedded, notes.embed(reembed_all=True).embedded
        (0, 1)
        """
        self._open.require_writable()
        branch = self._choose(branch)
        self._guard.allow(Action.CHANGE, branch=branch, actor=actor)
        from omnigraph.graph import embedding_verbs

        request = embedding_verbs.GraphEmbedRequest(
            branch=branch,
            types=tuple(types),
            spec=embedding_verbs.parse_embed_spec(spec),
            reembed_all=reembed_all,
            per_minute=per_minute,
            actor=actor or self.actor,
            message=message,
            engine=engine,
            session=session,  # type: ignore[arg-type]
            spark_conf=spark_conf or {},
        )
        return embedding_verbs.embed_graph(self._open.writer, request)


def _list_asked(request: loading.GraphLoadRequest) -> tuple[object, ...]:
    """All that makes two loads of the same input different, beside who asks."""
    options = request.options
    how = (str(options.mode), options.format, options.partial, options.on_error)
    what: tuple[object, ...] = (options.type, dict(options.columns), options.select)
    if options.delimiter is not None:  # so that loads are known by what they were before
        what = (*what, options.delimiter)
    if options.match:
        what = (*what, options.match)
    where = (request.branch.strip(), request.base, request.expected_head)
    return (*how, *what, *where, *_list_given(request.message))


def _list_given(message: str | None) -> tuple[str, ...]:
    """A message among what is asked; without one, requests are those of earlier releases."""
    return () if message is None else (message,)


def _parse_mode(mode: LoadMode | str) -> LoadMode:
    from omnigraph.execution.load_input import LoadMode

    try:
        return LoadMode(mode)
    except ValueError as error:
        raise BadRequest(f"mode '{mode}' is not one of {', '.join(LoadMode)}") from error


def _load_input(
    writer: Writer,
    given: Any,  # noqa: ANN401 - what `as_input` gives
    request: loading.GraphLoadRequest,
    runs_on: loading.EngineOptions,
    idempotency_key: str | None,
) -> LoadResult:
    """Load in one piece what is small, and the rest through the pipeline."""
    from omnigraph.graph import loading
    from omnigraph.graph.bulk_loading import choose_engine

    chosen = choose_engine(given, runs_on, writer.branches.root)
    uses_pipeline = loading.needs_pipeline(given, chosen.engine, request.options)
    if not uses_pipeline:
        data, file = loading.read_records(given)
        request = replace(request, data=data, file=file)
    if idempotency_key is not None:
        from omnigraph.graph.bulk_loading import identify_input
        from omnigraph.graph.idempotency import WriteKey

        aws = writer.branches.root.settings.aws
        asked = (
            *_list_asked(request),
            identify_input(given, aws) if uses_pipeline else request.data,
        )
        key = WriteKey.of(idempotency_key, "load", request.actor_id, *asked)
        request = replace(request, key=key)
    if not uses_pipeline:
        return replace(loading.load(writer, request), engine_reason=chosen.reason)
    from omnigraph.graph import bulk_loading

    runs_there = replace(runs_on, engine=chosen.engine)
    result = bulk_loading.bulk_load(writer, given, request, runs_there)
    return replace(result, engine_reason=chosen.reason)

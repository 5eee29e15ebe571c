"""Graph: one object, read as a table of contents; long because every verb is on this one page."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Literal, Self, overload

from omnigraph.catalog.build import compile_schema
from omnigraph.catalog.evolve import MigrationPlan, plan_migration
from omnigraph.catalog.model import Catalog
from omnigraph.errors import (
    BadRequest,
    CommitNotFound,
    MergeConflict,
    MergeConflicts,
    PolicyDenied,
    StorageFailure,
    StorageKind,
)
from omnigraph.execution.embed.model import query_embedder
from omnigraph.execution.embed.open import LazyEmbedder
from omnigraph.execution.load import LoadMode
from omnigraph.execution.load_options import LoadOptions
from omnigraph.execution.read.topology import Topology
from omnigraph.execution.search.memory import SearchMemory
from omnigraph.graph import (
    blobs,
    changing,
    invoking,
    loading,
    merging,
    mutating,
    opening,
    places,
    recovering,
)
from omnigraph.graph.branch import Branch as Branch
from omnigraph.graph.changing import RecentKeys, change_filter
from omnigraph.graph.engines import require_engine
from omnigraph.graph.guard import Guard
from omnigraph.graph.merging import MergeResult
from omnigraph.graph.pinned import GraphView as GraphView
from omnigraph.graph.pinned import source_text
from omnigraph.graph.query_result import QueryResult
from omnigraph.graph.querying import QuerySettings
from omnigraph.graph.results import (
    DeletedBranch,
    LoadResult,
    MutationResult,
    PendingWrite,
    RecoveredWrite,
    SnapshotInfo,
    types_html,
)
from omnigraph.graph.type_rows import TypeRows
from omnigraph.graph.view import View, Views
from omnigraph.history.baseline import Baseline
from omnigraph.history.diff import Diff
from omnigraph.history.entity_history import EntityHistory
from omnigraph.history.feed import CommitChanges, FeedPage, PageLimits
from omnigraph.identity import MAIN
from omnigraph.language.source import SourceText
from omnigraph.maintenance.autopilot import Autopilot, MaintainResult, take_turn
from omnigraph.maintenance.cleanup import cleanup, preview
from omnigraph.maintenance.model import (
    CleanupResult,
    OptimizeResult,
    PendingIndex,
    RepairResult,
    VerifyResult,
)
from omnigraph.maintenance.optimize import OptimizeOptions, optimize
from omnigraph.maintenance.quarantine import quarantine as set_aside
from omnigraph.maintenance.repair import repair
from omnigraph.maintenance.retention import Retention
from omnigraph.maintenance.verify import verify
from omnigraph.plan.lint import LintReport
from omnigraph.policy.actions import Action
from omnigraph.policy.bundle import Authority
from omnigraph.settings import Settings
from omnigraph.storage import branches as graph_branches
from omnigraph.storage.clone.copy import CloneResult
from omnigraph.storage.clone.copy import clone as copy_graph
from omnigraph.storage.consumers import Consumer, delete_consumer, list_consumers
from omnigraph.storage.manifest.commits import Commit, RecoveryAudit
from omnigraph.storage.names import normalize_branch
from omnigraph.storage.refs import BranchRef, list_names
from omnigraph.storage.root import GraphRoot
from omnigraph.storage.tags import Tag, create_tag, delete_tag, list_tags
from omnigraph.stored_queries.registry import QueryRegistry
from omnigraph.writer.driver import Writer

if TYPE_CHECKING:
    from omnigraph.graph.graph_embedding import GraphEmbedSummary
    from omnigraph.maintenance.workers import Workers


def init(
    uri: str | Path,
    schema: str | SourceText,
    *,
    force: bool = False,
    actor: str | None = None,
    settings: Settings | None = None,
) -> Graph:
    """Create a graph at a path or address, with a schema given as text, and open it.

    Args:
        uri: A path, a `file://` or an `s3://` address.
        schema: The schema, in the schema language.
        force: Replace schema files an earlier, failed attempt left there.
        actor: Who the commits of this handle are recorded for.
        settings: Instead of the defaults; see `Settings.from_environment`.

    >>> omnigraph.init("music.omni", "node Artist { slug: String @key }").branches()
    ['main']
    """
    root = GraphRoot.at(str(uri), settings)
    opening.create_graph(root, source_text(schema, "<schema>"), force=force)
    return Graph(root, actor=actor)


def open(
    uri: str | Path,
    *,
    read_only: bool = False,
    actor: str | None = None,
    policy: Authority | None = None,
    settings: Settings | None = None,
) -> Graph:
    """Open a graph. Read-only opening writes nothing, whatever state the graph is in.

    With a `policy` every verb of the handle is allowed to its `actor`, or `PolicyDenied`.

    >>> omnigraph.open("people.omni", read_only=True).branches()
    ['main']
    """
    root = GraphRoot.at(str(uri), settings)
    try:
        return Graph(root, read_only=read_only, actor=actor, policy=policy)
    except StorageFailure as failure:
        if failure.kind is StorageKind.NOT_FOUND:
            opening.require_graph(root)
        raise


def clone(
    source: str | Path,
    target: str | Path,
    *,
    branches: Sequence[str] = (),
    shallow: bool = False,
    force: bool = False,
    settings: Settings | None = None,
) -> CloneResult:
    """Copy a graph to another path or address, while it may be written.

    Each branch is copied as it is after some commit. The source is not changed. Until the clone is
    finished nothing can be opened there.

    Args:
        source: The graph to copy.
        target: Where its copy shall be; there must be no graph.
        branches: The branches to copy, besides `main` and those they were made from; all of them
            by default.
        shallow: Leave out older states: the history is listed and can no longer be read.
        force: Start over a clone to the same place that was interrupted.
        settings: Instead of the defaults; they hold for both sides.

    >>> omnigraph.clone("people.omni", "backup.omni").branches
    ('main',)
    """
    names = tuple(normalize_branch(name) for name in branches)
    origin = GraphRoot.at(str(source), settings)
    opening.require_whole(origin)
    opening.require_graph(origin)
    return copy_graph(
        origin, GraphRoot.at(str(target), settings), names, shallow=shallow, force=force
    )


def quarantine(uri: str | Path, operation_id: str, *, settings: Settings | None = None) -> str:
    """Set aside the intent of an interrupted write that cannot be read; gives where it is kept.

    A graph with such an intent cannot be opened for writing. It is moved only if every table is
    where the graph shows it, so that nothing is lost.

    >>> omnigraph.quarantine("people.omni", "01J9Z3N8Q4X7Y2K5M6P0R1S3T8")
    Traceback (most recent call last):
    omnigraph.errors.NotFoundError: there is no pending write 01J9Z3N8Q4X7Y2K5M6P0R1S3T8
    """
    root = GraphRoot.at(str(uri), settings)
    opening.require_graph(root)
    return set_aside(root, operation_id)


class Graph:
    """A graph, open on its `main` branch; every verb takes another branch by name.

    Safe to share between threads. Writers in other processes are kept apart by the graph's
    writer fence; readers never wait.

    >>> with omnigraph.open("people.omni", actor="ben") as people:
    ...     done = people.mutate('query q() { insert Person { name: "Cy" } }')
    >>> done.commit.actor_id
    'ben'
    """

    def __init__(
        self,
        root: GraphRoot,
        *,
        read_only: bool = False,
        actor: str | None = None,
        policy: Authority | None = None,
    ) -> None:
        opening.require_whole(root)
        self._views = Views(root)
        self.read_only, self.actor = read_only, actor
        settings = root.settings
        embedder = LazyEmbedder(settings.embed)
        self._settings = QuerySettings(
            Topology(search=SearchMemory(settings.text_cache_bytes, settings.vector_cache_bytes)),
            query_embedder(embedder),
            settings.traversal,
        )
        self._keys = RecentKeys()
        self._autopilot = Autopilot(self._views, settings.autopilot)
        self._writer = Writer(self._views, self._autopilot.wrote)
        self.recovered_on_open: list[RecoveredWrite] = []
        opened = self._views.newest(MAIN)
        self._guard = Guard.make(policy, actor, opened.catalog)
        self._registry = QueryRegistry()
        if not read_only:
            settled = opening.make_ready(root, opened.snapshot.contract)
            self.recovered_on_open = [recovering.describe_settled(one) for one in settled]

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.close()

    def close(self) -> None:
        """Wait for maintenance that runs in the background; nothing else stays open."""
        self._autopilot.wait()

    def __repr__(self) -> str:
        return f"Graph({self.uri!r})"

    def __reduce__(self) -> tuple[object, ...]:
        """Another process opens the graph for itself, with the same settings."""
        given = (self.uri, self.read_only, self.actor, self.policy, self._registry, self.settings)
        return _reopened, given

    def _repr_html_(self) -> str:
        """For notebooks: the branches, and the types with how many rows each has on `main`."""
        note = f"{self.uri}; branches: {', '.join(self.branches())}"
        return types_html(self.snapshot(), note)

    @property
    def uri(self) -> str:
        return self._views.root.uri

    @property
    def settings(self) -> Settings:
        """What this handle was opened with."""
        return self._views.root.settings

    # --- policy ----------------------------------------------------------------------------------

    @property
    def policy(self) -> Authority | None:
        """What decides who may do what with this handle; None if nothing does."""
        return self._guard.authority

    def as_actor(self, actor: str | None, *, policy: Authority | None = None) -> Graph:
        """The same graph for another actor, under the same policy or another one.

        Costs next to nothing: what is kept warm is shared.

        >>> graph.as_actor("ben").create_branch("review").actor_id
        'ben'
        """
        other = self._share()
        other.actor = actor
        if policy is None or policy is self.policy:
            other._guard = self._guard.with_actor(actor)
        else:
            other._guard = Guard.make(policy, actor, self._views.newest(MAIN).catalog)
        return other

    def _share(self) -> Graph:
        """Another handle that shares what is kept warm; a copy would be a graph opened again."""
        other = Graph.__new__(Graph)
        other.__dict__.update(self.__dict__)
        return other

    def _seen(self, branch: str, action: Action = Action.READ) -> Views:
        """The views of the graph as the actor may read them on behalf of a branch."""
        self._guard.allow(action, branch=branch)
        if self.policy is None:
            return self._views
        return self._views.seen_through(partial(self._guard.see, action=action, branch=branch))

    def _require_visible(self, types: Sequence[str], branch: str, action: Action) -> None:
        """Raise if types are named that are hidden from the actor."""
        if self.policy is not None and types:
            self._guard.require_visible(self._views.newest(branch), types, action)

    # --- schema ----------------------------------------------------------------------------------

    @property
    def schema(self) -> str:
        """The accepted schema, as it was written.

        >>> graph.schema.splitlines()[-1]
        'edge Knows: Person -> Person'
        """
        self._guard.allow(Action.READ)
        return self._views.newest(MAIN).snapshot.contract.source

    @property
    def catalog(self) -> Catalog:
        """The accepted schema, compiled.

        >>> [property.name for property in graph.catalog.nodes["Person"].properties]
        ['age', 'name', 'photo']
        """
        return self._seen(MAIN).newest(MAIN).catalog

    def plan_schema(
        self, schema: str | SourceText, *, allow_data_loss: bool = False
    ) -> MigrationPlan:
        """The steps from the accepted schema to another one; changes nothing.

        >>> wanted = graph.schema.replace("age: I32?", "age: I32?  nick: String?")
        >>> [step.describe() for step in graph.plan_schema(wanted).steps]
        ['add property Person.nick: String?']
        """
        self._guard.allow(Action.READ)
        desired = compile_schema(source_text(schema, "<schema>"))
        accepted = self._views.newest(MAIN).catalog
        return plan_migration(accepted, desired, allow_data_loss=allow_data_loss)

    # --- reading ---------------------------------------------------------------------------------

    def query(
        self,
        query: str | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        engine: str = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> QueryResult:
        """Run a read query of a text on a branch as it is now.

        `engine="spark"` runs it with data frames, in the session given or the usual one; its
        result has `to_spark()` too.

        >>> older = "query q($a: I32) { match { $p: Person  $p.age > $a } return { $p.name } }"
        >>> graph.query(older, params={"a": 30}).rows
        [{'p.name': 'Ada'}]
        """
        view = self.at(branch=branch)
        return view.query(
            query, name, params, engine=engine, session=session, spark_conf=spark_conf
        )

    def explain(
        self,
        query: str | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        analyze: bool = False,
    ) -> str:
        """The plan of a query; with `analyze` also what every operator did and took.

        >>> print(graph.explain("query q() { match { $p: Person } return { $p.name } }"))
        query q()
        Project  columns: $p.name
        └─ Sort  by: ids of p
           └─ Scan  $p: Person  read: name
        """
        return self.at(branch=branch).explain(query, name, params, analyze=analyze)

    def lint(self, queries: str | SourceText, *, branch: str = MAIN) -> LintReport:
        """Every query of a text checked against the schema of a branch, without running any.

        >>> graph.lint("query q() { match { $p: Persn } return { $p.name } }").status
        'error'
        """
        return self.at(branch=branch).lint(queries)

    def read_blob(
        self,
        type_name: str,
        entity_id: str,
        property: str,
        *,
        kind: str | None = None,
        branch: str = MAIN,
        start: int | None = None,
        length: int | None = None,
    ) -> blobs.Blob:
        """The blob of one entity as a branch is now, or a range of it.

        Nothing is read before its bytes are asked for: `blob.stat` costs no payload. `kind` is
        "node" or "edge", for a name that both have.

        >>> graph.read_blob("Person", "Ada", "photo").read()
        b'pixels'
        """
        return self.at(branch=branch).read_blob(
            type_name, entity_id, property, kind=kind, start=start, length=length
        )

    # --- stored queries --------------------------------------------------------------------------

    def with_queries(self, registry: QueryRegistry) -> Graph:
        """The same graph with stored queries, which are run by name.

        >>> from omnigraph.language.source import SourceText
        >>> from omnigraph.stored_queries import parse_registry
        >>> text = SourceText("query all() { match { $p: Person } return { $p.name } }")
        >>> graph.with_queries(parse_registry([text])).invoke("all").rows
        [{'p.name': 'Ada'}, {'p.name': 'Ben'}]
        """
        other = self._share()
        other._registry = registry
        return other

    def stored_queries(self) -> list[dict[str, object]]:
        """What can be run by name: what each query does, takes and gives.

        >>> graph.stored_queries()
        []
        """
        return invoking.list_queries(self._registry, self._seen(MAIN).newest(MAIN), self._guard)

    def invoke(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        snapshot: str | None = None,
        expect_mutation: bool | None = None,
        expected_head: str | None = None,
        actor: str | None = None,
    ) -> QueryResult | MutationResult:
        """Run a stored query, a read or a mutation.

        Args:
            name: Of the query; one that the actor may not run is as one that does not exist.
            params: Its parameters.
            branch: The branch to read or change.
            snapshot: Read there instead; only for reads.
            expect_mutation: Refuse to run a read, or a mutation, where the other is expected.
            expected_head: A mutation only runs if the branch is at this commit.
            actor: Who a commit is recorded for.

        >>> graph.invoke("nothing")
        Traceback (most recent call last):
        omnigraph.errors.QueryNotFound: query 'nothing' not found
        """
        found = invoking.find_query(self._registry, name, self._guard, actor)
        invoking.check_request(found, expect_mutation, snapshot, expected_head)
        if found.is_mutation:
            return self.mutate(
                found.source,
                name,
                params,
                branch=branch,
                expected_head=expected_head,
                actor=actor,
            )
        return self.at(snapshot=snapshot, branch=branch).query(found.source, name, params)

    # --- writing ---------------------------------------------------------------------------------

    def mutate(
        self,
        query: str | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        expected_head: str | None = None,
        actor: str | None = None,
    ) -> MutationResult:
        """Run a mutation of a query text as one commit.

        With `expected_head` the branch must be at that commit, else `PreconditionFailed`.

        >>> graph.mutate('query q() { insert Person { name: "Cy" } }').affected_nodes
        1
        """
        self._require_writable()
        self._guard.allow(Action.CHANGE, branch=branch, actor=actor)
        request = mutating.MutationRequest(
            source_text(query, "<query>"),
            name,
            params,
            branch,
            actor or self.actor,
            expected_head,
            self._guard,
        )
        return mutating.mutate(self._writer, request)

    def load(
        self,
        records: loading.Input,
        mode: LoadMode | str,
        *,
        branch: str = MAIN,
        base: str | None = None,
        expected_head: str | None = None,
        actor: str | None = None,
        engine: str = "local",
        format: str | None = None,
        type: str | None = None,
        columns: Mapping[str, str] | None = None,
        partial: bool = False,
        on_error: str = "fail",
        rejects: str | Path | None = None,
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
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
            engine: `local`, in this process, or `spark`.
            format: `jsonl`, `parquet` or `csv`; by the names of the files otherwise.
            type: Of which type the rows of a table are; records say it themselves.
            columns: Which column of a table holds which property, by its name; also for `id`,
                `from` and `to`.
            partial: A merge keeps what a record leaves out.
            on_error: `fail` refuses bad rows, `skip` goes on without them.
            rejects: A file for the records that were refused.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.

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
        self._require_writable()
        if base is not None and normalize_branch(branch) not in list_names(self._views.root.store):
            self._guard.allow(Action.BRANCH_CREATE, branch=base, target_branch=branch, actor=actor)
        self._guard.allow(Action.CHANGE, branch=branch, actor=actor)
        given = loading.as_input(records)
        options = LoadOptions(
            mode=_mode(mode),
            format=format,
            type=type,
            columns=columns or {},
            partial=partial,
            on_error=on_error,
            rejects=rejects,
        )
        request = loading.LoadRequest(
            options=options,
            branch=branch,
            base=base,
            actor_id=actor or self.actor,
            expected_head=expected_head,
        )
        if loading.needs_pipeline(given, engine, options):
            from omnigraph.graph import bulk_loading  # noqa: PLC0415 - loads the whole pipeline

            runs_on = loading.RunsOn(engine=engine, session=session, spark_conf=spark_conf or {})
            return bulk_loading.bulk_load(self._writer, given, request, runs_on)
        data, file = loading.read_records(given)
        return loading.load(self._writer, replace(request, data=data, file=file))

    def embed(
        self,
        types: Sequence[str] = (),
        *,
        spec: str | Path | Mapping[str, object] | None = None,
        branch: str = MAIN,
        reembed_all: bool = False,
        per_minute: float | None = None,
        actor: str | None = None,
        engine: str = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> GraphEmbedSummary:
        """Fill the vectors that are NULL, as one commit.

        Args:
            types: Only these; by default every type whose schema or spec says what its vectors
                are made of.
            spec: Which properties make which vector, instead of what `@embed` says.
            branch: The branch to work on.
            reembed_all: Make all vectors anew, not only those that are NULL.
            per_minute: Ask the provider for at most so many texts.
            actor: Who the commit is recorded for.
            engine: `local`, in this process, or `spark`.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.

        >>> settings = omnigraph.Settings.from_environment({"OMNIGRAPH_EMBED_PROVIDER": "mock"})
        >>> schema = 'node Note { slug: String @key  text: String  v: Vector(3)? @embed("text") }'
        >>> notes = omnigraph.init("notes.omni", schema, settings=settings)
        >>> _ = notes.load([{"type": "Note", "data": {"slug": "a", "text": "tides"}}], "append")
        >>> notes.embed().embedded
        1
        """
        self._require_writable()
        self._guard.allow(Action.CHANGE, branch=branch, actor=actor)
        from omnigraph.graph import graph_embedding  # noqa: PLC0415 - loads the whole pipeline

        request = graph_embedding.GraphEmbedRequest(
            branch=branch,
            types=tuple(types),
            spec=graph_embedding.spec_of(spec),
            reembed_all=reembed_all,
            per_minute=per_minute,
            actor=actor or self.actor,
            engine=engine,
            session=session,  # type: ignore[arg-type]
            spark_conf=spark_conf or {},
        )
        return graph_embedding.embed_graph(self._writer, request)

    # --- branches --------------------------------------------------------------------------------

    def branches(self) -> list[str]:
        """The names of all branches, `main` first.

        >>> _ = graph.create_branch("review")
        >>> graph.branches()
        ['main', 'review']
        """
        self._guard.allow(Action.READ)
        return [str(name) for name in list_names(self._views.root.store)]

    def create_branch(
        self,
        name: str,
        *,
        source: str = MAIN,
        commit: str | None = None,
        actor: str | None = None,
    ) -> BranchRef:
        """Create a branch from another one, or from a commit. Copies nothing.

        >>> review = graph.create_branch("review")
        >>> review.name, review.parent, review.actor_id
        ('review', 'main', 'maria')
        """
        self._require_writable()
        self._guard.allow(Action.BRANCH_CREATE, branch=source, target_branch=name, actor=actor)
        creator = actor or self.actor
        if commit is not None:
            view = self._views.at_commit(commit, source)
            return graph_branches.create(view.snapshot, name, creator)
        return self._views.with_newest(
            source, lambda view: graph_branches.create(view.snapshot, name, creator)
        )

    def delete_branch(self, name: str) -> DeletedBranch:
        """Delete a branch; its commits can no longer be reached by name.

        >>> _ = graph.create_branch("review")
        >>> graph.delete_branch("review").name
        'review'
        """
        self._require_writable()
        self._guard.allow(Action.BRANCH_DELETE, target_branch=name)
        graph_branches.delete(self._views.root, name)
        return DeletedBranch(name.strip(), self.actor)

    def rename_branch(self, name: str, new_name: str) -> BranchRef:
        """Give a branch another name; it stays the same branch, with its commits and its feed.

        >>> _ = graph.create_branch("review")
        >>> graph.rename_branch("review", "accepted").name
        'accepted'
        >>> graph.branches()
        ['main', 'accepted']
        """
        self._require_writable()
        self._guard.allow(Action.BRANCH_DELETE, target_branch=name)
        self._guard.allow(Action.BRANCH_CREATE, branch=name, target_branch=new_name)
        return graph_branches.rename(self._views.root, name, new_name)

    def merge(
        self,
        source: str,
        into: str = MAIN,
        *,
        dry_run: bool = False,
        resolve: str | Mapping[str, str] | Sequence[str] | None = None,
        decisions: str | Path | Sequence[Mapping[str, object]] = (),
        delete_branch: bool = False,
        expected_head: str | None = None,
        actor: str | None = None,
        message: str | None = None,
    ) -> MergeResult:
        """Bring what a branch has into another one, as one commit or not at all.

        Args:
            source: The branch to take from; it stays as it is.
            into: The branch to change.
            dry_run: Say what would be done and what conflicts; nothing is written.
            resolve: What decides conflicts: `ours`, `theirs` or `newest` for everything or as
                `Type=rule`, and `Type.property=rule` with `max`, `min`, `sum`, `union` or `append`.
            decisions: What was decided about single conflicts, as a dry run lists them with a
                `take` of `source`, `target`, `base` or property values; or a file of that.
            delete_branch: Delete the source afterwards; if that is refused, the result says so.
            expected_head: Only if `into` is at this commit.
            actor: Who the commit is recorded for.
            message: Kept with the commit.

        Raises:
            MergeConflicts: the branches contradict each other and nothing decides.

        >>> _ = graph.create_branch("review")
        >>> _ = graph.branch("review").mutate('query q() { insert Person { name: "Cy" } }')
        >>> str(graph.merge("review").outcome), len(graph.nodes("Person"))
        ('fast_forward', 3)
        """
        if not dry_run:
            self._require_writable()
        self._guard.allow(Action.BRANCH_MERGE, branch=source, target_branch=into, actor=actor)
        if delete_branch:
            self._guard.allow(Action.BRANCH_DELETE, target_branch=source, actor=actor)
        given = merging.decisions_in(decisions) if isinstance(decisions, str | Path) else decisions
        request = merging.MergeRequest(
            source=source,
            target=into,
            resolve=resolve,
            decisions=given,
            actor=actor or self.actor,
            expected_head=expected_head,
            dry_run=dry_run,
            delete_branch=delete_branch,
            message=message,
        )
        try:
            result = merging.merge(self._views, self._writer, request)
        except MergeConflicts as found:
            shown = self._hide_conflicts(found.conflicts, into, actor)
            raise MergeConflicts(found.source, found.target, shown) from None
        return replace(result, conflicts=self._hide_conflicts(result.conflicts, into, actor))

    def _hide_conflicts(
        self, conflicts: tuple[MergeConflict, ...], branch: str, actor: str | None
    ) -> tuple[MergeConflict, ...]:
        if self.policy is None or not conflicts:
            return conflicts
        return self._guard.hide_conflicts(conflicts, self._views.newest(branch), actor)

    def branch(self, name: str) -> Branch:
        """The same verbs, bound to one branch.

        >>> _ = graph.create_branch("review")
        >>> _ = graph.branch("review").mutate('query q() { delete Person where name = "Ben" }')
        >>> len(graph.nodes("Person")), len(graph.nodes("Person", branch="review"))
        (2, 1)
        """
        return Branch(self, name)

    # --- history ---------------------------------------------------------------------------------

    def commits(self, branch: str = MAIN) -> tuple[Commit, ...]:
        """Every commit a branch can see, newest first.

        >>> [commit.actor_id for commit in graph.commits()]
        ['maria', None]
        """
        self._guard.allow(Action.READ, branch=branch)
        return self._views.commits(branch)

    def commit(self, commit_id: str, branch: str = MAIN) -> Commit:
        """One commit, looked for on the branch and then on all others.

        >>> newest = graph.commits()[0]
        >>> graph.commit(newest.commit_id) == newest
        True
        """
        self._guard.allow(Action.READ)
        return self._views.commit(commit_id, branch)

    def snapshot(self, branch: str = MAIN) -> SnapshotInfo:
        """Which version of which table makes up a branch now.

        >>> {table.table_key: table.row_count for table in graph.snapshot().tables}
        {'edge:Knows': 1, 'node:Person': 2}
        """
        return self._pinned(self._views.newest(branch)).info()

    def at(
        self,
        place: str | None = None,
        *,
        commit: str | None = None,
        snapshot: str | None = None,
        version: int | None = None,
        branch: str = MAIN,
    ) -> GraphView:
        """The graph as it was: at a place, after a commit, at a snapshot id or manifest version.

        A place is one text that names a branch, a tag, a commit (or the beginning of its id), a
        version or a time of the branch. With nothing given, the branch as it is now, pinned.

        >>> before = graph.at(commit=graph.commits()[-1].commit_id)
        >>> list(before.export())
        []
        >>> len(graph.at("2").nodes("Person"))
        2
        """
        given = [value for value in (place, commit, snapshot, version) if value is not None]
        if len(given) > 1:
            raise BadRequest("give one of place, commit, snapshot and version")
        if place is not None:
            found = places.find_place(self._views, place, branch)
        elif version is not None:
            found = places.at_version(self._views, version, branch)
        elif commit is not None or snapshot is not None:
            found = places.at_snapshot(self._views, commit or snapshot or "", branch)
        else:
            found = places.Place(self._views.newest(branch), None)
        return self._pinned(found.view, found.snapshot)

    def _pinned(self, view: View, snapshot: str | None = None) -> GraphView:
        return GraphView(view, self._settings, snapshot, self._guard)

    # --- tags ------------------------------------------------------------------------------------

    def tag(
        self,
        name: str,
        at: str | None = None,
        *,
        branch: str = MAIN,
        actor: str | None = None,
    ) -> Tag:
        """Name a commit for good: the head of a branch, or that of any place.

        Cleanup keeps a tagged commit readable. A tag does not move.

        >>> graph.tag("v1").commit_id == graph.commits()[0].commit_id
        True
        >>> len(graph.at("v1").nodes("Person"))
        2
        """
        self._require_writable()
        self._guard.allow(Action.CHANGE, branch=branch, actor=actor)
        commit = places.find_commit(self._views, at or f"branch:{branch}", branch)
        return create_tag(self._views.root, name, commit, actor or self.actor)

    def tags(self) -> list[Tag]:
        """Every tag, in the order of names.

        >>> _ = graph.tag("v1")
        >>> [tag.name for tag in graph.tags()]
        ['v1']
        """
        self._guard.allow(Action.READ)
        return list_tags(self._views.root.store)

    def delete_tag(self, name: str) -> Tag:
        """Delete a tag; its commit stays as long as anything else keeps it.

        >>> _ = graph.tag("v1")
        >>> graph.delete_tag("v1").name
        'v1'
        """
        self._require_writable()
        self._guard.allow(Action.CHANGE)
        return delete_tag(self._views.root, name)

    # --- changes ---------------------------------------------------------------------------------

    def diff(
        self,
        before: str,
        after: str | None = None,
        *,
        images: bool = False,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        branch: str = MAIN,
    ) -> Diff:
        """What is different between two places, or between a place and a branch as it is now.

        Args:
            before: A branch, tag, commit, snapshot, version or time, as `at` takes it.
            after: The same; the branch as it is now by default.
            images: Whether changes carry the whole entity before and after.
            kinds: Only `node` or `edge`.
            types: Only these types.
            ops: Only `insert`, `update` or `delete`.
            branch: Whose versions and times are meant.

        >>> [str(change.op) for change in graph.diff("1")]
        ['insert', 'insert', 'insert']
        """
        self._require_visible(types, branch, Action.READ)
        wanted = change_filter(kinds, types, ops)
        sides = [changing.state_of(self.at(place, branch=branch).view) for place in (before, after)]
        return Diff(*sides, images=images, wanted=wanted)

    def commit_changes(
        self,
        commit: str,
        *,
        page_token: str | None = None,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        max_changes: int = 1_000,
        max_bytes: int = 4 << 20,
        branch: str = MAIN,
    ) -> CommitChanges:
        """What a commit changed against its first parent, with images, a page at a time.

        With its `next_page_token` the next page is asked for.

        >>> page = graph.commit_changes(graph.commits()[0].commit_id, types=["Knows"])
        >>> [(change.op.value, change.after.endpoints.wire()) for change in page.changes]
        [('insert', {'from': 'Ada', 'to': 'Ben'})]
        """
        found = places.find_commit(self._views, commit, branch)
        try:
            views = self._seen(found.branch)
        except PolicyDenied:
            raise CommitNotFound(
                commit.strip()
            ) from None  # who may not read it learns nothing of it
        self._require_visible(types, found.branch, Action.READ)
        wanted = change_filter(kinds, types, ops)
        limits = PageLimits(max_changes, max_bytes)
        return changing.read_commit(views, found, wanted, limits, page_token, self._keys)

    def changes(
        self,
        position: str = "now",
        *,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        max_changes: int = 1_000,
        max_bytes: int = 4 << 20,
        max_commits: int = 128,
        branch: str = MAIN,
    ) -> FeedPage:
        """A page of the change feed of a branch: commits oldest first, with what each changed.

        Args:
            position: `now`, `beginning`, `after:` and a commit id, or where an earlier page ended:
                its `position`.
            kinds: Only `node` or `edge`.
            types: Only these types.
            ops: Only `insert`, `update` or `delete`.
            max_changes: At most so many changes.
            max_bytes: At most so many bytes of JSON; a larger change is given alone.
            max_commits: At most so many commits.
            branch: Whose feed.

        >>> page = graph.changes("beginning")
        >>> [len(block.changes) for block in page.blocks], page.caught_up
        ([3], True)
        >>> graph.changes(page.position).blocks
        ()
        """
        views = self._seen(branch)
        self._require_visible(types, branch, Action.READ)
        wanted = change_filter(kinds, types, ops)
        limits = PageLimits(max_changes, max_bytes, max_commits)
        return changing.read_feed(views, branch, position, wanted, limits, self._keys)

    def baseline(
        self,
        *,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        branch: str = MAIN,
    ) -> Baseline:
        """A copy of a branch to start following its feed from; `ops` only bind the cursor.

        >>> baseline = graph.baseline(types=["Knows"])
        >>> next(baseline.records())
        {'edge': 'Knows', 'from': 'Ada', 'to': 'Ben', 'data': {'id': 'k1'}}
        """
        views = self._seen(branch, Action.EXPORT)
        self._require_visible(types, branch, Action.EXPORT)
        return changing.read_baseline(views, branch, change_filter(kinds, types, ops))

    def entity_history(
        self, type_name: str, entity_id: str, *, kind: str | None = None, branch: str = MAIN
    ) -> EntityHistory:
        """Every value an entity had on a branch, newest first, with commit, actor and time.

        >>> _ = graph.mutate('query q() { update Person set { age: 37 } where name = "Ada" }')
        >>> history = graph.entity_history("Person", "Ada")
        >>> [(one.op, one.image.properties["age"]) for one in history.versions]
        [('update', 37), ('insert', 36)]
        """
        views = self._seen(branch)
        self._require_visible([type_name], branch, Action.READ)
        return changing.read_entity(views, branch, type_name, entity_id, kind)

    def set_consumer(
        self,
        name: str,
        position: str | None = None,
        *,
        lasts: datetime.timedelta = datetime.timedelta(days=7),
        branch: str = MAIN,
    ) -> Consumer:
        """Note how far a consumer of the feed has read, so that cleanup keeps the rest for it.

        Args:
            name: Of the consumer; what was noted under it before is replaced.
            position: The cursor or the commit id up to which it has read; the head by default.
            lasts: When it is no longer waited for.
            branch: Whose feed it reads.

        >>> graph.set_consumer("search-index").commit_id == graph.commits()[0].commit_id
        True
        """
        self._require_writable()
        self._guard.allow(Action.CHANGE, branch=branch)
        seconds = lasts.total_seconds()
        return changing.note_consumer(self._views, name, branch, position, seconds)

    def consumers(self) -> list[Consumer]:
        """Every consumer of a feed that said how far it is, in the order of names.

        >>> _ = graph.set_consumer("search-index")
        >>> [consumer.name for consumer in graph.consumers()]
        ['search-index']
        """
        self._guard.allow(Action.READ)
        return list_consumers(self._views.root.store)

    def delete_consumer(self, name: str) -> Consumer:
        """Forget a consumer; what only it kept may be cleaned away.

        >>> _ = graph.set_consumer("search-index")
        >>> graph.delete_consumer("search-index").name
        'search-index'
        """
        self._require_writable()
        self._guard.allow(Action.CHANGE)
        return delete_consumer(self._views.root, name)

    # --- rows ------------------------------------------------------------------------------------

    def nodes(self, type_name: str, *, branch: str = MAIN) -> TypeRows:
        """The nodes of a type as a branch is now: `.to_arrow()`, `.to_spark()`.

        >>> graph.nodes("Person").to_arrow().select(["name", "age"]).sort_by("name").to_pylist()
        [{'name': 'Ada', 'age': 36}, {'name': 'Ben', 'age': None}]
        """
        return self._pinned(self._views.newest(branch)).nodes(type_name)

    def edges(self, type_name: str, *, branch: str = MAIN) -> TypeRows:
        """The edges of a type as a branch is now: `.to_arrow()`, `.to_spark()`.

        >>> graph.edges("Knows").to_arrow().select(["src", "dst"]).to_pylist()
        [{'src': 'Ada', 'dst': 'Ben'}]
        """
        return self._pinned(self._views.newest(branch)).edges(type_name)

    def export(
        self, types: Sequence[str] | None = None, *, branch: str = MAIN
    ) -> Iterator[dict[str, object]]:
        """Every record of a branch as it is now.

        >>> next(graph.export(["Knows"]))
        {'edge': 'Knows', 'from': 'Ada', 'to': 'Ben', 'data': {'id': 'k1'}}
        """
        return self._pinned(self._views.newest(branch)).export(types)

    # --- maintenance -----------------------------------------------------------------------------

    def optimize(
        self,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        engine: str = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> OptimizeResult:
        """Merge small fragments and build missing indexes of the tables a branch owns.

        At most one commit, none if there was nothing to do. Never deletes a version.

        Args:
            branch: Whose tables.
            actor: Who the commit is recorded for.
            engine: Where files are written: `local`, in this process, or `spark`.
            session: A Spark session of the caller's.
            spark_conf: Spark options for a session that is made here.

        >>> [table.table_key for table in graph.optimize().tables]
        ['edge:Knows', 'node:Person', '__manifest']
        """
        self._require_writable()
        self._guard.allow(Action.ADMIN, actor=actor)
        workers = self._workers(engine, session, spark_conf)
        return optimize(self._views, OptimizeOptions(branch, actor or self.actor), workers)

    def ensure_indices(
        self,
        *,
        branch: str = MAIN,
        actor: str | None = None,
        engine: str = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> tuple[PendingIndex, ...]:
        """Build what is missing of the declared indexes; gives those that cannot be built yet.

        The arguments are those of `optimize`.

        >>> graph.ensure_indices()
        ()
        """
        self._require_writable()
        self._guard.allow(Action.ADMIN, actor=actor)
        workers = self._workers(engine, session, spark_conf)
        options = OptimizeOptions(branch, actor or self.actor, indexes_only=True)
        return optimize(self._views, options, workers).pending_indexes

    def _workers(
        self, engine: str, session: object | None, spark_conf: Mapping[str, str] | None
    ) -> Workers | None:
        """Who writes the files of maintenance; None for threads of this process."""
        if engine == "local":
            return None
        require_engine(engine)
        from omnigraph.graph.bulk_loading import tasks_of  # noqa: PLC0415 - loads the pipeline
        from omnigraph.pipeline.upkeep import TaskWorkers  # noqa: PLC0415

        return TaskWorkers(lambda: tasks_of(engine, self.settings, session, spark_conf))

    def repair(self, *, confirm: bool = False, force: bool = False) -> RepairResult:
        """Look for tables that somebody moved ahead of the graph; with `confirm`, accept them.

        Without `force` only what provably changed no row is accepted.

        >>> {str(table.classification) for table in graph.repair().tables}
        {'no_drift'}
        """
        self._require_writable()
        self._guard.allow(Action.ADMIN)
        return repair(self._views, confirm=confirm, force=force)

    def cleanup(
        self,
        *,
        keep: int | None = None,
        older_than: datetime.timedelta | None = None,
        confirm: bool = False,
    ) -> CleanupResult:
        """Remove what only commits beyond both limits need; without `confirm`, say what.

        Every branch keeps its newest `keep` commits and those younger than `older_than`.

        >>> found = graph.cleanup(keep=10)
        >>> found.confirm, sum(table.old_versions_removed for table in found.tables)
        (False, 0)
        """
        self._require_writable()
        self._guard.allow(Action.ADMIN)
        age = None if older_than is None else older_than.total_seconds()
        clean = cleanup if confirm else preview
        return clean(self._views.root, Retention(keep, age))

    def verify(self, *, deep: bool = False) -> VerifyResult:
        """Everything about the graph that is not as it must be; `deep` reads every row.

        >>> graph.verify(deep=True).is_sound
        True
        """
        self._guard.allow(Action.ADMIN)
        return verify(self._views, deep=deep)

    def maintain(self) -> MaintainResult:
        """Optimize and clean up if the policy of the settings says that it is due.

        >>> graph.maintain().due.is_any
        False
        """
        self._require_writable()
        self._guard.allow(Action.ADMIN)
        return take_turn(self._views, self._views.root.settings.autopilot)

    # --- recovery --------------------------------------------------------------------------------

    @overload
    def recover(self, *, check: Literal[False] = False) -> list[RecoveredWrite]: ...

    @overload
    def recover(self, *, check: Literal[True]) -> list[PendingWrite]: ...

    def recover(self, *, check: bool = False) -> list[PendingWrite] | list[RecoveredWrite]:
        """Settle interrupted writes; with `check` only say what would be done.

        >>> graph.recover()
        []
        """
        if check:
            return self.recovery_pending()
        self._require_writable()
        self._guard.allow(Action.ADMIN)
        return recovering.recover(self._views.root)

    def recovery_pending(self) -> list[PendingWrite]:
        """Interrupted writes that nobody has settled yet.

        >>> graph.recovery_pending()
        []
        """
        self._guard.allow(Action.ADMIN)
        return recovering.pending(self._views.root)

    def recovery_list(self, branch: str = MAIN) -> tuple[RecoveryAudit, ...]:
        """Writes that were recovered, as a branch remembers them.

        >>> graph.recovery_list()
        ()
        """
        self._guard.allow(Action.ADMIN)
        return recovering.recoveries(self._views, branch)

    def _require_writable(self) -> None:
        if self.read_only:
            raise BadRequest("the graph is open read-only; open it again without read_only")


def _reopened(
    uri: str,
    read_only: bool,  # noqa: FBT001
    actor: str | None,
    policy: Authority | None,
    registry: QueryRegistry,
    settings: Settings,
) -> Graph:
    graph = open(uri, read_only=read_only, actor=actor, policy=policy, settings=settings)
    return graph.with_queries(registry)


def _mode(mode: LoadMode | str) -> LoadMode:
    try:
        return LoadMode(mode)
    except ValueError as error:
        raise BadRequest(f"mode '{mode}' is not one of {', '.join(LoadMode)}") from error

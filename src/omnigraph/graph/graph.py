"""Graph and Branch: one object with every verb; and creating, opening and copying graphs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Self

from omnigraph.errors import StorageFailure, StorageKind
from omnigraph.graph import open_graph
from omnigraph.graph.branches import BranchVerbs, delete_branch, rename_branch
from omnigraph.graph.changes import ChangeVerbs
from omnigraph.graph.embedding import EmbedVerbs
from omnigraph.graph.graph_view import GraphView as GraphView
from omnigraph.graph.guard import Guard
from omnigraph.graph.loading import LoadVerbs
from omnigraph.graph.maintenance import GraphMaintenance, MaintenanceVerbs
from omnigraph.graph.merges import MergeVerbs
from omnigraph.graph.mutations import StoredQueryVerbs
from omnigraph.graph.open_graph import OpenGraph
from omnigraph.graph.results import RecoveredWrite
from omnigraph.graph.schema_changes import SchemaVerbs
from omnigraph.graph.undo import UndoVerbs
from omnigraph.identity import MAIN
from omnigraph.language.source import SourceText, as_source_text
from omnigraph.policy.decision import Action, Authority
from omnigraph.settings import Settings
from omnigraph.storage.graph_root import GraphRoot
from omnigraph.storage.layout import check_actor, normalize_branch
from omnigraph.storage.refs import list_names
from omnigraph.stored_queries import QueryRegistry
from omnigraph.wire.read_results import render_types_html
from omnigraph.wire.write_results import CreatedBranch, DeletedBranch

if TYPE_CHECKING:
    from omnigraph.policy.decision import Decision
    from omnigraph.storage.clone_graph import CloneResult
    from omnigraph.wire.commit_results import Consumer, Tag


class Verbs(
    StoredQueryVerbs,
    LoadVerbs,
    EmbedVerbs,
    BranchVerbs,
    MergeVerbs,
    UndoVerbs,
    ChangeVerbs,
    SchemaVerbs,
    MaintenanceVerbs,
):
    """The verbs that a graph and a single branch share."""


class Branch(Verbs):
    """One branch of a graph, with the verbs that `Graph` has for `main`.

    >>> main = graph.branch("main")
    >>> main.query("query q() { match { $p: Person } return { count($p) as n } }").rows
    [{'n': 2}]
    """

    def __init__(self, graph: Graph, name: str) -> None:
        super().__init__(graph._open, name, graph._guard, graph._registry)
        self.graph = graph

    @property
    def name(self) -> str:
        return self._default_branch

    @property
    def revision(self) -> str:
        """The revision that names its newest commit."""
        return f"branch:{self.name}"

    def __repr__(self) -> str:
        return f"Branch({self.uri!r}, {self.name!r})"

    def _repr_html_(self) -> str:
        """Return the types with their row counts, for notebooks."""
        return self.at()._repr_html_()

    def delete(self) -> DeletedBranch:
        """Delete this branch."""
        return self.graph.delete_branch(self.name)

    def rename(self, new_name: str) -> CreatedBranch:
        """Rename this branch; this object uses the new name from now on."""
        ref = self.graph.rename_branch(self.name, new_name)
        self._default_branch = str(ref.name)
        return ref


def init(
    uri: str | Path,
    schema: str | Path | SourceText,
    *,
    force: bool = False,
    actor: str | None = None,
    settings: Settings | None = None,
) -> Graph:
    """Create a graph at a path or address, with a schema given as text or file, and open it.

    Args:
        uri: A path, a `file://` or an `s3://` address.
        schema: The schema, in the schema language, or the path of a file of it.
        force: Replace schema files left by an earlier, failed attempt.
        actor: The actor the commits of this handle are recorded for.
        settings: The settings to use instead of the defaults; see `Settings.from_environment`.

    >>> omnigraph.init("music.omni", "node Artist { slug: String @key }").branches()
    ['main']
    """
    check_actor(actor)
    root = GraphRoot.at(str(uri), settings)
    open_graph.create_graph(root, as_source_text(schema, "<schema>"), force=force, actor=actor)
    return Graph(root, actor=actor)


def open(
    uri: str | Path,
    *,
    read_only: bool = False,
    actor: str | None = None,
    policy: Authority | None = None,
    settings: Settings | None = None,
) -> Graph:
    """Open a graph. With `read_only`, nothing is written, whatever the state of the graph.

    With a `policy`, every verb must be allowed to the `actor`, else `PolicyDenied` is raised.

    >>> omnigraph.open("people.omni", read_only=True).branches()
    ['main']
    """
    root = GraphRoot.at(str(uri), settings)
    try:
        return Graph(root, read_only=read_only, actor=actor, policy=policy)
    except StorageFailure as failure:
        if failure.kind is StorageKind.NOT_FOUND:
            open_graph.require_graph(root)
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
    """Copy a graph to another path or address; concurrent writes are allowed.

    Each branch is copied at some commit. The source is not changed. Until the clone is complete,
    the target cannot be opened.

    Args:
        source: The graph to copy.
        target: Where to put the copy; there must be no graph.
        branches: The branches to copy, with `main` and those they were created from; all of them
            by default.
        shallow: Omit older states: their commits are listed and cannot be read.
        force: Restart an interrupted clone to the same target.
        settings: The settings for both sides, instead of the defaults.

    >>> omnigraph.clone("people.omni", "backup.omni").branches
    ('main',)
    """
    from omnigraph.storage.clone_graph import clone as copy_graph

    names = tuple(normalize_branch(name) for name in branches)
    origin = GraphRoot.at(str(source), settings)
    open_graph.require_whole(origin)
    open_graph.require_graph(origin)
    return copy_graph(
        origin, GraphRoot.at(str(target), settings), names, shallow=shallow, force=force
    )


def quarantine(uri: str | Path, operation_id: str, *, settings: Settings | None = None) -> str:
    """Quarantine the unreadable intent of an interrupted write; return its new path.

    A graph with such an intent cannot be opened for writing. It is moved only if every table is
    at the version the graph shows, so that nothing is lost.

    >>> omnigraph.quarantine("people.omni", "01J9Z3N8Q4X7Y2K5M6P0R1S3T8")
    Traceback (most recent call last):
    omnigraph.errors.NotFoundError: no pending write 01J9Z3N8Q4X7Y2K5M6P0R1S3T8
    """
    from omnigraph.maintenance.repair import quarantine_intent as set_aside

    root = GraphRoot.at(str(uri), settings)
    open_graph.require_graph(root)
    return set_aside(root, operation_id)


class Graph(Verbs, GraphMaintenance):
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
        opened = OpenGraph(root, read_only=read_only)
        guard = Guard.make(policy, actor, lambda: opened.views.read_newest(MAIN).catalog)
        super().__init__(opened, MAIN, guard, QueryRegistry())

    @property
    def recovered_on_open(self) -> list[RecoveredWrite]:
        """Interrupted writes that were recovered when this graph was opened."""
        return self._open.recovered

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Wait for background maintenance to finish; nothing else stays open."""
        self._open.close()

    def __repr__(self) -> str:
        return f"Graph({self.uri!r})"

    def __reduce__(self) -> tuple[object, ...]:
        """Return the arguments with which another process opens the graph."""
        given = (self.uri, self.read_only, self.actor, self.policy, self._registry, self.settings)
        return _reopen, given

    def _repr_html_(self) -> str:
        """Return the branches, and the types with their row counts on `main`, for notebooks."""
        note = f"{self.uri}; branches: {', '.join(self.branches())}"
        return render_types_html(self.snapshot(), note)

    def _share(self, guard: Guard, registry: QueryRegistry) -> Graph:
        """Return another handle of the same open graph."""
        other = Graph.__new__(Graph)
        super(Graph, other).__init__(self._open, MAIN, guard, registry)
        return other

    def as_actor(
        self,
        actor: str | None,
        *,
        policy: Authority | None = None,
        observe: Callable[[Decision], None] | None = None,
    ) -> Graph:
        """Return a handle of the graph for another actor, under the same policy or another one.

        The handles share their caches. `observe` is called with every decision of the policy on a
        verb of the handle.

        >>> graph.as_actor("ben").create_branch("review").actor_id
        'ben'
        """
        if policy is None or policy is self.policy:
            guard = self._guard.with_actor(actor, observe)
        else:
            found = Guard.make(policy, None, lambda: self._open.views.read_newest(MAIN).catalog)
            guard = found.with_actor(actor, observe)
        return self._share(guard, self._registry)

    def with_queries(self, registry: QueryRegistry) -> Graph:
        """Return a handle of the graph with stored queries, which are run by name.

        >>> from omnigraph.language.source import SourceText
        >>> from omnigraph.stored_queries import parse_registry
        >>> text = SourceText("query all() { match { $p: Person } return { $p.name } }")
        >>> graph.with_queries(parse_registry([text])).invoke("all").rows
        [{'p.name': 'Ada'}, {'p.name': 'Ben'}]
        """
        return self._share(self._guard, registry)

    # --- branches -------------------------------------------------------------------------------

    def branches(self) -> list[str]:
        """List the names of all branches, `main` first.

        >>> _ = graph.create_branch("review")
        >>> graph.branches()
        ['main', 'review']
        """
        self._guard.allow(Action.READ)
        return [str(name) for name in list_names(self._open.views.root.store)]

    def delete_branch(self, name: str, *, idempotency_key: str | None = None) -> DeletedBranch:
        """Delete a branch; its commits can no longer be reached by its name.

        With an `idempotency_key` it is deleted once: sent again, it deletes no other branch that
        was created under the name since.

        >>> _ = graph.create_branch("review")
        >>> graph.delete_branch("review").name
        'review'
        """
        self._open.require_writable()
        self._guard.allow(Action.BRANCH_DELETE, target_branch=name)
        options = self._make_write_options(name, None, idempotency_key=idempotency_key)
        return delete_branch(self._open.views.root, options)

    def rename_branch(
        self, name: str, new_name: str, *, idempotency_key: str | None = None
    ) -> CreatedBranch:
        """Rename a branch; it stays the same branch, with its commits and its feed.

        With an `idempotency_key` it is renamed once, and a repetition returns the first result.

        >>> _ = graph.create_branch("review")
        >>> graph.rename_branch("review", "accepted").name
        'accepted'
        >>> graph.branches()
        ['main', 'accepted']
        """
        self._open.require_writable()
        self._guard.allow(Action.BRANCH_DELETE, target_branch=name)
        self._guard.allow(Action.BRANCH_CREATE, branch=name, target_branch=new_name)
        options = self._make_write_options(name, None, idempotency_key=idempotency_key)
        return rename_branch(self._open.views.root, new_name, options)

    def branch(self, name: str) -> Branch:
        """Return one branch, with the verbs of the graph.

        >>> _ = graph.create_branch("review")
        >>> _ = graph.branch("review").mutate('query q() { delete Person where name = "Ben" }')
        >>> len(graph.nodes("Person")), len(graph.nodes("Person", branch="review"))
        (2, 1)
        """
        return Branch(self, name)

    # --- tags and consumers ---------------------------------------------------------------------

    def tags(self) -> list[Tag]:
        """List all tags by name.

        >>> _ = graph.tag("v1")
        >>> [tag.name for tag in graph.tags()]
        ['v1']
        """
        from omnigraph.storage.refs import list_tags

        self._guard.allow(Action.READ)
        return [tag.shown for tag in list_tags(self._open.views.root.store)]

    def delete_tag(self, name: str) -> Tag:
        """Delete a tag; its commit is retained only as long as something else refers to it.

        >>> _ = graph.tag("v1")
        >>> graph.delete_tag("v1").name
        'v1'
        """
        from omnigraph.storage.refs import delete_tag

        self._open.require_writable()
        self._guard.allow(Action.CHANGE)
        return delete_tag(self._open.views.root, name).shown

    def consumers(self) -> list[Consumer]:
        """List all consumers of the change feeds by name.

        >>> _ = graph.set_consumer("search-index")
        >>> [consumer.name for consumer in graph.consumers()]
        ['search-index']
        """
        from omnigraph.storage.consumers import list_consumers

        self._guard.allow(Action.READ)
        return [one.shown for one in list_consumers(self._open.views.root.store)]

    def delete_consumer(self, name: str) -> Consumer:
        """Delete a consumer; cleanup may then remove what only it protected.

        >>> _ = graph.set_consumer("search-index")
        >>> graph.delete_consumer("search-index").name
        'search-index'
        """
        from omnigraph.storage.consumers import delete_consumer

        self._open.require_writable()
        self._guard.allow(Action.CHANGE)
        return delete_consumer(self._open.views.root, name).shown


def _reopen(
    uri: str,
    read_only: bool,  # noqa: FBT001
    actor: str | None,
    policy: Authority | None,
    registry: QueryRegistry,
    settings: Settings,
) -> Graph:
    graph = open(uri, read_only=read_only, actor=actor, policy=policy, settings=settings)
    return graph.with_queries(registry)

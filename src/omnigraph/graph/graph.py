"""Graph: one object, read as a table of contents."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Literal, Self, overload

from omnigraph.catalog.model import Catalog
from omnigraph.errors import BadRequest
from omnigraph.execution.embed.model import query_embedder
from omnigraph.execution.embed.open import LazyEmbedder
from omnigraph.execution.export import export_jsonl, export_records, export_types
from omnigraph.execution.load import LoadMode
from omnigraph.execution.read.topology import Topology
from omnigraph.execution.search.segments import limit_memory
from omnigraph.graph import loading, mutating, opening, querying, recovering
from omnigraph.graph.query_result import QueryResult
from omnigraph.graph.querying import QuerySettings
from omnigraph.graph.results import (
    LoadResult,
    MutationResult,
    PendingWrite,
    RecoveredWrite,
    SnapshotInfo,
    TableInfo,
)
from omnigraph.graph.view import View, Views
from omnigraph.identity import MAIN
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_plan
from omnigraph.plan.explain import explain_text
from omnigraph.settings import Settings
from omnigraph.storage import branches
from omnigraph.storage.manifest.commits import Commit, RecoveryAudit
from omnigraph.storage.refs import BranchRef, list_names
from omnigraph.storage.root import GraphRoot


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
    """
    root = GraphRoot.at(str(uri), settings)
    opening.create_graph(root, _text(schema, "<schema>"), force=force)
    return Graph(root, actor=actor)


def open(
    uri: str | Path,
    *,
    read_only: bool = False,
    actor: str | None = None,
    settings: Settings | None = None,
) -> Graph:
    """Open a graph. Read-only opening writes nothing, whatever state the graph is in."""
    root = GraphRoot.at(str(uri), settings)
    opening.require_graph(root)
    return Graph(root, read_only=read_only, actor=actor)


class GraphView:
    """One immutable view of a graph: a branch head, a commit or an earlier version."""

    def __init__(self, view: View, settings: QuerySettings, snapshot: str | None = None) -> None:
        self._view, self._settings, self._snapshot = view, settings, snapshot

    @property
    def catalog(self) -> Catalog:
        return self._view.catalog

    def query(
        self,
        query: str | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
    ) -> QueryResult:
        """Run a read query of a text on this view."""
        now = datetime.datetime.now(datetime.UTC)
        request = querying.QueryRequest(_text(query, "<query>"), name, params, now)
        branch = None if self._snapshot else str(self._view.snapshot.branch)
        target = {"branch": branch, "snapshot": self._snapshot}
        return querying.query(self._view, request, self._settings, target)

    def explain(
        self,
        query: str | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        analyze: bool = False,
    ) -> str:
        """The plan of a query as text; with `analyze` it is run, and every operator measured."""
        if analyze:
            result = self.query(query, name, params)
            return "\n".join(result.profile().lines())
        plan = compile_plan(
            _text(query, "<query>"), self.catalog, name, querying.statistics(self._view)
        )
        return explain_text(plan)

    @property
    def commit_id(self) -> str | None:
        """The newest commit this view contains."""
        return self._view.snapshot.head

    def info(self) -> SnapshotInfo:
        """Which version of which table this view is made of."""
        snapshot = self._view.snapshot
        tables = tuple(
            TableInfo(key, entry.path, entry.version, entry.owner_branch, entry.row_count)
            for key, entry in snapshot.entries.items()
        )
        return SnapshotInfo(
            graph_branch=snapshot.branch,
            snapshot_id=snapshot.id,
            graph_commit_id=snapshot.head,
            graph_manifest_version=snapshot.manifest_version,
            internal_schema_version=snapshot.manifest.stamp,
            tables=tables,
        )

    def export(self, types: Sequence[str] | None = None) -> Iterator[dict[str, object]]:
        """Every record, edges before nodes, each type by ascending id."""
        return export_records(self._view.snapshot, export_types(self.catalog, types))

    def export_jsonl(self, types: Sequence[str] | None = None) -> Iterator[bytes]:
        """The same as blocks of JSON lines."""
        return export_jsonl(self._view.snapshot, export_types(self.catalog, types))


class Graph:
    """A graph, open on its `main` branch; every verb takes another branch by name.

    Safe to share between threads. Writers in other processes are kept apart by the graph's
    writer fence; readers never wait.
    """

    def __init__(
        self, root: GraphRoot, *, read_only: bool = False, actor: str | None = None
    ) -> None:
        self._views = Views(root)
        self.read_only, self.actor = read_only, actor
        embedder = LazyEmbedder(root.settings.embed)
        self._settings = QuerySettings(Topology(), query_embedder(embedder))
        limit_memory(root.settings.text_cache_bytes)
        self.recovered_on_open: list[RecoveredWrite] = []
        opened = self._views.newest(MAIN)
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
        """Nothing stays open between calls; here for `with`."""

    def __repr__(self) -> str:
        return f"Graph({self.uri!r})"

    @property
    def uri(self) -> str:
        return self._views.root.uri

    # --- schema ----------------------------------------------------------------------------------

    @property
    def schema(self) -> str:
        """The accepted schema, as it was written."""
        return self._views.newest(MAIN).snapshot.contract.source

    @property
    def catalog(self) -> Catalog:
        return self._views.newest(MAIN).catalog

    # --- reading ---------------------------------------------------------------------------------

    def query(
        self,
        query: str | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
    ) -> QueryResult:
        """Run a read query of a text on a branch as it is now."""
        return self.at(branch=branch).query(query, name, params)

    def explain(
        self,
        query: str | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str = MAIN,
        analyze: bool = False,
    ) -> str:
        """The plan of a query; with `analyze` also what every operator did and took."""
        return self.at(branch=branch).explain(query, name, params, analyze=analyze)

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
        """
        self._require_writable()
        request = mutating.MutationRequest(
            _text(query, "<query>"), name, params, branch, actor or self.actor, expected_head
        )
        return mutating.mutate(self._views, request)

    def load(
        self,
        records: loading.Records,
        mode: LoadMode | str,
        *,
        branch: str = MAIN,
        base: str | None = None,
        expected_head: str | None = None,
        actor: str | None = None,
        engine: str = "local",
    ) -> LoadResult:
        """Load a file of JSON lines, its bytes, or records, as one commit or not at all.

        With `base`, a branch that does not exist is created from it first.
        """
        self._require_writable()
        if engine != "local":
            raise BadRequest(f"engine '{engine}' is not known; use 'local'")
        data, file = loading.read_records(records)
        request = loading.LoadRequest(
            data, file, _mode(mode), branch, base, actor or self.actor, expected_head
        )
        return loading.load(self._views, request)

    # --- branches --------------------------------------------------------------------------------

    def branches(self) -> list[str]:
        """The names of all branches, `main` first."""
        return [str(name) for name in list_names(self._views.root.store)]

    def create_branch(
        self, name: str, *, source: str = MAIN, commit: str | None = None
    ) -> BranchRef:
        """Create a branch from another one, or from a commit. Copies nothing."""
        self._require_writable()
        view = self._views.newest(source)
        if commit is not None:
            view = self._views.at_commit(commit, source)
        return branches.create(view.snapshot, name, self.actor)

    def delete_branch(self, name: str) -> None:
        """Delete a branch; its commits can no longer be reached by name."""
        self._require_writable()
        branches.delete(self._views.root, name)

    def branch(self, name: str) -> Branch:
        """The same verbs, bound to one branch."""
        return Branch(self, name)

    # --- history ---------------------------------------------------------------------------------

    def commits(self, branch: str = MAIN) -> tuple[Commit, ...]:
        """Every commit a branch can see, newest first."""
        return self._views.commits(branch)

    def commit(self, commit_id: str, branch: str = MAIN) -> Commit:
        """One commit, looked for on the branch and then on all others."""
        return self._views.commit(commit_id, branch)

    def snapshot(self, branch: str = MAIN) -> SnapshotInfo:
        """Which version of which table makes up a branch now."""
        return self._pinned(self._views.newest(branch)).info()

    def at(
        self,
        *,
        commit: str | None = None,
        snapshot: str | None = None,
        version: int | None = None,
        branch: str = MAIN,
    ) -> GraphView:
        """The graph as it was: after a commit, at a snapshot id or a manifest version.

        With none of them, the branch as it is now, pinned.
        """
        given = [value for value in (commit, snapshot, version) if value is not None]
        if len(given) > 1:
            raise BadRequest("give one of commit, snapshot and version")
        if version is not None:
            view = self._views.at_version(version, branch)
            return self._pinned(view, view.snapshot.id)
        point = commit or snapshot
        if point is None:
            return self._pinned(self._views.newest(branch))
        if point.startswith("manifest:"):
            return self._pinned(self._at_witness(point), point)
        return self._pinned(self._views.at_commit(point, branch), point)

    def _pinned(self, view: View, snapshot: str | None = None) -> GraphView:
        return GraphView(view, self._settings, snapshot)

    def _at_witness(self, snapshot_id: str) -> View:
        name, _, version = snapshot_id.removeprefix("manifest:").rpartition(":v")
        if not name or not version.isdigit():
            raise BadRequest(f"'{snapshot_id}' is no snapshot id")
        return self._views.at_version(int(version), name)

    def export(
        self, types: Sequence[str] | None = None, *, branch: str = MAIN
    ) -> Iterator[dict[str, object]]:
        """Every record of a branch as it is now."""
        return self._pinned(self._views.newest(branch)).export(types)

    # --- recovery --------------------------------------------------------------------------------

    @overload
    def recover(self, *, check: Literal[False] = False) -> list[RecoveredWrite]: ...

    @overload
    def recover(self, *, check: Literal[True]) -> list[PendingWrite]: ...

    def recover(self, *, check: bool = False) -> list[PendingWrite] | list[RecoveredWrite]:
        """Settle interrupted writes; with `check` only say what would be done."""
        if check:
            return self.recovery_pending()
        self._require_writable()
        return recovering.recover(self._views.root)

    def recovery_pending(self) -> list[PendingWrite]:
        """Interrupted writes that nobody has settled yet."""
        return recovering.pending(self._views.root)

    def recovery_list(self, branch: str = MAIN) -> tuple[RecoveryAudit, ...]:
        """Writes that were recovered, as a branch remembers them."""
        return recovering.recoveries(self._views, branch)

    def _require_writable(self) -> None:
        if self.read_only:
            raise BadRequest("the graph is open read-only; open it again without read_only")


class Branch:
    """One branch of a graph, by name."""

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name

    def __repr__(self) -> str:
        return f"Branch({self.graph.uri!r}, {self.name!r})"

    def mutate(
        self,
        query: str | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        expected_head: str | None = None,
    ) -> MutationResult:
        return self.graph.mutate(query, name, params, branch=self.name, expected_head=expected_head)

    def query(
        self,
        query: str | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
    ) -> QueryResult:
        return self.graph.query(query, name, params, branch=self.name)

    def load(self, records: loading.Records, mode: LoadMode | str) -> LoadResult:
        return self.graph.load(records, mode, branch=self.name)

    def commits(self) -> tuple[Commit, ...]:
        return self.graph.commits(self.name)

    def snapshot(self) -> SnapshotInfo:
        return self.graph.snapshot(self.name)

    def export(self, types: Sequence[str] | None = None) -> Iterator[dict[str, object]]:
        return self.graph.export(types, branch=self.name)

    def at(self, *, commit: str | None = None, version: int | None = None) -> GraphView:
        return self.graph.at(commit=commit, version=version, branch=self.name)

    def delete(self) -> None:
        """Delete this branch."""
        self.graph.delete_branch(self.name)


def _text(text: str | SourceText, name: str) -> SourceText:
    return text if isinstance(text, SourceText) else SourceText(text, name)


def _mode(mode: LoadMode | str) -> LoadMode:
    try:
        return LoadMode(mode)
    except ValueError as error:
        raise BadRequest(f"mode '{mode}' is not one of {', '.join(LoadMode)}") from error

"""One immutable view of a graph, and its read verbs."""

from __future__ import annotations

import datetime
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

from omnigraph.catalog.catalog import Catalog, EdgeType
from omnigraph.execution.read import ReadLimits
from omnigraph.execution.stored_rows import export_jsonl, export_records, export_types
from omnigraph.graph import blobs, queries
from omnigraph.graph.branch_snapshots import CatalogSnapshot
from omnigraph.graph.conversion.row_formats import TypeRows
from omnigraph.graph.engines import EngineName
from omnigraph.graph.guard import NO_GUARD, Guard
from omnigraph.graph.queries import QueryResult, QuerySettings
from omnigraph.graph.results import PlanText
from omnigraph.language.source import SourceText, as_source_text
from omnigraph.plan.compile import compile_plan
from omnigraph.plan.explain import Notes, explain_json, explain_text
from omnigraph.plan.plan_nodes import Plan, ReadPlan
from omnigraph.policy.decision import Action
from omnigraph.wire.read_results import SnapshotInfo, TableInfo, render_types_html

if TYPE_CHECKING:
    from omnigraph.graph.conversion.graph_formats import Entities
    from omnigraph.pipeline.bulk_export import ExportResult
    from omnigraph.plan.query_lint import LintReport


class GraphView:
    """One immutable view of a graph: a branch head, a commit or an earlier version.

    >>> before = graph.at()
    >>> _ = graph.mutate('query q() { delete Person where name = "Ben" }')
    >>> len(before.nodes("Person")), len(graph.nodes("Person"))
    (2, 1)
    """

    def __init__(
        self,
        view: CatalogSnapshot,
        settings: QuerySettings,
        snapshot: str | None = None,
        guard: Guard = NO_GUARD,
    ) -> None:
        self._whole, self._settings, self._snapshot = view, settings, snapshot
        self._guard = guard

    @cached_property
    def _view(self) -> CatalogSnapshot:
        """Return the view restricted to what the actor may read."""
        return self._guard.see(self._whole)

    def _view_to_export(self, types: Sequence[str] | None) -> CatalogSnapshot:
        view = self._guard.see(self._whole, Action.EXPORT)
        self._guard.require_visible(self._whole, types or (), Action.EXPORT)
        return view

    def __repr__(self) -> str:
        snapshot = self._whole.snapshot
        point = self._snapshot or snapshot.id
        return f"GraphView({snapshot.root.uri!r}, {str(snapshot.branch)!r}, {point!r})"

    def _repr_html_(self) -> str:
        """Render the types with their row counts and the snapshot, for notebooks."""
        info = self.info()
        note = f"{self._view.snapshot.root.uri}; branch {info.graph_branch} at {info.snapshot_id}"
        return render_types_html(info, note)

    @property
    def schema(self) -> str:
        """The schema the rows of this view follow, as written."""
        return self._view.snapshot.contract.source

    @property
    def catalog(self) -> Catalog:
        """The compiled schema of this view."""
        return self._view.catalog

    @property
    def view(self) -> CatalogSnapshot:
        """The snapshot and its schema, for code that reads tables itself."""
        return self._view

    def nodes(self, type_name: str) -> TypeRows:
        """All nodes of a type."""
        view = self._view
        self._guard.require_visible(self._whole, [type_name])
        return TypeRows(view, view.catalog.nodes.get(type_name), type_name)

    def edges(self, type_name: str) -> TypeRows:
        """All edges of a type."""
        view = self._view
        self._guard.require_visible(self._whole, [type_name])
        return TypeRows(view, view.catalog.find_edge(type_name), type_name)

    def query(
        self,
        query: str | Path | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        limits: ReadLimits | None = None,
    ) -> QueryResult:
        """Run a read query on this view, in this process or on `spark`.

        In this process `limits` are checked before every block of rows, and may end the query.
        """
        now = datetime.datetime.now(datetime.UTC)
        text = as_source_text(query, "<query>")
        request = queries.GraphQueryRequest(
            text, name, params, now, engine, session, spark_conf or {}, limits
        )
        branch = None if self._snapshot else str(self._whole.snapshot.branch)
        target = {"branch": branch, "snapshot": self._snapshot}
        with self._guard.name_hidden(self._whole, text, name):
            return queries.run_query(self._view, request, self._settings, target)

    def plan(self, query: str | Path | SourceText, name: str | None = None) -> ReadPlan:
        """Return the plan of a read query, for code that executes it itself.

        >>> plan = graph.at().plan("query q() { match { $p: Person } return { $p.name } }")
        >>> [column.name for column in plan.columns]
        ['p.name']
        """
        text = as_source_text(query, "<query>")
        with self._guard.name_hidden(self._whole, text, name):
            return queries.plan_query(self._view, text, name)

    def explain(
        self,
        query: str | Path | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        analyze: bool = False,
    ) -> PlanText:
        """Return the plan of a query as text, with the access path of each traversal as of now.

        With `analyze` the query is executed, and the plan has the rows and time of each operator.
        """
        if analyze:
            result = self.query(query, name, params)
            return PlanText("\n".join(result.profile().lines()))
        return PlanText(explain_text(*self._plan_to_explain(query, name)))

    def explain_json(
        self, query: str | Path | SourceText, name: str | None = None
    ) -> dict[str, object]:
        """Return the plan of a query as a JSON document.

        >>> all_people = "query q() { match { $p: Person } return { $p.name } }"
        >>> graph.at().explain_json(all_people)["kind"]
        'read'
        """
        return explain_json(*self._plan_to_explain(query, name))

    def _plan_to_explain(
        self, query: str | Path | SourceText, name: str | None
    ) -> tuple[Plan, Notes]:
        view, text = self._view, as_source_text(query, "<query>")
        with self._guard.name_hidden(self._whole, text, name):
            plan = compile_plan(text, view.catalog, name, queries.collect_statistics(view))
        return plan, queries.explain_traversals(view, plan, self._settings)

    def lint(self, queries: str | Path | SourceText) -> LintReport:
        """Check every query of a text against the schema of this view; runs none."""
        from omnigraph.plan.query_lint import lint_queries

        origin = {"kind": "graph", "uri": self._view.snapshot.root.uri}
        return lint_queries(as_source_text(queries, "<query>"), self.catalog, origin)

    def read_blob(
        self,
        type_name: str,
        entity_id: str,
        property: str,
        *,
        kind: str | None = None,
        start: int | None = None,
        length: int | None = None,
    ) -> blobs.Blob:
        """Return the blob of one entity in this view, or a range of it; reads no bytes yet."""
        view = self._view
        self._guard.require_visible(self._whole, [f"{type_name}.{property}"])
        selector = blobs.BlobSelector(type_name, entity_id, property, kind)
        return blobs.read_blob(view, selector, start, length)

    @property
    def commit_id(self) -> str | None:
        """The newest commit this view contains.

        >>> graph.at().commit_id == graph.commits()[0].commit_id
        True
        """
        return self._view.snapshot.head

    @property
    def revision(self) -> str:
        """The revision of this state, which names its branch too."""
        snapshot = self._whole.snapshot
        return f"manifest:{snapshot.branch}:v{snapshot.manifest_version}"

    def info(self) -> SnapshotInfo:
        """Return the table versions of this view.

        >>> info = graph.at().info()
        >>> info.graph_branch, [table.table_key for table in info.tables]
        ('main', ['edge:Knows', 'node:Person'])
        """
        view = self._view
        snapshot, seen = view.snapshot, view.catalog.by_table_key
        tables = tuple(
            TableInfo.of(key, entry.path, entry.version, entry.owner_branch, entry.row_count)
            for key, entry in snapshot.entries.items()
            if key in seen
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
        view = self._view_to_export(types)
        return export_records(view.snapshot, export_types(view.catalog, types))

    def export_jsonl(self, types: Sequence[str] | None = None) -> Iterator[bytes]:
        r"""Yield every record as blocks of JSON lines.

        >>> b"".join(graph.at().export_jsonl(["Knows"]))
        b'{"edge":"Knows","from":"Ada","to":"Ben","data":{"id":"k1"}}\n'
        """
        view = self._view_to_export(types)
        return export_jsonl(view.snapshot, export_types(view.catalog, types))

    def to_networkx(self, types: Sequence[str] | None = None) -> Any:  # noqa: ANN401
        """The snapshot, or some of its types, as a directed graph of NetworkX.

        A node is the pair of its type and id and has its properties as attributes. Edges have
        theirs, and their ids as keys.

        >>> whole = graph.at().to_networkx()
        >>> whole.nodes["Person", "Ada"]["age"], list(whole.edges())
        (36, [(('Person', 'Ada'), ('Person', 'Ben'))])
        """
        from omnigraph.graph.conversion.graph_formats import make_networkx

        return make_networkx(self._read_entities(types))

    def to_pyg(self, types: Sequence[str] | None = None) -> Any:  # noqa: ANN401
        """The snapshot, or some of its types, as a `HeteroData` of PyTorch Geometric.

        Numbers, truth values and vectors without nulls become tensors under the names of their
        properties, `edge_index` holds the edges, and `id` the ids of the nodes.

        Raises:
            MissingPackage: PyTorch Geometric is not installed.
        """
        from omnigraph.graph.conversion.graph_formats import make_pyg

        return make_pyg(self._read_entities(types))

    def _read_entities(self, types: Sequence[str] | None) -> Entities:
        """Read all rows but blobs, of these types and of the nodes that their edges refer to."""
        view = self._view_to_export(types)
        wanted = {one.table_key: one for one in export_types(view.catalog, types)}
        for edge in [one for one in wanted.values() if isinstance(one, EdgeType)]:
            for end in (edge.from_type, edge.to_type):
                node = view.catalog.nodes[end]
                wanted.setdefault(node.table_key, node)
        found = {}
        for key, type_ in wanted.items():
            rows = TypeRows(view, type_, type_.name).to_arrow()
            blobs = [one.name for one in type_.properties if one.type.is_blob]
            found[str(key)] = (type_, rows.drop_columns(blobs))
        return found

    def export_files(
        self,
        out: str | Path,
        *,
        format: str = "jsonl",
        types: Sequence[str] | None = None,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> ExportResult:
        """Write every row to files of a new folder, with a folder for each type.

        Args:
            out: The folder; it must not exist yet, or be empty.
            format: `jsonl` or `parquet`.
            types: Only these types.
            engine: `local`, in this process, or `spark`.
            session: A Spark session of the caller's.
            spark_conf: Options for a session that is created for it.

        >>> done = graph.at().export_files("out", format="parquet")
        >>> done.rows, [file.table_key for file in done.files]
        (3, ['edge:Knows', 'node:Person'])
        """
        from omnigraph.graph.engines import open_tasks
        from omnigraph.pipeline.bulk_export import export_files

        view = self._view_to_export(types)
        tasks = open_tasks(engine, view.snapshot.root.settings, session, spark_conf)
        wanted = export_types(view.catalog, types)
        return export_files(tasks, view.snapshot, view.catalog, wanted, out, format)

"""Branch: the verbs of a graph, bound to one branch.

Every verb of `Graph` that takes a branch by name is here without it, with the same parameters
otherwise; what is said about a verb is said there.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.catalog.model import Catalog
from omnigraph.execution.load import LoadMode
from omnigraph.graph import blobs, loading
from omnigraph.graph.merging import MergeResult
from omnigraph.graph.pinned import GraphView
from omnigraph.graph.query_result import QueryResult
from omnigraph.graph.results import DeletedBranch, LoadResult, MutationResult, SnapshotInfo
from omnigraph.graph.type_rows import TypeRows
from omnigraph.identity import MAIN
from omnigraph.language.source import SourceText
from omnigraph.maintenance.model import OptimizeResult, PendingIndex
from omnigraph.plan.lint import LintReport
from omnigraph.storage.manifest.commits import Commit, RecoveryAudit
from omnigraph.storage.refs import BranchRef

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph
    from omnigraph.graph.graph_embedding import GraphEmbedSummary


class Branch:
    """One branch of a graph, by name: the verbs of `Graph` without their `branch`.

    >>> main = graph.branch("main")
    >>> main.query("query q() { match { $p: Person } return { count($p) as n } }").rows
    [{'n': 2}]
    """

    def __init__(self, graph: Graph, name: str) -> None:
        self.graph, self.name = graph, name

    def __repr__(self) -> str:
        return f"Branch({self.graph.uri!r}, {self.name!r})"

    def _repr_html_(self) -> str:
        """For notebooks: the types with how many rows each has here."""
        return self.at()._repr_html_()

    # --- schema ----------------------------------------------------------------------------------

    @property
    def schema(self) -> str:
        """The schema the rows of this branch follow, as it was written."""
        return self.at().schema

    @property
    def catalog(self) -> Catalog:
        """The same, compiled."""
        return self.at().catalog

    # --- reading ---------------------------------------------------------------------------------

    def query(
        self,
        query: str | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        engine: str = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> QueryResult:
        return self.graph.query(
            query,
            name,
            params,
            branch=self.name,
            engine=engine,
            session=session,
            spark_conf=spark_conf,
        )

    def explain(
        self,
        query: str | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        analyze: bool = False,
    ) -> str:
        return self.graph.explain(query, name, params, branch=self.name, analyze=analyze)

    def lint(self, queries: str | SourceText) -> LintReport:
        return self.graph.lint(queries, branch=self.name)

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
        return self.graph.read_blob(
            type_name,
            entity_id,
            property,
            kind=kind,
            branch=self.name,
            start=start,
            length=length,
        )

    def nodes(self, type_name: str) -> TypeRows:
        return self.graph.nodes(type_name, branch=self.name)

    def edges(self, type_name: str) -> TypeRows:
        return self.graph.edges(type_name, branch=self.name)

    def export(self, types: Sequence[str] | None = None) -> Iterator[dict[str, object]]:
        return self.graph.export(types, branch=self.name)

    # --- writing ---------------------------------------------------------------------------------

    def mutate(
        self,
        query: str | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        expected_head: str | None = None,
        actor: str | None = None,
    ) -> MutationResult:
        return self.graph.mutate(
            query, name, params, branch=self.name, expected_head=expected_head, actor=actor
        )

    def load(
        self,
        records: loading.Input,
        mode: LoadMode | str,
        *,
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
        return self.graph.load(
            records,
            mode,
            branch=self.name,
            base=base,
            expected_head=expected_head,
            actor=actor,
            engine=engine,
            format=format,
            type=type,
            columns=columns,
            partial=partial,
            on_error=on_error,
            rejects=rejects,
            session=session,
            spark_conf=spark_conf,
        )

    def embed(
        self,
        types: Sequence[str] = (),
        *,
        spec: str | Path | Mapping[str, object] | None = None,
        reembed_all: bool = False,
        per_minute: float | None = None,
        actor: str | None = None,
        engine: str = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> GraphEmbedSummary:
        return self.graph.embed(
            types,
            spec=spec,
            branch=self.name,
            reembed_all=reembed_all,
            per_minute=per_minute,
            actor=actor,
            engine=engine,
            session=session,
            spark_conf=spark_conf,
        )

    # --- branches and history --------------------------------------------------------------------

    def create_branch(
        self, name: str, *, commit: str | None = None, actor: str | None = None
    ) -> BranchRef:
        return self.graph.create_branch(name, source=self.name, commit=commit, actor=actor)

    def merge(
        self,
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
        """Merge this branch into another one."""
        return self.graph.merge(
            self.name,
            into,
            dry_run=dry_run,
            resolve=resolve,
            decisions=decisions,
            delete_branch=delete_branch,
            expected_head=expected_head,
            actor=actor,
            message=message,
        )

    def delete(self) -> DeletedBranch:
        """Delete this branch."""
        return self.graph.delete_branch(self.name)

    def commits(self) -> tuple[Commit, ...]:
        return self.graph.commits(self.name)

    def commit(self, commit_id: str) -> Commit:
        return self.graph.commit(commit_id, self.name)

    def snapshot(self) -> SnapshotInfo:
        return self.graph.snapshot(self.name)

    def at(
        self,
        *,
        commit: str | None = None,
        snapshot: str | None = None,
        version: int | None = None,
    ) -> GraphView:
        return self.graph.at(commit=commit, snapshot=snapshot, version=version, branch=self.name)

    def recovery_list(self) -> tuple[RecoveryAudit, ...]:
        return self.graph.recovery_list(self.name)

    # --- maintenance -----------------------------------------------------------------------------

    def optimize(
        self,
        *,
        actor: str | None = None,
        engine: str = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> OptimizeResult:
        return self.graph.optimize(
            branch=self.name, actor=actor, engine=engine, session=session, spark_conf=spark_conf
        )

    def ensure_indices(
        self,
        *,
        actor: str | None = None,
        engine: str = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
    ) -> tuple[PendingIndex, ...]:
        return self.graph.ensure_indices(
            branch=self.name, actor=actor, engine=engine, session=session, spark_conf=spark_conf
        )

"""Branch: the verbs of a graph, bound to one branch.

Every verb of `Graph` that takes a branch by name is here without it, with the same parameters
otherwise; what is said about a verb is said there.
"""

from __future__ import annotations

import datetime
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
from omnigraph.history.baseline import Baseline
from omnigraph.history.diff import Diff
from omnigraph.history.entity_history import EntityHistory
from omnigraph.history.feed import CommitChanges, FeedPage
from omnigraph.identity import MAIN
from omnigraph.language.source import SourceText
from omnigraph.maintenance.model import OptimizeResult, PendingIndex
from omnigraph.plan.lint import LintReport
from omnigraph.storage.consumers import Consumer
from omnigraph.storage.manifest.commits import Commit, RecoveryAudit
from omnigraph.storage.refs import BranchRef
from omnigraph.storage.tags import Tag

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

    def invoke(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        snapshot: str | None = None,
        expect_mutation: bool | None = None,
        expected_head: str | None = None,
        actor: str | None = None,
    ) -> QueryResult | MutationResult:
        return self.graph.invoke(
            name,
            params,
            branch=self.name,
            snapshot=snapshot,
            expect_mutation=expect_mutation,
            expected_head=expected_head,
            actor=actor,
        )

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

    def rename(self, new_name: str) -> BranchRef:
        """Give this branch another name; this object goes by it from now on."""
        ref = self.graph.rename_branch(self.name, new_name)
        self.name = str(ref.name)
        return ref

    def commits(self) -> tuple[Commit, ...]:
        return self.graph.commits(self.name)

    def commit(self, commit_id: str) -> Commit:
        return self.graph.commit(commit_id, self.name)

    def snapshot(self) -> SnapshotInfo:
        return self.graph.snapshot(self.name)

    def at(
        self,
        place: str | None = None,
        *,
        commit: str | None = None,
        snapshot: str | None = None,
        version: int | None = None,
    ) -> GraphView:
        return self.graph.at(
            place, commit=commit, snapshot=snapshot, version=version, branch=self.name
        )

    def tag(self, name: str, at: str | None = None, *, actor: str | None = None) -> Tag:
        return self.graph.tag(name, at, branch=self.name, actor=actor)

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
    ) -> Diff:
        return self.graph.diff(
            before, after, images=images, kinds=kinds, types=types, ops=ops, branch=self.name
        )

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
    ) -> CommitChanges:
        return self.graph.commit_changes(
            commit,
            page_token=page_token,
            kinds=kinds,
            types=types,
            ops=ops,
            max_changes=max_changes,
            max_bytes=max_bytes,
            branch=self.name,
        )

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
    ) -> FeedPage:
        return self.graph.changes(
            position,
            kinds=kinds,
            types=types,
            ops=ops,
            max_changes=max_changes,
            max_bytes=max_bytes,
            max_commits=max_commits,
            branch=self.name,
        )

    def baseline(
        self, *, kinds: Sequence[str] = (), types: Sequence[str] = (), ops: Sequence[str] = ()
    ) -> Baseline:
        return self.graph.baseline(kinds=kinds, types=types, ops=ops, branch=self.name)

    def entity_history(
        self, type_name: str, entity_id: str, *, kind: str | None = None
    ) -> EntityHistory:
        return self.graph.entity_history(type_name, entity_id, kind=kind, branch=self.name)

    def set_consumer(
        self,
        name: str,
        position: str | None = None,
        *,
        lasts: datetime.timedelta = datetime.timedelta(days=7),
    ) -> Consumer:
        return self.graph.set_consumer(name, position, lasts=lasts, branch=self.name)

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

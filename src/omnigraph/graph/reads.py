"""The verbs that read a branch: queries, rows, commits and views of the past."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from msgspec import structs

from omnigraph.catalog.catalog import Catalog
from omnigraph.errors import BadRequest
from omnigraph.execution.read import ReadLimits
from omnigraph.graph import blobs, revisions
from omnigraph.graph.conversion.row_formats import TypeRows
from omnigraph.graph.engines import EngineName
from omnigraph.graph.graph_view import GraphView
from omnigraph.graph.open_graph import GraphHandle, list_recoveries
from omnigraph.graph.queries import QueryResult
from omnigraph.graph.results import PlanText
from omnigraph.graph.revisions import RevisionLike, format_optional_revision, format_revision
from omnigraph.identity import MAIN
from omnigraph.language.source import SourceText
from omnigraph.policy.decision import Action
from omnigraph.storage.manifest import RecoveryAudit
from omnigraph.wire.commit_results import Commit
from omnigraph.wire.read_results import SnapshotInfo
from omnigraph.wire.write_results import RecordedWrite

if TYPE_CHECKING:
    from omnigraph.plan.query_lint import LintReport


class ReadVerbs(GraphHandle):
    """Reading a branch."""

    @property
    def schema(self) -> str:
        """The accepted schema, as written.

        >>> graph.schema.splitlines()[-1]
        'edge Knows: Person -> Person'
        """
        self._guard.allow(Action.READ)
        return self._open.views.read_newest(self._choose(None)).snapshot.contract.source

    @property
    def catalog(self) -> Catalog:
        """The accepted schema, compiled.

        >>> [property.name for property in graph.catalog.nodes["Person"].properties]
        ['age', 'name', 'photo']
        """
        return self.at().catalog

    def query(
        self,
        query: str | Path | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        limits: ReadLimits | None = None,
    ) -> QueryResult:
        """Run a read query on the current state of a branch.

        `engine="spark"` runs it with data frames, in the given session or the default one; its
        result also has `to_spark()`. In this process `limits` are checked before every block of
        rows, and may end the query.

        >>> older = "query q($a: I32) { match { $p: Person  $p.age > $a } return { $p.name } }"
        >>> graph.query(older, params={"a": 30}).rows
        [{'p.name': 'Ada'}]
        """
        view = self.at(branch=branch)
        return view.query(
            query,
            name,
            params,
            engine=engine,
            session=session,
            spark_conf=spark_conf,
            limits=limits,
        )

    def explain(
        self,
        query: str | Path | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        analyze: bool = False,
    ) -> PlanText:
        """Return the plan of a query; with `analyze` also rows and time of each operator.

        >>> print(graph.explain("query q() { match { $p: Person } return { $p.name } }"))
        query q()
        Project  columns: $p.name
        └─ Sort  by: ids of p
           └─ Scan  $p: Person  read: name
        """
        return self.at(branch=branch).explain(query, name, params, analyze=analyze)

    def lint(self, queries: str | Path | SourceText, *, branch: str | None = None) -> LintReport:
        """Check every query of a text against the schema of a branch; runs none.

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
        branch: str | None = None,
        start: int | None = None,
        length: int | None = None,
    ) -> blobs.Blob:
        """The blob of one entity in the current state of a branch, or a range of it.

        Nothing is read until its bytes are requested: `blob.stat` reads no payload. `kind` is
        "node" or "edge", and needed only if a node type and an edge type share the name.

        >>> graph.read_blob("Person", "Ada", "photo").read()
        b'pixels'
        """
        return self.at(branch=branch).read_blob(
            type_name, entity_id, property, kind=kind, start=start, length=length
        )

    def nodes(self, type_name: str, *, branch: str | None = None) -> TypeRows:
        """The nodes of a type in the current state of a branch: `.to_arrow()`, `.to_spark()`.

        >>> graph.nodes("Person").to_arrow().select(["name", "age"]).sort_by("name").to_pylist()
        [{'name': 'Ada', 'age': 36}, {'name': 'Ben', 'age': None}]
        """
        return self._pin(self._open.views.read_newest(self._choose(branch))).nodes(type_name)

    def edges(self, type_name: str, *, branch: str | None = None) -> TypeRows:
        """The edges of a type in the current state of a branch: `.to_arrow()`, `.to_spark()`.

        >>> graph.edges("Knows").to_arrow().select(["src", "dst"]).to_pylist()
        [{'src': 'Ada', 'dst': 'Ben'}]
        """
        return self._pin(self._open.views.read_newest(self._choose(branch))).edges(type_name)

    def export(
        self, types: Sequence[str] | None = None, *, branch: str | None = None
    ) -> Iterator[dict[str, object]]:
        """Every record in the current state of a branch.

        >>> next(graph.export(["Knows"]))
        {'edge': 'Knows', 'from': 'Ada', 'to': 'Ben', 'data': {'id': 'k1'}}
        """
        return self._pin(self._open.views.read_newest(self._choose(branch))).export(types)

    def commits(
        self,
        branch: str | None = None,
        *,
        limit: int | None = None,
        before: RevisionLike | None = None,
        after: RevisionLike | None = None,
        types: Sequence[str] = (),
        kinds: Sequence[str] = (),
    ) -> tuple[Commit, ...]:
        """The commits of a branch, newest first.

        Args:
            branch: The branch.
            limit: The maximum number of commits.
            before: Only those older than this commit, or made up to this time.
            after: Only those newer than this commit, or made after this time.
            types: Only those that changed rows of these types. Commits of releases that did not
                record what they changed are listed too.
            kinds: Only those made by `load`, `mutation`, `schema_apply`, `branch_merge`, `revert`,
                `cherry_pick`, `restore`, `init`, `optimize` or `recovery`.

        >>> [(commit.kind, commit.actor_id) for commit in graph.commits()]
        [('load', 'maria'), ('init', 'maria')]
        >>> graph.commits(limit=1)[0].tables[1]
        RowCounts(table_key='node:Person', inserted=2, updated=0, deleted=0)
        """
        from omnigraph.graph.revisions import CommitRange, list_commits

        branch = self._choose(branch)
        self._guard.allow(Action.READ, branch=branch)
        self._require_visible(types, branch)
        asked = CommitRange(
            limit,
            format_optional_revision(before),
            format_optional_revision(after),
            tuple(types),
            tuple(kinds),
        )
        found = list_commits(self._open.views, branch, asked)
        return self._hide_tables(tuple(one.shown for one in found), branch)

    def _hide_tables(self, commits: tuple[Commit, ...], branch: str) -> tuple[Commit, ...]:
        """Remove the row counts of types that are hidden from the actor from commits."""
        if self.policy is None:
            return commits
        seen = self._guard.see(self._open.views.read_newest(branch)).catalog.by_table_key
        return tuple(
            structs.replace(
                commit, tables=tuple(one for one in commit.tables if one.table_key in seen)
            )
            for commit in commits
        )

    def commit(self, commit_id: RevisionLike, branch: str | None = None) -> Commit:
        """Return one commit by its id or another revision, as `at` takes it.

        An id is looked up on the branch and then on all others.

        >>> newest = graph.commits()[0]
        >>> graph.commit(newest.commit_id) == graph.commit("HEAD") == newest
        True
        >>> graph.commit("HEAD~1") == graph.commits()[1]
        True
        """
        self._guard.allow(Action.READ)
        wanted, where = format_revision(commit_id), self._choose(branch)
        found = revisions.find_commit(self._open.views, wanted, where)
        return self._hide_tables((found.shown,), where)[0]

    def snapshot(self, branch: str | None = None) -> SnapshotInfo:
        """The table versions that make up a branch now.

        >>> {table.table_key: table.row_count for table in graph.snapshot().tables}
        {'edge:Knows': 1, 'node:Person': 2}
        """
        return self._pin(self._open.views.read_newest(self._choose(branch))).info()

    def at(
        self,
        revision: RevisionLike | None = None,
        *,
        commit: RevisionLike | None = None,
        snapshot: str | None = None,
        version: int | None = None,
        branch: str | None = None,
    ) -> GraphView:
        """Return the graph at a revision, a commit, a snapshot id or a manifest version.

        A revision is a text that names a branch, a tag, a commit (or a prefix of its id), a
        version or a time of the branch; a suffix `~2` names the second first-parent before it.
        `HEAD` is the newest commit of the branch. A `Commit`, `Tag`, `Branch` or view and an aware
        `datetime` are revisions too. By default, the current state of the branch, pinned.

        >>> before = graph.at(commit=graph.commits()[-1].commit_id)
        >>> list(before.export())
        []
        >>> len(graph.at("2").nodes("Person"))
        2
        """
        branch = self._choose(branch)
        given = [value for value in (revision, commit, snapshot, version) if value is not None]
        if len(given) > 1:
            raise BadRequest("give one of revision, commit, snapshot and version")
        # Only its branch tells who may read a state; one that is missing counts as one of `main`.
        with self._guard.hide_missing(MAIN if given else branch):
            if revision is not None:
                found = revisions.resolve_revision(
                    self._open.views, format_revision(revision), branch
                )
            elif commit is not None:
                found = revisions.find_state(self._open.views, format_revision(commit), branch)
            elif version is not None:
                found = revisions.find_version(self._open.views, version, branch)
            elif snapshot is not None:
                found = revisions.find_snapshot(self._open.views, snapshot, branch)
            else:
                found = revisions.Revision(self._open.views.read_newest(branch), None)
        return self._pin(found.view, found.snapshot)

    def find_write(
        self, idempotency_key: str, *, branch: str | None = None, actor: str | None = None
    ) -> RecordedWrite:
        """Look up a write by its idempotency key, as the actor who sent it.

        Raises:
            WriteNotFound: no commit of the branch is recorded under it, and no branch was created,
                renamed or deleted.

        >>> add = 'query q() { insert Person { name: "Cy" } }'
        >>> first = graph.mutate(add, idempotency_key="add-cy")
        >>> again = graph.mutate(add, idempotency_key="add-cy")
        >>> again.commit == first.commit == graph.find_write("add-cy").commit
        True
        >>> again.is_replayed, len(graph.nodes("Person"))
        (True, 3)
        """
        from omnigraph.graph.idempotency import find_write

        self._guard.allow(Action.CHANGE, branch=self._choose(branch), actor=actor)
        who = actor or self.actor
        return find_write(self._open.views, idempotency_key, who, self._choose(branch))

    def recovery_list(self, branch: str | None = None) -> tuple[RecoveryAudit, ...]:
        """The recovered writes recorded on a branch.

        >>> graph.recovery_list()
        ()
        """
        self._guard.allow(Action.ADMIN)
        return list_recoveries(self._open.views, self._choose(branch))

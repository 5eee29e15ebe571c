"""The verbs that read a branch of a served graph."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from omnigraph.client.http_connection import ClientRequest, ServerConnection
from omnigraph.client.served_object import (
    ServedObject,
    refuse_actor,
    require_default,
    with_source_name,
)
from omnigraph.client.served_results import (
    ServedBaseline,
    ServedBlob,
    ServedQueryResult,
    ServedTypeRows,
    decode_lines,
    export_lines,
)
from omnigraph.client.served_view import (
    ServedView,
    ask_for_lint,
    open_view,
    refuse_engine,
    run_query,
)
from omnigraph.errors import BadRequest
from omnigraph.graph.engines import EngineName
from omnigraph.graph.results import PlanText, normalize_branch
from omnigraph.graph.revisions import (
    RevisionLike,
    format_optional_revision,
    format_revision,
    is_full_id,
    require_countable,
)
from omnigraph.language.source import SourceText, as_source_text
from omnigraph.operations import operation_table as routes
from omnigraph.plan.query_lint import LintReport
from omnigraph.wire.change_results import CommitChanges, FeedPage
from omnigraph.wire.commit_results import Commit
from omnigraph.wire.http_protocol import ARROW_STREAM
from omnigraph.wire.read_results import SnapshotInfo
from omnigraph.wire.request_bodies import (
    ChangeBaselineRequest,
    ExplainRequest,
    ExportRequest,
    LintRequest,
    QueryRequest,
)
from omnigraph.wire.write_results import RecordedWrite

_PAGE = 10_000
_STARTS = ("now", "beginning")


class ServedReading(ServedObject):
    """Verbs of a served graph that read a branch; each takes another branch by name."""

    def __init__(self, connection: ServerConnection, branch: str) -> None:
        self._connection, self._default_branch = connection, branch

    def _choose(self, branch: str | None) -> str:
        return normalize_branch(self._default_branch if branch is None else branch)

    @property
    def uri(self) -> str:
        """The address of the graph."""
        return self._connection.address.url

    @property
    def actor(self) -> None:
        """None: the server takes the actor from the token."""
        return None

    @property
    def read_only(self) -> bool:
        """False: the server decides what may be written."""
        return False

    @property
    def schema(self) -> str:
        """The accepted schema, as written."""
        request = ClientRequest(routes.GET_SCHEMA, parameters=(("branch", self._choose(None)),))
        return self._connection.ask(request).schema_source

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
        limits: object | None = None,
    ) -> ServedQueryResult:
        """Run a read query on the current state of a branch; its rows are streamed."""
        refuse_engine(engine, session, spark_conf, limits)
        where = self._choose(branch)
        text = as_source_text(query, "<query>")
        body = QueryRequest(
            query=text.text,
            name=name,
            params=None if params is None else dict(params),
            branch=where,
        )
        with with_source_name(text):
            return run_query(
                self._connection,
                ClientRequest(routes.QUERY, body=body, accept=ARROW_STREAM),
                {"branch": where, "snapshot": None},
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
        """Return the plan of a query; with `analyze` also rows and time of each operator."""
        text = as_source_text(query, "<query>")
        body = ExplainRequest(
            query=text.text,
            name=name,
            params=None if params is None else dict(params),
            branch=self._choose(branch),
            analyze=analyze,
        )
        with with_source_name(text):
            request = ClientRequest(routes.EXPLAIN, body=body)
            return PlanText(self._connection.ask(request).text)

    def lint(self, queries: str | Path | SourceText, *, branch: str | None = None) -> LintReport:
        """Check queries against the schema of a branch, without running any."""
        text = as_source_text(queries, "<query>")
        body = LintRequest(queries=text.text, name=text.name, branch=self._choose(branch))
        return ask_for_lint(self._connection, body)

    def nodes(self, type_name: str, *, branch: str | None = None) -> ServedTypeRows:
        """The nodes of a type in the current state of a branch."""
        return self.at(branch=branch).nodes(type_name)

    def edges(self, type_name: str, *, branch: str | None = None) -> ServedTypeRows:
        """The edges of a type in the current state of a branch."""
        return self.at(branch=branch).edges(type_name)

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
    ) -> ServedBlob:
        """The blob of one entity in the current state of a branch, or a range of it."""
        return self.at(branch=branch).read_blob(
            type_name, entity_id, property, kind=kind, start=start, length=length
        )

    def export(
        self, types: Sequence[str] | None = None, *, branch: str | None = None
    ) -> Iterator[dict[str, object]]:
        """Every record in the current state of a branch."""
        request = ExportRequest(branch=self._choose(branch), type_names=list(types or ()))
        return decode_lines(export_lines(self._connection, request))

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
        """The commits of a branch, newest first."""
        if limit is not None and limit < 1:
            require_countable(limit)
            return ()
        asked = (
            ("branch", self._choose(branch)),
            *(
                (name, format_revision(one))
                for name, one in (("before", before), ("after", after))
                if one
            ),
            *(("type", one) for one in types),
            *(("commit_kind", one) for one in kinds),
        )
        found: list[Commit] = []
        token: tuple[tuple[str, str], ...] = ()
        while True:
            room = () if limit is None else (("limit", str(min(limit - len(found), _PAGE))),)
            body = self._connection.ask(
                ClientRequest(routes.LIST_COMMITS, parameters=(*asked, *room, *token))
            )
            found += body.commits
            if body.next_page_token is None or len(found) == limit:
                return tuple(found)
            token = (("page_token", body.next_page_token),)

    def commit(self, commit_id: RevisionLike, branch: str | None = None) -> Commit:
        """Return one commit of any branch by its id, or by another revision, as `at` takes it."""
        wanted = self._find_commit_id(commit_id, branch)
        request = ClientRequest(routes.GET_COMMIT, path={"commit_id": wanted})
        return self._connection.ask(request)

    def _find_commit_id(self, commit: RevisionLike, branch: str | None) -> str:
        """Resolve a revision to a commit id; a full id is not looked up."""
        wanted, where = format_revision(commit).strip(), self._choose(branch)
        if is_full_id(wanted):
            return wanted
        view = open_view(self._connection, where, wanted, None)
        assert view.commit_id is not None, "a graph is created with a commit"
        return view.commit_id

    def _find_head(self, expected: RevisionLike | None, branch: str | None) -> str | None:
        """Return the id of the expected head of a branch, if one is given."""
        return None if expected is None else self._find_commit_id(expected, branch)

    def snapshot(self, branch: str | None = None) -> SnapshotInfo:
        """The table versions that make up a branch now."""
        parameters = (("branch", self._choose(branch)),)
        request = ClientRequest(routes.GET_SNAPSHOT, parameters=parameters)
        return self._connection.ask(request)

    def at(
        self,
        revision: RevisionLike | None = None,
        *,
        commit: RevisionLike | None = None,
        snapshot: str | None = None,
        version: int | None = None,
        branch: str | None = None,
    ) -> ServedView:
        """Return the graph at a revision, a commit, a snapshot id or a manifest version.

        By default, the current state of the branch, pinned.
        """
        given = [value for value in (revision, commit, snapshot, version) if value is not None]
        if len(given) > 1:
            raise BadRequest("give one of revision, commit, snapshot and version")
        where = self._choose(branch)
        named = format_optional_revision(revision) if version is None else f"version:{version}"
        if commit is not None:
            snapshot = format_revision(commit)
            if not snapshot.startswith("manifest:"):
                snapshot = self._find_commit_id(commit, branch)
        return open_view(self._connection, where, named, snapshot)

    # --- changes --------------------------------------------------------------------------------

    def commit_changes(
        self,
        commit: RevisionLike,
        *,
        page_token: str | None = None,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        max_changes: int = 1_000,
        max_bytes: int = 4 << 20,
        branch: str | None = None,
    ) -> CommitChanges:
        """Return a page of the changes of a commit relative to its first parent, with images."""
        require_default({"max_bytes": (max_bytes, 4 << 20)}, "commit_changes")
        commit_id = self._find_commit_id(commit, branch)
        page = () if page_token is None else (("page_token", page_token),)
        request = ClientRequest(
            routes.GET_COMMIT_CHANGES,
            path={"commit_id": commit_id},
            parameters=(("limit", str(max_changes)), *page, *list_filter(kinds, types, ops)),
        )
        return self._connection.ask(request)

    def changes(
        self,
        position: str | Commit = "now",
        *,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        max_changes: int = 1_000,
        max_bytes: int = 4 << 20,
        max_commits: int = 128,
        branch: str | None = None,
    ) -> FeedPage:
        """Return a page of the change feed of a branch: commits oldest first, with the changes."""
        require_default({"max_bytes": (max_bytes, 4 << 20)}, "changes")
        text = position.strip() if isinstance(position, str) else f"after:{position.commit_id}"
        named = "start" if text in _STARTS or text.startswith("after:") else "cursor"
        request = ClientRequest(
            routes.POLL_CHANGES,
            parameters=(
                ("branch", self._choose(branch)),
                (named, text),
                ("limit", str(max_changes)),
                ("max_commits", str(max_commits)),
                *list_filter(kinds, types, ops),
            ),
        )
        return self._connection.ask(request)

    def baseline(
        self,
        *,
        kinds: Sequence[str] = (),
        types: Sequence[str] = (),
        ops: Sequence[str] = (),
        branch: str | None = None,
    ) -> ServedBaseline:
        """A copy of a branch to start following its feed from; `ops` only bind the cursor."""
        request = ChangeBaselineRequest(
            branch=self._choose(branch), kind=list(kinds), type=list(types), op=list(ops)
        )
        return ServedBaseline(self._connection, request)

    def stored_queries(self) -> list[dict[str, object]]:
        """List the stored queries with their parameters and results."""
        body = self._connection.ask(ClientRequest(routes.LIST_QUERIES))
        return body.queries

    def find_write(
        self, idempotency_key: str, *, branch: str | None = None, actor: str | None = None
    ) -> RecordedWrite:
        """Look up a write by its idempotency key, as the actor who sent it."""
        refuse_actor(actor)
        request = ClientRequest(
            routes.GET_WRITE,
            path={"key": idempotency_key},
            parameters=(("branch", self._choose(branch)),),
        )
        return self._connection.ask(request)


def list_filter(
    kinds: Sequence[str], types: Sequence[str], ops: Sequence[str]
) -> Iterator[tuple[str, str]]:
    """Yield the query parameters that filter changes."""
    for name, values in (("kind", kinds), ("type", types), ("op", ops)):
        for value in values:
            yield name, value

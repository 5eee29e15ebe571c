"""ServedView: one immutable state of a served graph, and its read verbs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path

from omnigraph.client.http_connection import ClientRequest, ServerConnection
from omnigraph.client.served_object import ServedObject, require_default, with_source_name
from omnigraph.client.served_results import (
    ServedBlob,
    ServedQueryResult,
    ServedTypeRows,
    StreamedRows,
    decode_lines,
    export_lines,
    format_state,
    read_blob,
)
from omnigraph.graph.blobs import BlobSelector
from omnigraph.graph.engines import EngineName
from omnigraph.graph.results import PlanText
from omnigraph.identity import EntityKind
from omnigraph.language.source import SourceText, as_source_text
from omnigraph.operations import operation_table as routes
from omnigraph.plan.query_lint import LintReport
from omnigraph.wire.http_protocol import ARROW_STREAM, COMMIT_ID, QUERY_NAME
from omnigraph.wire.read_results import (
    Explanation,
    QueryRows,
    SnapshotInfo,
    render_types_html,
)
from omnigraph.wire.request_bodies import (
    ExplainRequest,
    ExportRequest,
    LintRequest,
    QueryRequest,
)


class ServedView(ServedObject):
    """One immutable state of a served graph: a branch head, a commit or an earlier version."""

    def __init__(
        self, connection: ServerConnection, info: SnapshotInfo, snapshot: str | None
    ) -> None:
        self._connection, self._info, self._snapshot = connection, info, snapshot

    def __repr__(self) -> str:
        url, info = self._connection.address.url, self._info
        return f"ServedView({url!r}, {info.graph_branch!r}, {self._snapshot or info.snapshot_id!r})"

    def _repr_html_(self) -> str:
        """Render the types with their row counts, for notebooks."""
        info = self._info
        url = self._connection.address.url
        note = f"{url}; branch {info.graph_branch} at {info.snapshot_id}"
        return render_types_html(info, note)

    @property
    def revision(self) -> str:
        """The revision of this state, which names its branch too."""
        return format_state(self._info)

    @property
    def schema(self) -> str:
        """The schema the rows of this view follow, as written."""
        request = ClientRequest(routes.GET_SCHEMA, parameters=(("snapshot", self.revision),))
        return self._connection.ask(request).schema_source

    def explain(
        self,
        query: str | Path | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        analyze: bool = False,
    ) -> PlanText:
        """Return the plan of a query; with `analyze` also rows and time of each operator."""
        return PlanText(self._explain(query, name, params, analyze=analyze).text)

    def explain_json(
        self, query: str | Path | SourceText, name: str | None = None
    ) -> dict[str, object]:
        """The plan of a query as a JSON document."""
        plan = self._explain(query, name, None, analyze=False).plan
        return plan or {}

    def _explain(
        self,
        query: str | Path | SourceText,
        name: str | None,
        params: Mapping[str, object] | None,
        *,
        analyze: bool,
    ) -> Explanation:
        text = as_source_text(query, "<query>")
        body = ExplainRequest(
            query=text.text,
            name=name,
            params=_as_dict(params),
            snapshot=self.revision,
            analyze=analyze,
        )
        with with_source_name(text):
            request = ClientRequest(routes.EXPLAIN, body=body)
            return self._connection.ask(request)

    @property
    def commit_id(self) -> str | None:
        """The newest commit this view contains."""
        return self._info.graph_commit_id

    def info(self) -> SnapshotInfo:
        """Return the table versions of this view."""
        return self._info

    def query(
        self,
        query: str | Path | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        engine: EngineName = "local",
        session: object | None = None,
        spark_conf: Mapping[str, str] | None = None,
        limits: object | None = None,
    ) -> ServedQueryResult:
        """Run a read query of a text on this view."""
        refuse_engine(engine, session, spark_conf, limits)
        text = as_source_text(query, "<query>")
        request = QueryRequest(
            query=text.text, name=name, params=_as_dict(params), snapshot=self.revision
        )
        branch = None if self._snapshot else self._info.graph_branch
        with with_source_name(text):
            return run_query(
                self._connection,
                ClientRequest(routes.QUERY, body=request, accept=ARROW_STREAM),
                {"branch": branch, "snapshot": self._snapshot},
            )

    def nodes(self, type_name: str) -> ServedTypeRows:
        """All nodes of a type."""
        return ServedTypeRows(self._connection, self._info, EntityKind.NODE, type_name)

    def edges(self, type_name: str) -> ServedTypeRows:
        """All edges of a type."""
        return ServedTypeRows(self._connection, self._info, EntityKind.EDGE, type_name)

    def lint(self, queries: str | Path | SourceText) -> LintReport:
        """Check queries against the schema of this view, without running any."""
        text = as_source_text(queries, "<query>")
        body = LintRequest(queries=text.text, name=text.name, snapshot=self.revision)
        return ask_for_lint(self._connection, body)

    def read_blob(
        self,
        type_name: str,
        entity_id: str,
        property: str,
        *,
        kind: str | None = None,
        start: int | None = None,
        length: int | None = None,
    ) -> ServedBlob:
        """The blob of one entity in this view, or a range of it; nothing is read yet."""
        selector = BlobSelector(type_name, entity_id, property, kind)
        where = (("snapshot", self.revision),)
        return read_blob(self._connection, selector, where, start, length)

    def export(self, types: Sequence[str] | None = None) -> Iterator[dict[str, object]]:
        """Every record, edges before nodes, each type by ascending id."""
        return decode_lines(self.export_jsonl(types))

    def export_jsonl(self, types: Sequence[str] | None = None) -> Iterator[bytes]:
        """Yield every record as blocks of JSON lines."""
        request = ExportRequest(snapshot=self.revision, type_names=list(types or ()))
        return export_lines(self._connection, request)


def open_view(
    connection: ServerConnection,
    branch: str,
    revision: str | None = None,
    snapshot: str | None = None,
) -> ServedView:
    """Resolve a branch, a revision or a snapshot id, and pin its current state."""
    named = revision if snapshot is None else f"snapshot:{snapshot}"
    at = () if named is None else (("at", named),)
    parameters = (("branch", branch), *at)
    info = connection.ask(ClientRequest(routes.GET_SNAPSHOT, parameters=parameters))
    if snapshot is not None:
        return ServedView(connection, info, snapshot)
    is_branch = revision is None or revision.strip().removeprefix("branch:") == info.graph_branch
    return ServedView(connection, info, None if is_branch else info.snapshot_id)


def run_query(
    connection: ServerConnection,
    request: ClientRequest[QueryRows],
    target: Mapping[str, str | None],
) -> ServedQueryResult:
    """Run a query; return once its first rows are ready."""
    response = connection.start(request)
    rows = StreamedRows(response, connection.address.base)
    headers = response.headers
    return ServedQueryResult(headers.get(QUERY_NAME, ""), rows, target, headers.get(COMMIT_ID))


def ask_for_lint(connection: ServerConnection, body: LintRequest) -> LintReport:
    """Check queries on the server."""
    return connection.ask(ClientRequest(routes.LINT, body=body))


def refuse_engine(
    engine: str,
    session: object | None,
    spark_conf: Mapping[str, str] | None,
    limits: object | None = None,
) -> None:
    """Refuse options of engines: a server runs everything in its own process."""
    given = {
        "engine": (engine, "local"),
        "session": (session, None),
        "spark_conf": (spark_conf or None, None),
        "limits": (limits, None),
    }
    require_default(given, "a verb")


def _as_dict(params: Mapping[str, object] | None) -> dict[str, object] | None:
    return None if params is None else dict(params)

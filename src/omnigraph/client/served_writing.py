"""The verbs that change a branch of a served graph, each as one commit or not at all."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from omnigraph.client.http_connection import ClientRequest
from omnigraph.client.sent_writes import (
    is_replayed,
    make_key,
    send_once,
    send_write,
)
from omnigraph.client.served_reading import ServedReading
from omnigraph.client.served_rows import ServedQueryResult, StreamedRows
from omnigraph.client.served_view import refuse_engine
from omnigraph.client.source_names import naming_file, naming_source
from omnigraph.client.unserved import refuse_actor, require_default
from omnigraph.client.wire_reading import (
    read_load,
    read_mutation,
)
from omnigraph.errors import NotServed
from omnigraph.graph.engines import LoadEngineName, ModeName
from omnigraph.graph.graph_view import as_source_text
from omnigraph.graph.place_names import PlaceLike, name_optional_place
from omnigraph.graph.results import LoadResult, MutationResult
from omnigraph.language.source import SourceText
from omnigraph.plan.compile import compile_catalog
from omnigraph.wire import request_bodies as asks
from omnigraph.wire import response_bodies as bodies
from omnigraph.wire.http_names import (
    ARROW_STREAM,
    COMMIT_ID,
    IF_GRAPH_COMMIT,
    JSON,
    QUERY_NAME,
)

if TYPE_CHECKING:
    from omnigraph.catalog.catalog import Catalog
    from omnigraph.graph.loading import Input
    from omnigraph.output_files import OutputFile


class ServedWriting(ServedReading):
    """Changing a branch through a server."""

    def mutate(
        self,
        query: str | Path | SourceText,
        name: str | None = None,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        expected_head: PlaceLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> MutationResult:
        """Run a mutation of a query text as one commit, made once even if connections get lost."""
        refuse_actor(actor)
        where, text = self._choose(branch), as_source_text(query, "<query>")
        body = asks.MutateRequest(
            query=text.text,
            name=name,
            params=None if params is None else dict(params),
            branch=where,
            message=message,
        )
        request = ClientRequest("mutate", body=body)
        head = self._find_head(expected_head, branch)
        if head is not None:
            condition = {IF_GRAPH_COMMIT: head}
            request = ClientRequest("mutate_if_graph_commit", body=body, headers=condition)
        with naming_source(text):
            answer = send_write(self._connection, request, make_key(idempotency_key), where)
        done = self._connection.decode(answer, bodies.ChangeOutput)
        return read_mutation(done, is_replayed=is_replayed(answer))

    def load(
        self,
        records: Input,
        mode: ModeName,
        *,
        branch: str | None = None,
        base: str | None = None,
        expected_head: PlaceLike | None = None,
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
        """Load records as one commit or not at all: a file of JSON lines, its bytes, or rows."""
        from omnigraph.graph.loading import convert_to_lines  # noqa: PLC0415 - loads the engine

        refuse_actor(actor)
        refuse_engine("local" if engine in (None, "auto") else engine, session, spark_conf)
        given = {
            "format": (None if format == "jsonl" else format, None),
            "on_error": (on_error, "fail"),
            "rejects": (rejects, None),
            "delimiter": (delimiter, None),
        }
        require_default(given, "load")
        where = self._choose(branch)
        lines = convert_to_lines(
            records, self._read_catalog, type=type, columns=columns, select=select
        )
        if lines is None:
            raise NotServed(
                "loading anything but one file of JSON lines, its bytes or records",
                "write it as JSON lines first, or load it where the graph is stored",
            )
        data, file = lines
        start = () if base is None else (("from", base),)
        expected = self._find_head(expected_head, base or branch)
        head = () if expected is None else (("expected_head", expected),)
        kept = (("partial", "true"),) if partial else ()
        found_by = [("match", name) for name in match]
        said = () if message is None else (("message", message),)
        parameters = (
            ("branch", where),
            ("mode", str(mode)),
            *start,
            *head,
            *kept,
            *found_by,
            *said,
        )
        request = ClientRequest("loadNdjson", parameters=parameters, data=data)
        with naming_file(file):
            answer = send_write(self._connection, request, make_key(idempotency_key), where)
        done = self._connection.decode(answer, bodies.GraphBatchLoadOutput)
        return read_load(done, is_replayed=is_replayed(answer))

    def invoke(
        self,
        name: str,
        params: Mapping[str, object] | None = None,
        *,
        branch: str | None = None,
        snapshot: PlaceLike | None = None,
        expect_mutation: bool | None = None,
        expected_head: PlaceLike | None = None,
        actor: str | None = None,
        message: str | None = None,
        idempotency_key: str | None = None,
    ) -> ServedQueryResult | MutationResult:
        """Run a stored query, a read or a mutation."""
        refuse_actor(actor)
        read_at = name_optional_place(snapshot)
        where = None if read_at is not None and branch is None else self._choose(branch)
        body = asks.InvokeQueryRequest(
            params=None if params is None else dict(params),
            branch=where,
            snapshot=read_at,
            expect_mutation=expect_mutation,
            message=message,
        )
        head = self._find_head(expected_head, branch)
        request = ClientRequest(
            "invoke_query" if head is None else "invoke_query_if_graph_commit",
            path={"name": name},
            body=body,
            headers={} if head is None else {IF_GRAPH_COMMIT: head},
            accept=f"{ARROW_STREAM}, {JSON};q=0.5",
        )
        return send_once(
            self._connection,
            lambda keyed: self._read_invoked(keyed, where, read_at),
            request,
            make_key(idempotency_key),
            where or self._choose(None),
        )

    def _read_invoked(
        self, request: ClientRequest, branch: str | None, snapshot: str | None
    ) -> ServedQueryResult | MutationResult:
        """Rows or what was changed: what the query is, only the server knows."""
        response = self._connection.start(request)
        headers = response.headers
        if headers.get("Content-Type", "").startswith(ARROW_STREAM):
            rows = StreamedRows(response, self._connection.address.base)
            target = {"branch": branch, "snapshot": snapshot}
            return ServedQueryResult(
                headers.get(QUERY_NAME, ""), rows, target, headers.get(COMMIT_ID)
            )
        answer = self._connection.finish(response)
        done = self._connection.decode(answer, bodies.ChangeOutput)
        return read_mutation(done, is_replayed=is_replayed(answer))

    def _read_catalog(self) -> Catalog:
        """The accepted schema, compiled here: names and types are those of the server."""
        return compile_catalog(SourceText(self.schema, "<schema>"))

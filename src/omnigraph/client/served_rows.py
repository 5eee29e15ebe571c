"""Rows that a server sends as an Arrow stream: those of a query, and all of one type."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
from urllib3.exceptions import HTTPError

from omnigraph.client.http_connection import ClientRequest, ConnectionLost, ServerConnection
from omnigraph.client.unserved import refuse_verb
from omnigraph.errors import TypeNotFound
from omnigraph.graph.query_result import QueryResult
from omnigraph.graph.results import SnapshotInfo, TableInfo
from omnigraph.graph.type_rows import TypeRows
from omnigraph.identity import EntityKind, make_table_key
from omnigraph.wire.http_names import ARROW_STREAM

if TYPE_CHECKING:
    import urllib3


class StreamedRows:
    """Batches as they come; the connection is held until the last one is read."""

    def __init__(self, response: urllib3.BaseHTTPResponse, url: str) -> None:
        self._response, self._url = response, url
        with _telling_loss(url):
            self._reader = pa.ipc.open_stream(pa.PythonFile(response, "r"))

    @property
    def schema(self) -> pa.Schema:
        return self._reader.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        try:
            while True:
                with _telling_loss(self._url):
                    try:
                        batch = self._reader.read_next_batch()
                    except StopIteration:
                        # The end of the rows; that of the answer must follow.
                        self._response.read()
                        return
                yield batch
        finally:
            self._response.close()

    def to_arrow(self) -> pa.Table:
        return pa.Table.from_batches(self.batches(), self.schema)

    def close(self) -> None:
        """Read no further."""
        self._response.close()


@contextmanager
def _telling_loss(url: str) -> Iterator[None]:
    """Tell of a stream that is cut off as of a lost connection."""
    try:
        yield
    except (HTTPError, OSError, pa.ArrowInvalid) as error:
        raise ConnectionLost(url, f"the rows ended too early ({error})") from error


class ServedQueryResult(QueryResult):
    """A result whose rows come from a server."""

    def __init__(
        self,
        query_name: str,
        rows: StreamedRows,
        target: Mapping[str, str | None],
        commit_id: str | None,
    ) -> None:
        self._query_name = query_name
        self._take_rows(rows, target, commit_id)

    @property
    def query_name(self) -> str:
        return self._query_name

    def profile(self) -> NoReturn:
        refuse_verb("profile")


class ServedTypeRows(TypeRows):
    """The nodes or edges of a type in one state of a served graph; each reading asks the server."""

    def __init__(
        self, connection: ServerConnection, info: SnapshotInfo, kind: EntityKind, type_name: str
    ) -> None:
        self._connection, self._snapshot_id = connection, info.snapshot_id
        self._request = ClientRequest(
            "listRows",
            parameters=(("entity", kind), ("type", type_name), ("snapshot", name_state(info))),
            accept=ARROW_STREAM,
        )
        found = _find_table(info, kind, type_name)
        if found is None:
            self._start().close()  # says what is wrong with the name
            raise TypeNotFound(type_name, f"the schema has no type '{type_name}'")
        self._table = found

    def __repr__(self) -> str:
        return f"ServedTypeRows({self._table.table_key!r}, {self._snapshot_id!r})"

    def __len__(self) -> int:
        return self._table.row_count

    def _start(self) -> StreamedRows:
        response = self._connection.start(self._request)
        return StreamedRows(response, self._connection.address.base)

    def to_arrow(self) -> pa.Table:
        """Every row in memory, blobs included."""
        return self._start().to_arrow()

    @property
    def arrow_schema(self) -> pa.Schema:
        """The columns with their Arrow types."""
        rows = self._start()
        rows.close()
        return rows.schema

    def batches(self) -> Iterator[pa.RecordBatch]:
        """The same rows in batches, without holding them all."""
        return self._start().batches()

    def to_spark(self, *given: object, **named: object) -> NoReturn:  # noqa: ARG002 - refused
        refuse_verb("to_spark")


def _find_table(info: SnapshotInfo, kind: EntityKind, type_name: str) -> TableInfo | None:
    """The table of a type; the name of an edge may be written in another case."""
    tables = {one.table_key: one for one in info.tables}
    key = make_table_key(kind, type_name)
    if kind is EntityKind.NODE or key in tables:
        return tables.get(key)
    return {one.lower(): table for one, table in tables.items()}.get(key.lower())


def name_state(info: SnapshotInfo) -> str:
    """What names a state, and its branch too, whoever made its newest commit."""
    return f"manifest:{info.graph_branch}:v{info.graph_manifest_version}"

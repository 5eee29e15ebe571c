"""The rows of a query that a server runs, read from the Arrow stream it sends."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, NoReturn

import pyarrow as pa
from urllib3.exceptions import HTTPError

from omnigraph.client.http_connection import ConnectionLost
from omnigraph.client.unserved import refuse_verb
from omnigraph.graph.query_result import QueryResult

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

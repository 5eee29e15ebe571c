"""What a query may take: time, rows and memory; and its end when nobody waits for it."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

from omnigraph.errors import DeadlineExceeded, OmniError, ResourceLimitExceeded

if TYPE_CHECKING:
    import pyarrow as pa


class ClientLeft(OmniError):
    """Nobody waits for the answer any more; it is logged and never sent."""

    code = "client_left"
    http_status = 499

    def __init__(self) -> None:
        super().__init__("the client disconnected before the answer")


class QueryLimits:
    """Given to the engine with a query, which asks it between blocks of rows.

    What it raises ends the query. A block that is being made is finished first: native code
    cannot be interrupted.
    """

    def __init__(self, limit_s: float, most_rows: int = 0, most_bytes: int = 0) -> None:
        self._limit_s, self._most_rows, self._most_bytes = limit_s, most_rows, most_bytes
        self._deadline = time.monotonic() + limit_s if limit_s else None
        self._is_abandoned = False
        self._rows, self._bytes = 0, 0

    def abandon(self) -> None:
        """End the query: whoever asked has left."""
        self._is_abandoned = True

    def lift_deadline(self) -> None:
        """Let the rest take as long as the client takes to read it."""
        self._deadline = None

    def check(self) -> None:
        """Raise if the query shall not go on."""
        if self._is_abandoned:
            raise ClientLeft
        if self._deadline is not None and time.monotonic() > self._deadline:
            raise DeadlineExceeded(self._limit_s)

    def admit(self, batch: pa.RecordBatch) -> None:
        """Raise if the answer gets too large with this batch."""
        self._rows += batch.num_rows
        if self._most_rows and self._rows > self._most_rows:
            raise ResourceLimitExceeded("query_rows", self._most_rows, self._rows)
        if self._most_bytes:
            self._bytes += batch.nbytes
            if self._bytes > self._most_bytes:
                raise ResourceLimitExceeded("query_result_bytes", self._most_bytes, self._bytes)

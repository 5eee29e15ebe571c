"""Vocabulary of the HTTP interface: headers, media types and graph ids."""

from __future__ import annotations

import re

from omnigraph.errors import BadRequest

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW_STREAM = "application/vnd.apache.arrow.stream"
LINES = f"{NDJSON}; charset=utf-8"
"""Content type of a stream of lines."""
OCTETS = "application/octet-stream"

REQUEST_ID = "X-Request-Id"
"""Identifies a request in the response and the log; a client may choose it."""
IDEMPOTENCY_KEY = "Idempotency-Key"
"""Identifies a write, so that it is executed once however often it is sent."""
IF_GRAPH_COMMIT = "Omnigraph-If-Graph-Commit"
"""The commit a branch must be at for a write to be executed."""
COMMIT_ID = "Omnigraph-Commit-Id"
"""The commit that streamed rows were read at."""
QUERY_NAME = "Omnigraph-Query-Name"
SNAPSHOT_ID = "Omnigraph-Snapshot-Id"
ENTITY_KIND = "Omnigraph-Entity-Kind"
"""Whether a blob is one of a node or of an edge."""
REPLAYED = "Omnigraph-Replayed"
"""`true` in the response of a write that was executed earlier under the same key."""

MAX_KEY_LENGTH = 200
MAX_REQUEST_ID_LENGTH = 128


_GRAPH_ID = re.compile("[A-Za-z0-9-]{1,64}")
_RESERVED = frozenset({"policies", "healthz", "openapi", "graphs"})


def is_graph_id(text: str) -> bool:
    return bool(_GRAPH_ID.fullmatch(text)) and text not in _RESERVED


def check_graph_id(text: str) -> str:
    """Return a graph id; raise if it is invalid.

    Raises:
        BadRequest: the id is invalid.
    """
    if not is_graph_id(text):
        raise BadRequest(
            f"'{text[:80]}' cannot be the id of a graph: use 1 to 64 letters, digits and '-', and "
            f"none of {', '.join(sorted(_RESERVED))}"
        )
    return text

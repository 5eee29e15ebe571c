"""Names of headers and media types."""

from __future__ import annotations

JSON = "application/json"
NDJSON = "application/x-ndjson"
ARROW_STREAM = "application/vnd.apache.arrow.stream"
LINES = f"{NDJSON}; charset=utf-8"
"""What a stream of lines is called in an answer."""
OCTETS = "application/octet-stream"

REQUEST_ID = "X-Request-Id"
"""Names a request in the answer and in the log; a client may choose it."""
IDEMPOTENCY_KEY = "Idempotency-Key"
"""Names a write, so that it is made once however often it is sent."""
IF_GRAPH_COMMIT = "Omnigraph-If-Graph-Commit"
"""The head a branch must have for a write to be made."""
COMMIT_ID = "Omnigraph-Commit-Id"
"""The commit that streamed rows were read at."""
QUERY_NAME = "Omnigraph-Query-Name"
SNAPSHOT_ID = "Omnigraph-Snapshot-Id"
ENTITY_KIND = "Omnigraph-Entity-Kind"
"""Whether a blob is one of a node or of an edge."""
REPLAYED = "Omnigraph-Replayed"
"""`true` where a write had been made before, under the same idempotency key."""

LONGEST_KEY = 200
LONGEST_REQUEST_ID = 128

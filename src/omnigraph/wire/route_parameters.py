"""Parameters in addresses that several routes take, and the formats rows come in."""

from __future__ import annotations

from omnigraph.wire.http_names import ARROW_STREAM, JSON, NDJSON
from omnigraph.wire.route_spec import QueryParameter

BRANCH = QueryParameter("branch", "The branch; `main` by default.")
SNAPSHOT = QueryParameter("snapshot", "A commit or snapshot id, instead of a branch.")
EXPECTED_HEAD = QueryParameter("expected_head", "Only if the branch is at this commit.")
PAGES = (
    QueryParameter("limit", "At most so many.", is_number=True),
    QueryParameter("page_token", "The `next_page_token` of the page before."),
)
KINDS = ("node", "edge")
CHANGES = (
    QueryParameter("kind", "Only nodes, or only edges.", repeats=True, choices=KINDS),
    QueryParameter("type", "Only entities of these types.", repeats=True),
    QueryParameter(
        "op",
        "Only changes of these kinds.",
        repeats=True,
        choices=("insert", "update", "delete"),
    ),
)
ENTITY = (
    QueryParameter("type", "The type of the entity.", is_required=True),
    QueryParameter("id", "The id of the entity.", is_required=True),
)
BLOB = (
    QueryParameter(
        "entity",
        "What it belongs to; needed only if a node type and an edge type share the name.",
        choices=KINDS,
    ),
    *ENTITY,
    QueryParameter("property", "The property that holds it.", is_required=True),
)
YES_NO = ("true", "false")
ROWS = (JSON, NDJSON, ARROW_STREAM)

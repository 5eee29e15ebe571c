"""What a graph may be called by servers and clusters: its id is a part of paths of both."""

from __future__ import annotations

import re

from omnigraph.errors import BadRequest

_GRAPH_ID = re.compile("[A-Za-z0-9-]{1,64}")
_RESERVED = frozenset({"policies", "healthz", "openapi", "graphs"})


def is_graph_id(text: str) -> bool:
    return bool(_GRAPH_ID.fullmatch(text)) and text not in _RESERVED


def check_graph_id(text: str) -> str:
    """The id of a graph, if it can be one.

    Raises:
        BadRequest: it cannot.
    """
    if not is_graph_id(text):
        raise BadRequest(
            f"'{text[:80]}' cannot be the id of a graph: use 1 to 64 letters, digits and '-', and "
            f"none of {', '.join(sorted(_RESERVED))}"
        )
    return text

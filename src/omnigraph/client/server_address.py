"""The address of a served graph: `https://host/graphs/id`, possibly below a path of a proxy."""

from __future__ import annotations

import re
from dataclasses import dataclass
from urllib.parse import quote, urlsplit

from omnigraph.errors import BadRequest

_GRAPH_ID = re.compile(r"[A-Za-z0-9-]{1,64}")


@dataclass(frozen=True, slots=True)
class ServerAddress:
    """Where a server is, and which of its graphs is meant, if one is."""

    base: str
    """Scheme, host and the path the routes are below, without a slash at its end."""
    graph_id: str | None = None

    @property
    def url(self) -> str:
        return self.base if self.graph_id is None else f"{self.base}/graphs/{self.graph_id}"

    def select(self, graph_id: str) -> ServerAddress:
        """The address of one graph of the server."""
        if not _GRAPH_ID.fullmatch(graph_id):
            raise BadRequest(f"'{graph_id}' cannot be the id of a graph")
        return ServerAddress(self.base, graph_id)

    def join(self, path: str, values: dict[str, str]) -> str:
        """The address of a route; what is put into its path is encoded, slashes too."""
        if self.graph_id is not None:
            values = {**values, "graph_id": self.graph_id}
        encoded = {name: quote(value, safe="") for name, value in values.items()}
        return self.base + path.format(**encoded)


def parse_server(url: str) -> ServerAddress:
    """The address of a server, without a graph.

    Raises:
        BadRequest: it is none.
    """
    split = urlsplit(url.strip())
    if split.scheme not in ("http", "https") or not split.hostname:
        raise BadRequest(f"'{url}' is not the address of a server; write https://host")
    if split.username is not None or split.password is not None:
        raise BadRequest("a server is not addressed with a user or password; give a token")
    if split.query or split.fragment:
        raise BadRequest(f"'{url}': the address of a server has no query and no fragment")
    return ServerAddress(f"{split.scheme}://{split.netloc}{split.path.rstrip('/')}")


def parse_graph_address(url: str) -> ServerAddress:
    """The address of one graph of a server.

    Raises:
        BadRequest: it is none.
    """
    whole = parse_server(url).base
    base, found, graph_id = whole.rpartition("/graphs/")
    if not found or "/" in graph_id:
        raise BadRequest(f"'{url}' does not name a graph of a server; write https://host/graphs/ID")
    return ServerAddress(base).select(graph_id)

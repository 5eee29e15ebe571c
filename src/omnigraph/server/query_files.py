"""Which stored queries belong to which graph."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from omnigraph.errors import BadRequest
from omnigraph.stored_queries import QueryRegistry, load_registry
from omnigraph.wire.graph_ids import check_graph_id


@dataclass(frozen=True, slots=True)
class QueryFiles:
    """A file or folder of stored queries, and the graph it is for; without one, for all graphs."""

    path: str
    graph_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> QueryFiles:
        """`PATH` or `PATH=id`.

        >>> QueryFiles.parse("queries=team-a").graph_id
        'team-a'
        """
        path, sign, graph_id = text.rpartition("=")
        if sign and path and "/" not in graph_id:
            return cls(path, check_graph_id(graph_id))
        return cls(text)


def require_graphs(files: Collection[QueryFiles], served: Collection[str]) -> None:
    """Raise unless all of them are for graphs that are served.

    Raises:
        BadRequest: one is for another graph.
    """
    for one in files:
        if one.graph_id is not None and one.graph_id not in served:
            raise BadRequest(
                f"queries {one.path} are for graph '{one.graph_id}', which is not served; name it "
                "with --store"
            )


def load_queries(files: Collection[QueryFiles], graph_id: str) -> QueryRegistry:
    """The stored queries of a graph.

    Raises:
        BadRequest: a file cannot be read.
        CompileError: a file has mistakes.
    """
    return load_registry(*(one.path for one in files if one.graph_id in (None, graph_id)))

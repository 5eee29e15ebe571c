"""Which policy bundle is for which graph, and which for the server itself."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from omnigraph.errors import BadRequest
from omnigraph.policy import BundleKind, Policy, load_bundle
from omnigraph.wire.graph_ids import check_graph_id


@dataclass(frozen=True, slots=True)
class PolicyFile:
    """A bundle, and the graph it is for; without one, for every graph that has no other."""

    path: str
    graph_id: str | None = None

    @classmethod
    def parse(cls, text: str) -> PolicyFile:
        """`FILE` or `FILE=id`.

        >>> PolicyFile.parse("team.policy.yaml=team-a").graph_id
        'team-a'
        """
        path, sign, graph_id = text.rpartition("=")
        if sign and path and "/" not in graph_id:
            return cls(path, check_graph_id(graph_id))
        return cls(text)


@dataclass(frozen=True, slots=True)
class PolicyFiles:
    """The bundles a server was given; they are read at its start and at every reload."""

    of_graphs: tuple[PolicyFile, ...] = ()
    of_server: str | None = None

    def __bool__(self) -> bool:
        return bool(self.of_graphs) or self.of_server is not None

    def require_graphs(self, served: Collection[str]) -> None:
        """Raise unless each bundle is for one of these graphs and no graph has two.

        Raises:
            BadRequest: a bundle is for another graph, or a graph has two.
        """
        seen: set[str | None] = set()
        for one in self.of_graphs:
            if one.graph_id in seen:
                whose = "no id" if one.graph_id is None else f"the id '{one.graph_id}'"
                raise BadRequest(f"two policies with {whose}; a graph has at most one")
            if one.graph_id is not None and one.graph_id not in served:
                raise BadRequest(
                    f"policy {one.path} is for graph '{one.graph_id}', which is not served; name "
                    "it with --store"
                )
            seen.add(one.graph_id)

    def load_for_graph(self, graph_id: str) -> Policy | None:
        """The policy of a graph, if a bundle is for it.

        Raises:
            BadRequest: its file cannot be read.
            CompileError: it is not a bundle of a graph.
        """
        files = {one.graph_id: one.path for one in self.of_graphs}
        path = files.get(graph_id, files.get(None))
        return None if path is None else load_bundle(path)

    def load_for_server(self) -> Policy | None:
        """The policy of the server itself, if it has one.

        Raises:
            BadRequest: the file cannot be read.
            CompileError: it is not a bundle of a server.
        """
        return None if self.of_server is None else load_bundle(self.of_server, BundleKind.CLUSTER)

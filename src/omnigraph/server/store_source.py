"""Graphs, policies and stored queries as the flags of `omnigraph serve` name them."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from pathlib import PurePosixPath

from omnigraph.errors import BadRequest
from omnigraph.server.policy_binding import PolicyFiles
from omnigraph.server.query_files import QueryFiles, load_queries, require_graphs
from omnigraph.server.serving_source import GraphDefinition, ServingDefinitions
from omnigraph.wire.graph_ids import check_graph_id


@dataclass(frozen=True, slots=True)
class Store:
    """A graph to serve: where it is, and by which id."""

    uri: str
    graph_id: str

    @classmethod
    def parse(cls, text: str) -> Store:
        """`URI` or `URI=id`; without an id, the name of the folder without its ending.

        >>> Store.parse("data/people.omni").graph_id, Store.parse("s3://b/g=team-a").graph_id
        ('people', 'team-a')
        """
        uri, sign, graph_id = text.rpartition("=")
        if sign and uri and "/" not in graph_id:
            return cls(uri, check_graph_id(graph_id))
        name = PurePosixPath(text.rstrip("/")).name
        try:
            return cls(text, check_graph_id(name.removesuffix(".omni")))
        except BadRequest:
            raise BadRequest(
                f"'{name}' cannot be the id of a graph; give one, as in --store {text}=my-graph"
            ) from None


@dataclass(frozen=True, slots=True)
class StoreSource:
    """What the flags name; files are read again with every reload."""

    stores: tuple[Store, ...]
    policies: PolicyFiles = field(default_factory=PolicyFiles)
    queries: tuple[QueryFiles, ...] = ()

    def __post_init__(self) -> None:
        seen: set[str] = set()
        for store in self.stores:
            if store.graph_id in seen:
                raise BadRequest(f"two graphs have the id '{store.graph_id}'; give one with URI=id")
            seen.add(store.graph_id)
        if not self.stores:
            raise BadRequest(
                "no graph to serve; name one with --store, or a cluster with --cluster"
            )
        self.policies.require_graphs(seen)
        require_graphs(self.queries, seen)

    @property
    def is_cluster(self) -> bool:
        return False

    def read(self) -> ServingDefinitions:
        graphs = tuple(
            GraphDefinition(
                store.graph_id,
                store.uri,
                partial(self.policies.load_for_graph, store.graph_id),
                partial(load_queries, self.queries, store.graph_id),
            )
            for store in self.stores
        )
        return ServingDefinitions(graphs, bool(self.policies), self.policies.load_for_server)

    def find_mark(self) -> str:
        return ""

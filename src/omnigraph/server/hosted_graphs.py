"""The graphs a server has: which it serves, and which it could not open."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

import msgspec

from omnigraph.errors import BadRequest, NotFoundError, OmniError
from omnigraph.server.access import Authority
from omnigraph.settings import Settings
from omnigraph.stored_queries import QueryRegistry, check_queries
from omnigraph.wire.graph_ids import check_graph_id as check_graph_id

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph

OPENED_AT_ONCE = 4


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
class HostedGraph:
    """One graph that is served, and what decides who may do what with it."""

    id: str
    uri: str
    unguarded: Graph
    """As it was opened: nobody is asked. For what the server itself must know of it."""
    guarded: Graph
    """Under its authority; each request uses it on behalf of its actor."""
    authority: Authority
    queries: QueryRegistry

    @classmethod
    def bind(
        cls, store: Store, graph: Graph, authority: Authority, queries: QueryRegistry
    ) -> HostedGraph:
        """An open graph under an authority, with its stored queries.

        Raises:
            BadRequest: the policy names something that the schema does not have, or a query does
                not fit the schema.
        """
        if len(queries):
            broken = check_queries(queries, graph.catalog).breakages
            if broken:
                raise BadRequest(f"stored query '{broken[0].query}': {broken[0].message}")
        guarded = graph.with_queries(queries).as_actor(None, policy=authority)
        return cls(store.graph_id, store.uri, graph, guarded, authority, queries)


@dataclass(frozen=True, slots=True)
class HostedGraphs:
    """All of them; replaced as a whole when the server reads its configuration again."""

    served: Mapping[str, HostedGraph]
    quarantined: Mapping[str, str] = field(default_factory=dict)
    revision: int = 1

    def find(self, graph_id: str) -> HostedGraph:
        """A graph that is served.

        Raises:
            BadRequest: there can be no graph of this id.
            NotFoundError: there is none, or it is quarantined.
        """
        found = self.served.get(check_graph_id(graph_id))
        if found is None:
            raise NotFoundError(f"there is no graph '{graph_id}' here")
        return found


def digest_serving(graphs: HostedGraphs, server_authority: Authority) -> str:
    """Differs where what is served differs: graphs, their policies, and their stored queries."""
    served = [
        (one.id, one.authority, [(query.name, query.source.text) for query in one.queries])
        for one in graphs.served.values()
    ]
    what = (served, sorted(graphs.quarantined), server_authority)
    return hashlib.sha256(msgspec.json.encode(what, order="deterministic")).hexdigest()


def open_graphs(
    stores: Sequence[Store],
    find_authority: Callable[[str], Authority],
    find_queries: Callable[[str], QueryRegistry],
    settings: Settings,
    known: HostedGraphs | None = None,
) -> HostedGraphs:
    """Open every graph, several at a time; those that are open already are taken over.

    A graph that cannot be opened, or whose policy or queries cannot be used, is quarantined.

    Raises:
        OmniError: those of a graph that is served already cannot be used.
    """
    # The engine is loaded here and not by the threads: its native modules come one after the other.
    from omnigraph.graph.graph import open as open_graph  # noqa: PLC0415

    def bind(store: Store, graph: Graph) -> HostedGraph:
        authority, queries = find_authority(store.graph_id), find_queries(store.graph_id)
        return HostedGraph.bind(store, graph, authority, queries)

    def open_one(store: Store) -> HostedGraph | str:
        before = known.served.get(store.graph_id) if known else None
        if before is not None:
            return bind(store, before.unguarded)
        try:
            return bind(store, open_graph(store.uri, settings=settings))
        except OmniError as error:
            return error.message

    with ThreadPoolExecutor(OPENED_AT_ONCE, "omnigraph-open") as threads:
        opened = list(threads.map(open_one, stores))
    served: dict[str, HostedGraph] = {}
    quarantined: dict[str, str] = {}
    for store, result in sorted(
        zip(stores, opened, strict=True), key=lambda pair: pair[0].graph_id
    ):
        if isinstance(result, str):
            quarantined[store.graph_id] = result
        else:
            served[store.graph_id] = result
    return HostedGraphs(served, quarantined, known.revision + 1 if known else 1)

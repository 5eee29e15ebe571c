"""The graphs a server has: which it serves, and which it could not open."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import PurePosixPath
from typing import TYPE_CHECKING

from omnigraph.errors import BadRequest, NotFoundError, OmniError
from omnigraph.server.access import Authority
from omnigraph.settings import Settings

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph

OPENED_AT_ONCE = 4
_GRAPH_ID = re.compile("[A-Za-z0-9-]{1,64}")
_RESERVED = frozenset({"policies", "healthz", "openapi", "graphs"})


def check_graph_id(text: str) -> str:
    """The id of a graph, if it can be one.

    Raises:
        BadRequest: it cannot.
    """
    if not _GRAPH_ID.fullmatch(text) or text in _RESERVED:
        raise BadRequest(
            f"'{text[:80]}' cannot be the id of a graph: use 1 to 64 letters, digits and '-', and "
            f"none of {', '.join(sorted(_RESERVED))}"
        )
    return text


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

    @classmethod
    def bind(cls, store: Store, graph: Graph, authority: Authority) -> HostedGraph:
        """An open graph under an authority.

        Raises:
            BadRequest: the policy names something that the schema does not have.
        """
        guarded = graph.as_actor(None, policy=authority)
        return cls(store.graph_id, store.uri, graph, guarded, authority)


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

    @property
    def digest(self) -> str:
        """Differs where what is served differs."""
        names = [*self.served, "", *self.quarantined]
        return hashlib.sha256("\0".join(names).encode()).hexdigest()


def open_graphs(
    stores: Sequence[Store],
    find_authority: Callable[[str], Authority],
    settings: Settings,
    known: HostedGraphs | None = None,
) -> HostedGraphs:
    """Open every graph, several at a time; those that are open already are taken over.

    A graph that cannot be opened, or whose policy cannot be used, is quarantined.

    Raises:
        OmniError: the new policy of a graph that is served already cannot be used.
    """

    def open_one(store: Store) -> HostedGraph | str:
        from omnigraph.graph.graph import open as open_graph  # noqa: PLC0415 - loads the engine

        before = known.served.get(store.graph_id) if known else None
        if before is not None:
            return HostedGraph.bind(store, before.unguarded, find_authority(store.graph_id))
        try:
            authority = find_authority(store.graph_id)
            return HostedGraph.bind(store, open_graph(store.uri, settings=settings), authority)
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

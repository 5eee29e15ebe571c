"""The graphs a server has: which it serves, and which it could not open."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from omnigraph.errors import BadRequest, NotFoundError, OmniError, StorageFailure, StorageKind
from omnigraph.server.access import Authority, NoPolicy
from omnigraph.server.serving_config import GraphDefinition, ServingDefinitions
from omnigraph.settings import Settings
from omnigraph.stored_queries import QueryRegistry, check_queries
from omnigraph.wire.http_protocol import check_graph_id

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph

OPENED_AT_ONCE = 4


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
    def bind(cls, definition: GraphDefinition, graph: Graph, fallback: NoPolicy) -> HostedGraph:
        """An open graph with the policy and the stored queries that are defined for it.

        Raises:
            OmniError: one of them cannot be read, the policy names something that the schema does
                not have, or a query does not fit the schema.
        """
        policy, queries = definition.load_policy(), definition.load_queries()
        broken = check_queries(queries, graph.catalog).breakages
        if broken:
            raise BadRequest(f"stored query '{broken[0].query}': {broken[0].message}")
        authority = fallback if policy is None else policy
        guarded = graph.with_queries(queries).as_actor(None, policy=authority)
        return cls(definition.id, definition.uri, graph, guarded, authority, queries)


@dataclass(frozen=True, slots=True)
class HostedGraphs:
    """All of them; replaced as a whole when the server reads its configuration again."""

    served: Mapping[str, HostedGraph]
    quarantined: Mapping[str, str] = field(default_factory=dict)
    revision: int = 1
    held: Mapping[str, str] = field(default_factory=dict)
    """Those that are served as before although they are defined otherwise by now, and why."""

    @property
    def is_settled(self) -> bool:
        """Whether everything is served as it was defined."""
        return not self.quarantined and not self.held

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
    """Differs where what is served differs: graphs, their policies, queries and embeddings."""
    served = [
        (one.id, one.authority, [(query.name, query.source.text) for query in one.queries])
        for one in graphs.served.values()
    ]
    embedded = [one.unguarded.settings.embed for one in graphs.served.values()]
    models = [(one.provider, one.base_url, one.model) for one in embedded]
    what = (served, models, sorted(graphs.quarantined), server_authority)
    return hashlib.sha256(msgspec.json.encode(what, order="deterministic")).hexdigest()


@dataclass(frozen=True, slots=True)
class GraphOpener:
    """Opens graphs as they are defined, and takes over what is open already."""

    settings: Settings
    fallback: NoPolicy
    """What holds for a graph without a policy."""
    known: Mapping[str, HostedGraph]
    """The graphs that are served already."""
    quarantines_served: bool = False
    """Whether one of them is quarantined if its definition cannot be used."""

    def open(self, definitions: ServingDefinitions, revision: int) -> HostedGraphs:
        """Open every graph, several at a time.

        A graph that cannot be opened, or whose policy or queries cannot be used, is quarantined. A
        graph that is served already stays as it is while its definition is being changed, or its
        storage cannot be read.

        Raises:
            OmniError: the definition of a graph that is served already cannot be used, and it is
                not to be quarantined.
        """
        # The engine is loaded here and not by the threads: its native modules come one by one.
        import omnigraph.graph.graph  # noqa: F401, PLC0415

        with ThreadPoolExecutor(OPENED_AT_ONCE, "omnigraph-open") as threads:
            opened = list(threads.map(self._open_one, definitions.graphs))
        served: dict[str, HostedGraph] = {}
        reasons, held = dict(definitions.unsettled), set(definitions.unsettled)
        for definition, result in zip(definitions.graphs, opened, strict=True):
            if isinstance(result, HostedGraph):
                served[definition.id] = result
            else:
                reasons[definition.id] = result.message
                held |= {definition.id} if _may_pass(result) else set()
        held &= self.known.keys()
        served |= {id: self.known[id] for id in held}
        return HostedGraphs(
            {id: served[id] for id in sorted(served)},
            {id: reasons[id] for id in sorted(reasons.keys() - held)},
            revision,
            {id: reasons[id] for id in sorted(held)},
        )

    def _open_one(self, definition: GraphDefinition) -> HostedGraph | OmniError:
        try:
            return HostedGraph.bind(definition, self._find_graph(definition), self.fallback)
        except OmniError as error:
            if definition.id in self.known and not self.quarantines_served:
                raise
            return error

    def _find_graph(self, definition: GraphDefinition) -> Graph:
        from omnigraph.graph.graph import open as open_graph  # noqa: PLC0415 - see above

        settings, before = definition.choose_settings(self.settings), self.known.get(definition.id)
        if before is not None and (before.uri, before.unguarded.settings) == (
            definition.uri,
            settings,
        ):
            return before.unguarded
        return open_graph(definition.uri, settings=settings)


def _may_pass(error: OmniError) -> bool:
    """Whether it is the storage that failed for now, and nothing that was defined."""
    passing = (StorageKind.TRANSIENT, StorageKind.UNKNOWN)
    return isinstance(error, StorageFailure) and error.kind in passing

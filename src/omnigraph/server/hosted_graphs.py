"""The graphs a server serves, and those it could not open."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import msgspec

from omnigraph.errors import BadRequest, NotFoundError, OmniError, StorageFailure, StorageKind
from omnigraph.policy import Authority, NoPolicy
from omnigraph.server.serving_config import GraphDefinition, ServingDefinitions
from omnigraph.settings import Settings
from omnigraph.stored_queries import QueryRegistry, check_queries
from omnigraph.wire.http_protocol import check_graph_id

if TYPE_CHECKING:
    from omnigraph.graph.graph import Graph

OPENED_AT_ONCE = 4


@dataclass(frozen=True, slots=True)
class HostedGraph:
    """A served graph with its policy and its stored queries."""

    id: str
    uri: str
    unguarded: Graph
    """The graph without a policy, for the server's own reads."""
    guarded: Graph
    """The graph under its policy; each request uses it on behalf of its actor."""
    authority: Authority
    queries: QueryRegistry

    @classmethod
    def bind(cls, definition: GraphDefinition, graph: Graph, fallback: NoPolicy) -> HostedGraph:
        """Combine an open graph with the policy and stored queries of its definition.

        Raises:
            OmniError: one of them cannot be read, the policy names something missing in the
                schema, or a query does not compile against the schema.
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
    """The served and the quarantined graphs; replaced as a whole by a reload."""

    served: Mapping[str, HostedGraph]
    quarantined: Mapping[str, str] = field(default_factory=dict)
    revision: int = 1
    outdated: Mapping[str, str] = field(default_factory=dict)
    """Graphs served by their last definition although it has changed, and why."""

    @property
    def is_current(self) -> bool:
        """True if every graph is served as defined."""
        return not self.quarantined and not self.outdated

    def find(self, graph_id: str) -> HostedGraph:
        """Return a served graph.

        Raises:
            BadRequest: the id is invalid.
            NotFoundError: there is no such graph, or it is quarantined.
        """
        found = self.served.get(check_graph_id(graph_id))
        if found is None:
            raise NotFoundError(f"there is no graph '{graph_id}' here")
        return found


def digest_serving(graphs: HostedGraphs, server_authority: Authority) -> str:
    """Return a digest of the served graphs, their policies, stored queries and embedding models."""
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
    """Opens graphs by their definitions, and reuses those already open."""

    settings: Settings
    fallback: NoPolicy
    """The authority of a graph without a policy."""
    known: Mapping[str, HostedGraph]
    """The graphs served so far."""
    quarantines_served: bool = False
    """Whether one of them is quarantined if its definition is invalid."""

    def open(self, definitions: ServingDefinitions, revision: int) -> HostedGraphs:
        """Open every graph, several concurrently.

        A graph that cannot be opened, or whose policy or queries are invalid, is quarantined. A
        graph served so far is kept unchanged while its definition is changing or its storage
        cannot be read.

        Raises:
            OmniError: the definition of a graph served so far is invalid, and such a graph is not
                to be quarantined.
        """
        # Import the engine here and not in the threads: native modules are loaded one at a time.
        import omnigraph.graph.graph  # noqa: F401, PLC0415

        with ThreadPoolExecutor(OPENED_AT_ONCE, "omnigraph-open") as threads:
            opened = list(threads.map(self._open_one, definitions.graphs))
        served: dict[str, HostedGraph] = {}
        reasons, outdated = dict(definitions.unresolved), set(definitions.unresolved)
        for definition, result in zip(definitions.graphs, opened, strict=True):
            if isinstance(result, HostedGraph):
                served[definition.id] = result
            else:
                reasons[definition.id] = result.message
                outdated |= {definition.id} if _is_transient(result) else set()
        outdated &= self.known.keys()
        served |= {id: self.known[id] for id in outdated}
        return HostedGraphs(
            {id: served[id] for id in sorted(served)},
            {id: reasons[id] for id in sorted(reasons.keys() - outdated)},
            revision,
            {id: reasons[id] for id in sorted(outdated)},
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


def _is_transient(error: OmniError) -> bool:
    """Return whether the storage failed transiently, rather than the definition being invalid."""
    passing = (StorageKind.TRANSIENT, StorageKind.UNKNOWN)
    return isinstance(error, StorageFailure) and error.kind in passing

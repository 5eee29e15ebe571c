"""One graph of a cluster, as commands that work on its storage find it.

Only the ledger is read for that: a graph can be verified and repaired while something else of the
cluster is missing.
"""

from __future__ import annotations

import os
from dataclasses import dataclass

from omnigraph.cluster.cluster_place import (
    open_files,
    read_applied,
    read_applied_queries,
    require_applied,
)
from omnigraph.cluster.profile_settings import choose_settings
from omnigraph.cluster.resource_addresses import graph_address
from omnigraph.cluster.resource_settings import EmbeddingProfile
from omnigraph.language.source import SourceText
from omnigraph.settings import Settings


@dataclass(frozen=True, slots=True)
class AddressedGraph:
    """Where a graph is, and what was applied that its verbs need."""

    place: str
    id: str
    uri: str
    embedding: EmbeddingProfile | None = None

    def choose_settings(self, settings: Settings) -> Settings:
        """The same settings with the embedding profile of the graph."""
        return choose_settings(settings, self.embedding, os.environ, requires_key=False)

    def read_queries(self, settings: Settings | None = None) -> tuple[SourceText, ...]:
        """The texts of its stored queries.

        Raises:
            ClusterError: one of them is not what was applied.
        """
        return read_applied_queries(self.place, self.id, settings=settings)


def find_applied_graph(
    place: str, graph_id: str, *, settings: Settings | None = None
) -> AddressedGraph:
    """A graph of the cluster at a folder or storage root.

    Raises:
        ClusterError: it was not applied; the message names those that were.
    """
    files = open_files(place, settings)
    found = read_applied(files)
    require_applied(found, graph_id)
    resources = found.ledger.resources
    provider = resources.get(resources[graph_address(graph_id)].embedding_provider or "")
    profile = None if provider is None else provider.embedding_profile
    return AddressedGraph(place, graph_id, files.graph_uri(graph_id), profile)

"""What is at the root of a graph, found out by opening it."""

from __future__ import annotations

from dataclasses import dataclass

from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.resource_addresses import graph_address
from omnigraph.cluster.resource_digests import digest_file
from omnigraph.cluster.state_ledger import GraphObservation, ResourceRecord, read_clock
from omnigraph.errors import OmniError
from omnigraph.graph.graph import Graph
from omnigraph.graph.graph import open as open_graph


@dataclass(frozen=True, slots=True)
class SeenGraph:
    """A root as it was found."""

    exists: bool
    """Whether there is anything at all."""
    manifest_version: int | None = None
    schema_digest: str | None = None
    error: str | None = None
    """Why it cannot be opened."""

    @property
    def is_open(self) -> bool:
        return self.exists and self.error is None

    def describe(
        self,
        files: ClusterFiles,
        graph_id: str,
        desired_digest: str | None,
        record: ResourceRecord | None = None,
    ) -> GraphObservation:
        """The same for the ledger, whose record knows where only comments differ."""
        matches = None
        if self.schema_digest is not None and desired_digest is not None:
            is_held = record is not None and record.digest == desired_digest
            expected = record.held_digest if record is not None and is_held else desired_digest
            matches = self.schema_digest == expected
        return GraphObservation(
            address=graph_address(graph_id),
            graph_uri=files.graph_uri(graph_id),
            observed_at=read_clock(),
            exists=self.exists,
            graph_manifest_version=self.manifest_version,
            schema_digest=self.schema_digest,
            desired_schema_digest=desired_digest,
            schema_matches_desired=matches,
            error=self.error,
        )


def look_at_graph(files: ClusterFiles, graph_id: str, *, settles: bool = False) -> SeenGraph:
    """What is there; with `settles`, writes that were interrupted are finished or undone first."""
    try:
        if not files.has_root(graph_id):
            return SeenGraph(exists=False)
        uri = files.graph_uri(graph_id)
        with open_graph(uri, read_only=not settles, settings=files.settings) as graph:
            return describe_graph(graph)
    except OmniError as error:
        return SeenGraph(exists=True, error=error.message)


def describe_graph(graph: Graph) -> SeenGraph:
    """An open graph as its root would be found."""
    version = graph.snapshot().graph_manifest_version
    return SeenGraph(True, version, digest_file(graph.schema.encode()))

"""Files of a cluster in its storage root: control records, the catalog, and roots of graphs."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

from omnigraph.cluster.cluster_diagnostics import ClusterReport, refusing
from omnigraph.cluster.cluster_state import digest_file
from omnigraph.cluster.resources import (
    CONTROL_FOLDER,
    GRAPH_SUFFIX,
    GRAPHS_FOLDER,
    make_graph_path,
    make_payload_path,
)
from omnigraph.errors import NotFoundError, Severity
from omnigraph.settings import Settings
from omnigraph.storage.control_files import ControlFiles, open_control_files


@dataclass(frozen=True)
class ClusterFiles:
    """The storage root of a cluster."""

    root: str
    settings: Settings

    @cached_property
    def control(self) -> ControlFiles:
        """The control files, below `__cluster`."""
        return open_control_files(f"{self.root}/{CONTROL_FOLDER}", self.settings)

    @cached_property
    def graphs(self) -> ControlFiles:
        """The root itself, below which the graphs are."""
        return open_control_files(self.root, self.settings)

    def graph_uri(self, graph_id: str) -> str:
        return self.graphs.uri_of(make_graph_path(graph_id))

    def has_root(self, graph_id: str) -> bool:
        """Return whether there is anything at the root of a graph."""
        return self.graphs.exists(make_graph_path(graph_id))

    def require_root(self, graph_id: str) -> None:
        """Raise unless there is something at the root of a graph."""
        if not self.has_root(graph_id):
            raise NotFoundError(
                f"there is nothing at {self.graph_uri(graph_id)}; run `omnigraph cluster refresh`"
            )

    def list_roots(self) -> list[str]:
        """List the names of all graphs below the root, recorded in the ledger or not."""
        names = self.graphs.list_prefixes(GRAPHS_FOLDER)
        return [n.removesuffix(GRAPH_SUFFIX) for n in names if n.endswith(GRAPH_SUFFIX)]

    def find_payload(self, address: str, digest: str) -> bytes | None:
        """Return an applied query or policy from the catalog, unverified."""
        with refusing("catalog_payload_read_error", address):
            return self.control.find(make_payload_path(address, digest))

    def write_payload(self, address: str, data: bytes) -> None:
        """Store a query or policy in the catalog, unless it is there already."""
        path = make_payload_path(address, digest_file(data))
        with refusing("resource_payload_write_error", address):
            if self.control.find(path) != data:
                self.control.put(path, data)

    def check_payload(self, address: str, digest: str, report: ClusterReport) -> str | None:
        """Verify a text of the catalog; return the code of its problem, which is reported."""
        problems = ClusterReport()
        with problems.collect():
            data = self.find_payload(address, digest)
            if data is None:
                message = "its text is not in the catalog; the next apply writes it again"
                problems.add("catalog_payload_missing", address, message, Severity.WARNING)
            elif digest_file(data) != digest:
                message = "its text in the catalog was changed; the next apply writes it again"
                problems.add("catalog_payload_mismatch", address, message)
        report.extend(problems.found)
        return problems.found[0].code if problems.found else None

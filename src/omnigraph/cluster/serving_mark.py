"""Whether a server would be told something else now, without reading all of it again."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_place import read_applied
from omnigraph.cluster.cluster_report import ClusterReport
from omnigraph.cluster.recovery_sidecars import read_sidecars
from omnigraph.cluster.serving_snapshot import ServingSnapshot
from omnigraph.errors import Severity


def mark_snapshot(snapshot: ServingSnapshot) -> str:
    """A text that differs where the ledger, or the graphs under change, differ."""
    return _make_mark(snapshot.cas, snapshot.quarantined)


def find_serving_mark(files: ClusterFiles) -> str:
    """The mark of the snapshot that would be read now.

    Raises:
        ClusterError: there is no ledger, or it or a sidecar cannot be used.
    """
    found, report = read_applied(files), ClusterReport()
    sidecars = read_sidecars(files, report, Severity.ERROR)
    report.raise_if_errors()
    known = found.ledger.graph_ids
    return _make_mark(found.cas, {one.graph_id for one in sidecars.values()}.intersection(known))


def _make_mark(cas: str, pending: Iterable[str]) -> str:
    return " ".join((cas, *sorted(pending)))

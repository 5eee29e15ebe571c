"""Whether a server would be told something else now, without reading all of it again."""

from __future__ import annotations

from collections.abc import Iterable

from omnigraph.cluster.cluster_place import open_files, read_applied
from omnigraph.cluster.cluster_report import ClusterReport
from omnigraph.cluster.recovery_sidecars import read_sidecars
from omnigraph.cluster.serving_snapshot import ServingSnapshot
from omnigraph.errors import Severity
from omnigraph.settings import Settings


def mark_snapshot(snapshot: ServingSnapshot) -> str:
    """A text that differs where the ledger, or the graphs under change, differ."""
    return _make_mark(snapshot.cas, snapshot.quarantined)


def find_serving_mark(place: str, settings: Settings | None = None) -> str:
    """The mark of the snapshot that would be read now.

    Raises:
        ClusterError: there is no ledger, or it or a sidecar cannot be used.
    """
    files, report = open_files(place, settings), ClusterReport()
    found = read_applied(files)
    sidecars = read_sidecars(files, report, Severity.ERROR)
    report.raise_if_errors()
    known = found.ledger.graph_ids
    return _make_mark(found.cas, {one.graph_id for one in sidecars.values()}.intersection(known))


def _make_mark(cas: str, pending: Iterable[str]) -> str:
    return " ".join((cas, *sorted(pending)))

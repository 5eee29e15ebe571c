"""Refresh the ledger from the graphs and files of a cluster, or import them into a first one."""

from __future__ import annotations

from pathlib import Path

import msgspec

from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse
from omnigraph.cluster.cluster_files import (
    ResourceKind,
    find_resource_kind,
    graph_address,
    schema_address,
)
from omnigraph.cluster.cluster_results import ClusterStatus
from omnigraph.cluster.cluster_session import (
    ClusterSession,
    finish,
)
from omnigraph.cluster.managed_graphs import observe_graph, recover_changes
from omnigraph.cluster.state_ledger import (
    STATE_PATH,
    GraphObservation,
    StateLedger,
    StatusWord,
)
from omnigraph.settings import Settings

GRAPH_MISSING = "graph_missing"
SCHEMA_MISMATCH = "schema_mismatch"
OBSERVATION_ERROR = "graph_observation_error"
_PAYLOAD_CONDITIONS = {
    "catalog_payload_missing": "payload_missing",
    "catalog_payload_mismatch": "payload_mismatch",
    "catalog_payload_read_error": "payload_read_error",
}
UNAVAILABLE = ""
"""The digest of a policy whose text is lost: it stays bound, so that its graphs are not served."""


def refresh_cluster(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """Observe every graph and the catalog, and record the observations in the ledger.

    A missing graph, a schema that was changed elsewhere and a lost text are marked, so that the
    next apply restores them.

    Raises:
        ClusterError: there is no ledger, or a graph cannot be opened; that is recorded as well.
    """
    cluster, ledger = ClusterSession.on(folder, settings), StateLedger()
    with cluster.report.collect(), cluster.lock("refresh"):
        if cluster.read_ledger() is None:
            message = "there is no ledger; run `omnigraph cluster apply` or `import`"
            raise refuse("state_missing", STATE_PATH, message)
        recover_changes(cluster)
        for graph_id in cluster.ledger.applied_revision.graph_ids:
            if graph_id not in cluster.pending:
                _refresh_graph(cluster, graph_id)
        for address, digest in cluster.ledger.applied_revision.list_payloads():
            _refresh_payload(cluster, address, digest)
        ledger = _write(cluster)
    return finish(cluster.make_status(ledger, "refresh"))


def import_cluster(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """Create the first ledger from existing graphs: after it was lost, or for older graphs.

    Raises:
        ClusterError: there is a ledger, or a graph cannot be opened; nothing is written.
    """
    cluster, ledger = ClusterSession.on(folder, settings), StateLedger()
    with cluster.report.collect(), cluster.lock("import"):
        if cluster.read_ledger() is not None:
            message = "there is a ledger already; `omnigraph cluster refresh` updates it"
            raise refuse("state_already_exists", STATE_PATH, message)
        recover_changes(cluster)
        for graph_id in cluster.desired.config.graphs:
            if graph_address(graph_id) not in cluster.ledger.resources:  # it was not just recovered
                _adopt_graph(cluster, graph_id)
        for address in cluster.desired.state.resources:
            _adopt_resource(cluster, address)
        cluster.report.raise_if_errors()
        ledger = _write(cluster)
    return finish(cluster.make_status(ledger, "import"))


def _write(cluster: ClusterSession) -> StateLedger:
    cluster.write_ledger()
    cluster.show_state()
    return cluster.ledger


def _record_observation(cluster: ClusterSession, graph_id: str, observed: GraphObservation) -> None:
    desired = cluster.desired.find_schema_digest(graph_id)
    record = cluster.ledger.resources.get(schema_address(graph_id))
    cluster.ledger.observations[observed.address] = observed.compare(desired, record)


# --- refreshing ---


def _refresh_graph(cluster: ClusterSession, graph_id: str) -> None:
    ledger, both = cluster.ledger, (graph_address(graph_id), schema_address(graph_id))
    known = ledger.observations.get(graph_address(graph_id))
    observed = observe_graph(cluster.files, graph_id)
    _record_observation(cluster, graph_id, observed)
    version = observed.graph_manifest_version or 0
    before = (known.graph_manifest_version or 0) if isinstance(known, GraphObservation) else 0
    record, live = ledger.resources.get(schema_address(graph_id)), observed.schema_digest
    if not observed.exists:
        # Its observation is kept: creating it once more needs an approval.
        message = "there is nothing at the root of the graph"
        for address in both:
            ledger.resources.pop(address, None)
        ledger.set_status(both, StatusWord.DRIFTED, GRAPH_MISSING, message)
    elif not observed.is_open:
        _report_error(cluster, observed, OBSERVATION_ERROR, str(observed.error))
    elif version < before:
        message = (
            f"the graph is at version {version} and was at {before} before: "
            "it was replaced or restored; refresh once more if that is as it should be"
        )
        _report_error(cluster, observed, "conflicting_graph_manifest_observation", message)
    elif record is None or live is None or live == record.held_digest:
        ledger.set_status(both, StatusWord.APPLIED)
    else:
        message = "the graph has another schema than the one that was applied"
        ledger.record_schema(graph_id, live, None, live)
        ledger.set_status(both, StatusWord.DRIFTED, SCHEMA_MISMATCH, message)


def _report_error(
    cluster: ClusterSession, observed: GraphObservation, code: str, message: str
) -> None:
    cluster.report.add(code, observed.address, message)
    cluster.ledger.set_status([observed.address], StatusWord.ERROR, OBSERVATION_ERROR, message)


def _refresh_payload(cluster: ClusterSession, address: str, digest: str) -> None:
    ledger, resources = cluster.ledger, cluster.ledger.resources
    code = cluster.files.check_payload(address, digest, cluster.report)
    if code is None:
        ledger.set_status([address], StatusWord.APPLIED)
        return
    is_unreadable = code == "catalog_payload_read_error"
    status = StatusWord.ERROR if is_unreadable else StatusWord.DRIFTED
    ledger.set_status([address], status, _PAYLOAD_CONDITIONS[code])
    if is_unreadable:
        return
    if find_resource_kind(address) is ResourceKind.POLICY:
        resources[address] = msgspec.structs.replace(resources[address], digest=UNAVAILABLE)
    else:
        del resources[address]


# --- importing ---


def _adopt_graph(cluster: ClusterSession, graph_id: str) -> None:
    ledger, both = cluster.ledger, (graph_address(graph_id), schema_address(graph_id))
    observed = observe_graph(cluster.files, graph_id)
    live = observed.schema_digest
    if not observed.exists:
        ledger.set_status(both, StatusWord.PENDING)
    elif live is None:
        cluster.report.add("graph_observation_error", observed.address, str(observed.error))
    else:
        _record_observation(cluster, graph_id, observed)
        ledger.record_schema(graph_id, live, None, live)
        if live == cluster.desired.find_schema_digest(graph_id):
            ledger.set_status(both, StatusWord.APPLIED)
        else:
            ledger.set_status(both, StatusWord.DRIFTED, SCHEMA_MISMATCH)


def _adopt_resource(cluster: ClusterSession, address: str) -> None:
    """Record a provider, or a policy; one whose text is lost waits for the next apply."""
    ledger, record = cluster.ledger, cluster.desired.state.resources[address]
    kind, status = find_resource_kind(address), StatusWord.APPLIED
    if kind is ResourceKind.POLICY:
        if cluster.files.check_payload(address, record.digest, ClusterReport()) is not None:
            record = msgspec.structs.replace(record, digest=UNAVAILABLE)
            status = StatusWord.PENDING
    elif kind is not ResourceKind.PROVIDER:
        return
    ledger.resources[address] = record
    ledger.set_status([address], status)

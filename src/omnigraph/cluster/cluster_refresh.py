"""Refresh the ledger from the graphs and files of a cluster, or import them into a first one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import msgspec

from omnigraph.cluster.cluster_diagnostics import refuse
from omnigraph.cluster.cluster_session import ClusterSession, ClusterStatus, StateObservations
from omnigraph.cluster.managed_graphs import GraphChanges, ObservedGraph, observe_graph
from omnigraph.cluster.resources import (
    STATE_FILE,
    ResourceKind,
    digest_file,
    find_resource_kind,
    graph_address,
    schema_address,
    show_control_path,
)
from omnigraph.cluster.state_ledger import (
    GraphObservation,
    ReadLedger,
    StatusWord,
    find_ledger,
)
from omnigraph.errors import ClusterError
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
    return _rewrite_ledger("refresh", folder, settings)


def import_cluster(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """Create the first ledger from existing graphs: after it was lost, or for older graphs.

    Raises:
        ClusterError: there is a ledger, or a graph cannot be opened; nothing is written.
    """
    return _rewrite_ledger("import", folder, settings)


def _rewrite_ledger(operation: str, folder: str | Path, settings: Settings | None) -> ClusterStatus:
    session = ClusterSession.on(folder, settings)
    result = ClusterStatus(config_dir=session.config_dir, operation=operation)
    with session.report.collect(), session.lock(operation) as cluster:
        found = find_ledger(cluster.files)
        _check_presence(operation, found)
        observer = _Observer(GraphChanges.of(cluster, found))
        if found is None:
            observer.adopt()
            session.report.raise_if_errors()
        else:
            observer.refresh()
        written = observer.changes.write()
        state = StateObservations.of(written, None, cluster.lock)
        result = replace(result, state=state, ledger=written.ledger)
    return session.finish(result)


def _check_presence(operation: str, found: ReadLedger | None) -> None:
    place = show_control_path(STATE_FILE)
    if operation == "refresh" and found is None:
        message = "there is no ledger; run `omnigraph cluster apply` or `import`"
        raise refuse("state_missing", place, message)
    if operation == "import" and found is not None:
        message = "there is a ledger already; `omnigraph cluster refresh` updates it"
        raise refuse("state_already_exists", place, message)


class _Observer:
    """Records the observed state of a cluster in a copy of its ledger."""

    def __init__(self, changes: GraphChanges) -> None:
        self.changes = changes
        self._files, self._desired = changes.files, changes.desired
        self._ledger, self._report = changes.ledger, changes.report

    # --- refreshing ---

    def refresh(self) -> None:
        for graph_id in self._ledger.graph_ids:
            if graph_id not in self.changes.pending:
                self._refresh_graph(graph_id)
        for address, digest in self._ledger.list_payloads():
            self._refresh_payload(address, digest)

    def _refresh_graph(self, graph_id: str) -> None:
        address = graph_address(graph_id)
        observed = observe_graph(self._files, graph_id)
        known = self._ledger.observations.get(address)
        before = known.graph_manifest_version if isinstance(known, GraphObservation) else None
        self._record_observation(graph_id, observed)
        if not observed.exists:
            self._lose_graph(graph_id)
        elif not observed.is_open:
            self._report.add("graph_observation_error", address, str(observed.error))
            self._ledger.set_status(
                address, StatusWord.ERROR, OBSERVATION_ERROR, str(observed.error)
            )
        elif before is not None and (observed.manifest_version or 0) < before:
            message = (
                f"the graph is at version {observed.manifest_version} and was at {before} before: "
                "it was replaced or restored; refresh once more if that is as it should be"
            )
            self._report.add("conflicting_graph_manifest_observation", address, message)
            self._ledger.set_status(address, StatusWord.ERROR, OBSERVATION_ERROR, message)
        else:
            self._compare_schema(graph_id, observed)

    def _record_observation(self, graph_id: str, observed: ObservedGraph) -> None:
        desired = self._desired.find_schema_digest(graph_id)
        record = self._ledger.resources.get(schema_address(graph_id))
        found = observed.describe(self._files, graph_id, desired, record)
        self._ledger.observations[graph_address(graph_id)] = found

    def _lose_graph(self, graph_id: str) -> None:
        """Remove a missing graph from the resources, and keep its observation."""
        message = "there is nothing at the root of the graph"
        for address in (graph_address(graph_id), schema_address(graph_id)):
            self._ledger.resources.pop(address, None)
            self._ledger.set_status(address, StatusWord.DRIFTED, GRAPH_MISSING, message)

    def _compare_schema(self, graph_id: str, observed: ObservedGraph) -> None:
        address = schema_address(graph_id)
        record = self._ledger.resources.get(address)
        live = observed.schema_digest
        if record is None or live is None or live == record.held_digest:
            for one in (graph_address(graph_id), address):
                self._ledger.set_status(one, StatusWord.APPLIED)
            return
        message = "the graph has another schema than the one that was applied"
        self._ledger.record_schema(graph_id, live, None, live)
        for one in (graph_address(graph_id), address):
            self._ledger.set_status(one, StatusWord.DRIFTED, SCHEMA_MISMATCH, message)

    def _refresh_payload(self, address: str, digest: str) -> None:
        code = self._files.check_payload(address, digest, self._report)
        if code is None:
            self._ledger.set_status(address, StatusWord.APPLIED)
            return
        is_unreadable = code == "catalog_payload_read_error"
        status = StatusWord.ERROR if is_unreadable else StatusWord.DRIFTED
        self._ledger.set_status(address, status, _PAYLOAD_CONDITIONS[code])
        if is_unreadable:
            return
        if find_resource_kind(address) is ResourceKind.POLICY:
            record = self._ledger.resources[address]
            self._ledger.resources[address] = msgspec.structs.replace(record, digest=UNAVAILABLE)
        else:
            del self._ledger.resources[address]

    # --- importing ---

    def adopt(self) -> None:
        """Record the desired resources that exist."""
        for graph_id in self._desired.config.graphs:
            self._adopt_graph(graph_id)
        for address, resource in self._desired.resources.items():
            kind = find_resource_kind(address)
            if kind is ResourceKind.PROVIDER:
                self._ledger.resources[address] = resource.record
                self._ledger.set_status(address, StatusWord.APPLIED)
            elif kind is ResourceKind.POLICY:
                is_there = self._has_payload(address, resource.digest)
                digest = resource.digest if is_there else UNAVAILABLE
                record = msgspec.structs.replace(resource.record, digest=digest)
                self._ledger.resources[address] = record
                status = StatusWord.APPLIED if is_there else StatusWord.PENDING
                self._ledger.set_status(address, status)

    def _adopt_graph(self, graph_id: str) -> None:
        address, schema = graph_address(graph_id), schema_address(graph_id)
        if address in self._ledger.resources:
            return  # an interrupted change of it was just recovered
        observed = observe_graph(self._files, graph_id)
        if not observed.exists:
            for one in (address, schema):
                self._ledger.set_status(one, StatusWord.PENDING)
            return
        if not observed.is_open or observed.schema_digest is None:
            self._report.add("graph_observation_error", address, str(observed.error))
            return
        self._record_observation(graph_id, observed)
        wanted, live = self._desired.find_schema_digest(graph_id), observed.schema_digest
        self._ledger.record_schema(graph_id, live, None, live)
        status = StatusWord.APPLIED if live == wanted else StatusWord.DRIFTED
        condition = None if live == wanted else SCHEMA_MISMATCH
        for one in (address, schema):
            self._ledger.set_status(one, status, condition)

    def _has_payload(self, address: str, digest: str) -> bool:
        try:
            data = self._files.find_payload(address, digest)
        except ClusterError:
            return False
        return data is not None and digest_file(data) == digest

"""Refresh the ledger from the graphs and files of a cluster, or import them into a first one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse
from omnigraph.cluster.cluster_files import ClusterFiles, ReadLedger, check_payload, list_payloads
from omnigraph.cluster.cluster_session import (
    ClusterSession,
    ClusterStatus,
    StateObservations,
    require_ok,
)
from omnigraph.cluster.control_records import remove_sidecar
from omnigraph.cluster.desired_state import DesiredState
from omnigraph.cluster.managed_graphs import ObservedGraph, SweepResult, observe_graph, sweep
from omnigraph.cluster.resources import (
    STATE_FILE,
    ResourceKind,
    digest_file,
    find_resource_kind,
    graph_address,
    schema_address,
    show_control_path,
)
from omnigraph.cluster.state_ledger import GraphObservation, LedgerDraft, StateLedger, StatusWord
from omnigraph.errors import StorageError
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
"""The digest of a policy whose text is lost: it stays bound, so that nothing is served without."""


def refresh_cluster(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """Look at every graph and at the catalog, and record in the ledger what is found.

    A graph that is gone, a schema that somebody else changed and texts that are lost are marked, so
    that the next apply brings them back.

    Raises:
        ClusterError: there is no ledger, or a graph cannot be opened; that is recorded as well.
    """
    session = ClusterSession.on(folder, settings)
    result = ClusterStatus(config_dir=session.config_dir, operation="refresh")
    with session.collect():
        desired = session.read_desired()
        files = session.open_files(desired)
        with session.lock(files, desired, "refresh") as lock:
            found = files.find_ledger()
            if found is None:
                message = "there is no ledger; run `omnigraph cluster apply` or `import`"
                raise refuse("state_missing", show_control_path(STATE_FILE), message)
            draft = LedgerDraft.of(found.ledger)
            swept = sweep(files, draft, desired, session.report, lock)
            observer = _Observer(files, draft, desired, session.report)
            observer.refresh(swept)
            written = _write(files, draft, found, swept, session.report)
            state = StateObservations.of(written, None, lock)
            result = replace(result, state=state, ledger=written.ledger)
    return require_ok(replace(result, diagnostics=tuple(session.report.found)))


def import_cluster(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """Make the first ledger of graphs that are there: after it was lost, or for older graphs.

    Raises:
        ClusterError: there is a ledger, or a graph cannot be opened; nothing is written.
    """
    session = ClusterSession.on(folder, settings)
    result = ClusterStatus(config_dir=session.config_dir, operation="import")
    with session.collect():
        desired = session.read_desired()
        files = session.open_files(desired)
        with session.lock(files, desired, "import") as lock:
            if files.find_ledger() is not None:
                message = "there is a ledger already; `omnigraph cluster refresh` updates it"
                raise refuse("state_already_exists", show_control_path(STATE_FILE), message)
            draft = LedgerDraft.of(StateLedger())
            swept = sweep(files, draft, desired, session.report, lock)
            _Observer(files, draft, desired, session.report).adopt()
            session.report.raise_if_errors()
            written = _write(files, draft, None, swept, session.report)
            state = StateObservations.of(written, None, lock)
            result = replace(result, state=state, ledger=written.ledger)
    return require_ok(replace(result, diagnostics=tuple(session.report.found)))


def _write(
    files: ClusterFiles,
    draft: LedgerDraft,
    found: ReadLedger | None,
    swept: SweepResult,
    report: ClusterReport,
) -> ReadLedger:
    written = files.write_ledger(draft.freeze(), found)
    for operation_id in swept.settled:
        remove_sidecar(files, operation_id, report)
    return written


@dataclass(frozen=True, slots=True)
class _Observer:
    files: ClusterFiles
    draft: LedgerDraft
    desired: DesiredState
    report: ClusterReport

    # --- refreshing ---

    def refresh(self, swept: SweepResult) -> None:
        ledger = self.draft.freeze()
        for graph_id in ledger.graph_ids:
            if graph_id not in swept.pending:
                self._refresh_graph(graph_id)
        for address, digest in list_payloads(ledger):
            if address in self.draft.resources:
                self._refresh_payload(address, digest)

    def _refresh_graph(self, graph_id: str) -> None:
        address = graph_address(graph_id)
        seen = observe_graph(self.files, graph_id)
        known = self.draft.observations.get(address)
        before = known.graph_manifest_version if isinstance(known, GraphObservation) else None
        self._observe(graph_id, seen)
        if not seen.exists:
            self._lose_graph(graph_id)
        elif not seen.is_open:
            self.report.add("graph_observation_error", address, str(seen.error))
            self.draft.set_status(address, StatusWord.ERROR, OBSERVATION_ERROR, str(seen.error))
        elif before is not None and (seen.manifest_version or 0) < before:
            message = (
                f"the graph is at version {seen.manifest_version} and was at {before} before: "
                "it was replaced or restored; refresh once more if that is as it should be"
            )
            self.report.add("conflicting_graph_manifest_observation", address, message)
            self.draft.set_status(address, StatusWord.ERROR, OBSERVATION_ERROR, message)
        else:
            self._compare_schema(graph_id, seen)

    def _observe(self, graph_id: str, seen: ObservedGraph) -> None:
        desired = self.desired.find_schema_digest(graph_id)
        record = self.draft.resources.get(schema_address(graph_id))
        found = seen.describe(self.files, graph_id, desired, record)
        self.draft.observations[graph_address(graph_id)] = found

    def _lose_graph(self, graph_id: str) -> None:
        """Drop a graph that is gone, and remember that it was there."""
        message = "there is nothing at the root of the graph"
        for address in (graph_address(graph_id), schema_address(graph_id)):
            self.draft.resources.pop(address, None)
            self.draft.set_status(address, StatusWord.DRIFTED, GRAPH_MISSING, message)

    def _compare_schema(self, graph_id: str, seen: ObservedGraph) -> None:
        address = schema_address(graph_id)
        record = self.draft.resources.get(address)
        live = seen.schema_digest
        if record is None or live is None or live == record.held_digest:
            for one in (graph_address(graph_id), address):
                self.draft.set_status(one, StatusWord.APPLIED)
            return
        message = "the graph has another schema than the one that was applied"
        self.draft.record_schema(graph_id, live, None, live)
        for one in (graph_address(graph_id), address):
            self.draft.set_status(one, StatusWord.DRIFTED, SCHEMA_MISMATCH, message)

    def _refresh_payload(self, address: str, digest: str) -> None:
        code = check_payload(self.files, address, digest, self.report)
        if code is None:
            self.draft.set_status(address, StatusWord.APPLIED)
            return
        is_unreadable = code == "catalog_payload_read_error"
        status = StatusWord.ERROR if is_unreadable else StatusWord.DRIFTED
        self.draft.set_status(address, status, _PAYLOAD_CONDITIONS[code])
        if is_unreadable:
            return
        if find_resource_kind(address) is ResourceKind.POLICY:
            record = self.draft.resources[address]
            self.draft.resources[address] = msgspec.structs.replace(record, digest=UNAVAILABLE)
        else:
            del self.draft.resources[address]

    # --- importing ---

    def adopt(self) -> None:
        """Record what is there of what is desired."""
        for graph_id in self.desired.config.graphs:
            self._adopt_graph(graph_id)
        for address, resource in self.desired.resources.items():
            kind = find_resource_kind(address)
            if kind is ResourceKind.PROVIDER:
                self.draft.resources[address] = resource.record
                self.draft.set_status(address, StatusWord.APPLIED)
            elif kind is ResourceKind.POLICY:
                is_there = self._has_payload(address, resource.digest)
                digest = resource.digest if is_there else UNAVAILABLE
                record = msgspec.structs.replace(resource.record, digest=digest)
                self.draft.resources[address] = record
                status = StatusWord.APPLIED if is_there else StatusWord.PENDING
                self.draft.set_status(address, status)

    def _adopt_graph(self, graph_id: str) -> None:
        address, schema = graph_address(graph_id), schema_address(graph_id)
        if address in self.draft.resources:
            return  # an interrupted change of it was just settled
        seen = observe_graph(self.files, graph_id)
        if not seen.exists:
            for one in (address, schema):
                self.draft.set_status(one, StatusWord.PENDING)
            return
        if not seen.is_open or seen.schema_digest is None:
            self.report.add("graph_observation_error", address, str(seen.error))
            return
        self._observe(graph_id, seen)
        wanted, live = self.desired.find_schema_digest(graph_id), seen.schema_digest
        self.draft.record_schema(graph_id, live, None, live)
        status = StatusWord.APPLIED if live == wanted else StatusWord.DRIFTED
        condition = None if live == wanted else SCHEMA_MISMATCH
        for one in (address, schema):
            self.draft.set_status(one, status, condition)

    def _has_payload(self, address: str, digest: str) -> bool:
        try:
            data = self.files.find_payload(address, digest)
        except StorageError:
            return False
        return data is not None and digest_file(data) == digest

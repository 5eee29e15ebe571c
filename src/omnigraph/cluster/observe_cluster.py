"""Comparing the ledger with what is there: showing it, refreshing it, and making the first one."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

import msgspec

from omnigraph.cluster.cluster_files import ClusterFiles, ReadLedger
from omnigraph.cluster.cluster_layout import STATE_FILE, show_control_path
from omnigraph.cluster.cluster_plan import warn_of_lock
from omnigraph.cluster.cluster_report import ClusterReport, refuse
from omnigraph.cluster.cluster_results import ClusterStatus, StateObservations
from omnigraph.cluster.cluster_session import ClusterSession, require_ok
from omnigraph.cluster.config_text import read_storage_root
from omnigraph.cluster.desired_state import DesiredState
from omnigraph.cluster.ledger_draft import LedgerDraft
from omnigraph.cluster.observe_graphs import SeenGraph, look_at_graph
from omnigraph.cluster.recovery_sidecars import remove_sidecar
from omnigraph.cluster.recovery_sweep import Swept, list_pending, sweep
from omnigraph.cluster.resource_addresses import (
    ResourceKind,
    find_resource_kind,
    graph_address,
    schema_address,
)
from omnigraph.cluster.resource_digests import digest_file
from omnigraph.cluster.state_ledger import GraphObservation, StateLedger, StatusWord
from omnigraph.errors import Severity, StorageError
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


def read_cluster_status(folder: str | Path, *, settings: Settings | None = None) -> ClusterStatus:
    """What the ledger says, who holds the lock, and whether the catalog is whole.

    Writes nothing and opens no graph.

    Raises:
        ClusterError: the ledger cannot be used, or the catalog not be read.
    """
    session = ClusterSession.on(folder, settings)
    result = ClusterStatus(config_dir=session.config_dir)
    with session.collect():
        files = ClusterFiles(read_storage_root(session.folder), session.settings)
        lock = warn_of_lock(files, session.report)
        result = replace(result, state=StateObservations.of(None, lock))
        found = files.find_ledger()
        if found is None:
            message = "there is no ledger: nothing was applied yet"
            place = show_control_path(STATE_FILE)
            session.report.add("state_missing", place, message, Severity.WARNING)
        else:
            state = StateObservations.of(found, lock)
            result = replace(result, state=state, ledger=found.ledger)
            list_pending(files, session.report)
            for address, digest in _list_payloads(found.ledger):
                _check_payload(files, address, digest, session.report)
    return require_ok(replace(result, diagnostics=tuple(session.report.found)))


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
            swept = sweep(files, draft, desired, session.report)
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
            swept = sweep(files, draft, desired, session.report)
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
    swept: Swept,
    report: ClusterReport,
) -> ReadLedger:
    written = files.write_ledger(draft.freeze(), found)
    for operation_id in swept.settled:
        remove_sidecar(files, operation_id, report)
    return written


def _list_payloads(ledger: StateLedger) -> list[tuple[str, str]]:
    """The texts that the catalog should have, by address and digest."""
    kinds = (ResourceKind.QUERY, ResourceKind.POLICY)
    return [
        (address, record.digest)
        for address, record in sorted(ledger.resources.items())
        if find_resource_kind(address) in kinds
    ]


def _check_payload(
    files: ClusterFiles, address: str, digest: str, report: ClusterReport
) -> str | None:
    """The code of what is wrong with a text of the catalog, reported; None if nothing is."""
    try:
        data = files.find_payload(address, digest)
    except StorageError as error:
        report.add("catalog_payload_read_error", address, error.message)
        return "catalog_payload_read_error"
    if data is None:
        code, message = "catalog_payload_missing", "its text is not in the catalog"
    elif digest_file(data) != digest:
        code, message = "catalog_payload_mismatch", "its text in the catalog was changed"
    else:
        return None
    report.add(code, address, f"{message}; the next apply writes it again", Severity.WARNING)
    return code


@dataclass(frozen=True, slots=True)
class _Observer:
    files: ClusterFiles
    draft: LedgerDraft
    desired: DesiredState
    report: ClusterReport

    # --- refreshing ---

    def refresh(self, swept: Swept) -> None:
        ledger = self.draft.freeze()
        for graph_id in ledger.graph_ids:
            if graph_id not in swept.pending:
                self._refresh_graph(graph_id)
        for address, digest in _list_payloads(ledger):
            if address in self.draft.resources:
                self._refresh_payload(address, digest)

    def _refresh_graph(self, graph_id: str) -> None:
        address = graph_address(graph_id)
        seen = look_at_graph(self.files, graph_id)
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

    def _observe(self, graph_id: str, seen: SeenGraph) -> None:
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

    def _compare_schema(self, graph_id: str, seen: SeenGraph) -> None:
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
        code = _check_payload(self.files, address, digest, self.report)
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
        seen = look_at_graph(self.files, graph_id)
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

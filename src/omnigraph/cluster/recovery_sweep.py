"""Settling interrupted changes of graphs: each is recorded as made, or its intent is taken back.

A graph is never rolled back. What cannot be decided keeps its sidecar, and the graph is left alone
until it can.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from omnigraph.cluster.approvals import read_approval
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_layout import make_graph_path
from omnigraph.cluster.cluster_report import ClusterReport
from omnigraph.cluster.desired_state import DesiredState
from omnigraph.cluster.ledger_draft import LedgerDraft
from omnigraph.cluster.observe_graphs import SeenGraph, look_at_graph
from omnigraph.cluster.recovery_sidecars import RecoverySidecar, SidecarKind, read_sidecars
from omnigraph.cluster.resource_addresses import graph_address, schema_address
from omnigraph.cluster.state_ledger import (
    ApprovalRecord,
    RecoveryRecord,
    StatusWord,
    read_clock,
)
from omnigraph.errors import StorageError
from omnigraph.storage.remove_graph import is_unfinished_creation, remove_graph

ACTUAL_PENDING = "actual_applied_state_pending"
CREATE_INCOMPLETE = "graph_create_incomplete"


@dataclass
class Swept:
    """What a sweep came to."""

    settled: list[str] = field(default_factory=list)
    """Operations whose sidecar goes once the ledger is written."""
    pending: set[str] = field(default_factory=set)
    """Graphs whose change is not settled."""


def sweep(
    files: ClusterFiles, draft: LedgerDraft, desired: DesiredState, report: ClusterReport
) -> Swept:
    """Settle every interrupted change that can be settled, in the draft of the ledger."""
    swept = Swept()
    for sidecar in read_sidecars(files, report).values():
        _Sweeper(files, draft, desired, report, sidecar).settle(swept)
    return swept


def list_pending(files: ClusterFiles, report: ClusterReport) -> Mapping[str, RecoverySidecar]:
    """The interrupted changes by graph, reported and left as they are."""
    found = {one.graph_id: one for one in read_sidecars(files, report).values()}
    for graph_id, sidecar in sorted(found.items()):
        message = f"an interrupted {sidecar.kind} is not settled; the next apply settles it"
        report.add("cluster_recovery_pending", graph_address(graph_id), message)
    return found


@dataclass(frozen=True, slots=True)
class _Sweeper:
    files: ClusterFiles
    draft: LedgerDraft
    desired: DesiredState
    report: ClusterReport
    sidecar: RecoverySidecar

    @property
    def _address(self) -> str:
        return graph_address(self.sidecar.graph_id)

    def settle(self, swept: Swept) -> None:
        if self._is_settled():
            swept.settled.append(self.sidecar.operation_id)
        else:
            swept.pending.add(self.sidecar.graph_id)

    def _is_settled(self) -> bool:
        match self.sidecar.kind:
            case SidecarKind.GRAPH_CREATE:
                return self._settle_create()
            case SidecarKind.SCHEMA_APPLY:
                return self._settle_schema()
            case SidecarKind.GRAPH_DELETE:
                return self._settle_delete()

    def _settle_create(self) -> bool:
        seen = look_at_graph(self.files, self.sidecar.graph_id, settles=True)
        if not seen.exists:
            return True
        if seen.is_open:
            return self._compare(seen)
        return self._clear_unfinished(seen)

    def _settle_schema(self) -> bool:
        seen = look_at_graph(self.files, self.sidecar.graph_id, settles=True)
        if not seen.is_open:
            message = f"the graph cannot be opened: {seen.error or 'it is not there'}"
            self.report.add("cluster_recovery_pending", self._address, message)
            return False
        return self._compare(seen)

    def _compare(self, seen: SeenGraph) -> bool:
        """Decide by the schema the graph has."""
        graph_id, live = self.sidecar.graph_id, seen.schema_digest
        recorded = self.draft.resources.get(schema_address(graph_id))
        if recorded is not None and live == recorded.held_digest:
            return True
        wanted = {self.sidecar.desired_schema_digest, self.desired.find_schema_digest(graph_id)}
        if live is not None and live in wanted:
            self._roll_forward(seen, live)
            return True
        message = (
            "the graph has a schema that neither the ledger nor the interrupted change knows; "
            "put that schema into the configuration and apply again"
        )
        self.draft.set_status(self._address, StatusWord.DRIFTED, ACTUAL_PENDING, message)
        self.report.add("cluster_recovery_unattributed", self._address, message)
        return False

    def _roll_forward(self, seen: SeenGraph, live: str) -> None:
        graph_id = self.sidecar.graph_id
        wanted = self.desired.resources.get(schema_address(graph_id))
        source = None if wanted is None else wanted.record.source
        self.draft.record_schema(graph_id, live, source, live)
        self.draft.observations[self._address] = seen.describe(self.files, graph_id, live)
        if self.sidecar.approval_id is not None:
            self._consume_approval(self.sidecar.approval_id)
        self._record("rolled_forward")
        message = f"the interrupted {self.sidecar.kind} had been made; it is recorded now"
        self.report.add("cluster_recovery_rolled_forward", self._address, message)

    def _clear_unfinished(self, seen: SeenGraph) -> bool:
        """Remove what a creation left that never came to a graph: nobody can have used it."""
        path = make_graph_path(self.sidecar.graph_id)
        try:
            if is_unfinished_creation(self.files.graphs, path, self.files.settings):
                remove_graph(self.files.graphs, path)
                return True
            reason = seen.error
        except StorageError as error:
            reason = error.message
        message = (
            f"the interrupted creation left a root that cannot be opened: {reason}; "
            f"remove {self.files.graph_uri(self.sidecar.graph_id)} and apply again"
        )
        self.draft.set_status(self._address, StatusWord.ERROR, CREATE_INCOMPLETE, message)
        self.report.add("graph_create_incomplete", self._address, message)
        return False

    def _settle_delete(self) -> bool:
        graph_id = self.sidecar.graph_id
        try:
            is_there = self.files.has_root(graph_id)
            if not is_there:
                # Folders without a file may be left.
                remove_graph(self.files.graphs, make_graph_path(graph_id))
        except StorageError as error:
            self.report.add("cluster_recovery_pending", self._address, error.message)
            return False
        if is_there:
            message = "the interrupted deletion left a part of the graph; it is planned again"
            self.report.add("graph_delete_incomplete", self._address, message)
            return True
        if self._address not in self.draft.resources:
            return True
        self.draft.bury_graph(graph_id, self.sidecar.approval_id, self.sidecar.actor)
        if self.sidecar.approval_id is not None:
            self._consume_approval(self.sidecar.approval_id)
        self._record("rolled_forward")
        message = "the interrupted deletion had been made; it is recorded now"
        self.report.add("cluster_recovery_rolled_forward", self._address, message)
        return True

    def _record(self, outcome: str) -> None:
        self.draft.recoveries[self.sidecar.operation_id] = RecoveryRecord(
            kind=str(self.sidecar.kind),
            graph_id=self.sidecar.graph_id,
            outcome=outcome,
            actor=self.sidecar.actor,
            started_at=self.sidecar.started_at,
            recovered_at=read_clock(),
        )

    def _consume_approval(self, approval_id: str) -> None:
        approval = read_approval(self.files, approval_id, self.report)
        if approval is not None:
            self.draft.approvals[approval_id] = ApprovalRecord(
                resource=approval.resource,
                operation=approval.operation,
                approved_by=approval.approved_by,
                consumed_at=read_clock(),
                consumed_by_operation=self.sidecar.operation_id,
            )

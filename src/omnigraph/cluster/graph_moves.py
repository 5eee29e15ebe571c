"""Changing graphs themselves: creating one, giving it its schema, deleting it.

Each is announced by a sidecar before it is made. The sidecar is taken back here only if it is sure
that the graph did not change; else when the ledger says what became of it.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from omnigraph.cluster.approvals import ChangeApproval, read_approval
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_layout import make_graph_path
from omnigraph.cluster.cluster_report import ClusterReport, refuse
from omnigraph.cluster.desired_state import DesiredResource
from omnigraph.cluster.ledger_draft import LedgerDraft
from omnigraph.cluster.observe_graphs import describe_graph, look_at_graph
from omnigraph.cluster.recovery_sidecars import (
    RecoverySidecar,
    SidecarKind,
    remove_sidecar,
    write_sidecar,
)
from omnigraph.cluster.resource_addresses import graph_address, schema_address
from omnigraph.cluster.state_ledger import ApprovalRecord, read_clock
from omnigraph.errors import ClusterError, OmniError
from omnigraph.graph.graph import Graph
from omnigraph.graph.graph import init as init_graph
from omnigraph.graph.graph import open as open_graph
from omnigraph.identity import UlidSource
from omnigraph.storage.remove_graph import find_work, remove_graph


@dataclass
class GraphMover:
    """Makes changes of graphs, and notes them in the draft of the ledger."""

    files: ClusterFiles
    draft: LedgerDraft
    report: ClusterReport
    actor: str | None
    state_cas: str | None
    ids: UlidSource = field(default_factory=UlidSource)
    made: list[str] = field(default_factory=list)
    """Operations that were made and whose sidecars go once the ledger says so."""

    def create(
        self, graph_id: str, schema: DesiredResource, approval: ChangeApproval | None
    ) -> None:
        """Create a graph with its schema.

        Raises:
            ClusterError: it was not created, or it is unknown whether it was.
        """
        schema.require_unchanged()
        if approval is not None:
            self._require_approval(approval)
        code, address = "graph_create_failed", graph_address(graph_id)
        try:
            is_taken = self.files.has_root(graph_id)
        except OmniError as error:
            raise refuse(code, address, error.message) from error
        if is_taken:
            message = (
                f"something is at {self.files.graph_uri(graph_id)}, which the ledger does not have"
            )
            raise refuse(code, address, message)
        sidecar = self._announce(SidecarKind.GRAPH_CREATE, graph_id, None, schema.digest, approval)
        try:
            uri, settings = self.files.graph_uri(graph_id), self.files.settings
            with init_graph(uri, schema.source, actor=self.actor, settings=settings) as graph:
                self._note(sidecar, graph, schema)
        except ClusterError:
            raise
        except OmniError as error:
            if not look_at_graph(self.files, graph_id).exists:
                remove_sidecar(self.files, sidecar.operation_id, self.report)
            raise refuse(code, address, error.message) from error
        self._consume(approval, sidecar)

    def apply_schema(self, graph_id: str, schema: DesiredResource) -> None:
        """Give a graph its schema.

        Raises:
            ClusterError: it was not given it, or it is unknown whether it was.
        """
        schema.require_unchanged()
        try:
            self.files.require_root(graph_id)
            uri, settings = self.files.graph_uri(graph_id), self.files.settings
            with open_graph(uri, actor=self.actor, settings=settings) as graph:
                self._apply_schema(graph, graph_id, schema)
        except ClusterError:
            raise
        except OmniError as error:
            raise refuse("schema_apply_failed", schema_address(graph_id), error.message) from error

    def _apply_schema(self, graph: Graph, graph_id: str, schema: DesiredResource) -> None:
        planned = graph.apply_schema(schema.source, dry_run=True)
        if not planned.steps:
            # Comments at most: the graph keeps the text it has.
            live = describe_graph(graph)
            assert live.schema_digest is not None
            source = schema.record.source
            self.draft.record_schema(graph_id, schema.digest, source, live.schema_digest)
            self.draft.observations[graph_address(graph_id)] = live.describe(
                self.files, graph_id, live.schema_digest
            )
            return
        before = describe_graph(graph).manifest_version
        sidecar = self._announce(SidecarKind.SCHEMA_APPLY, graph_id, before, schema.digest, None)
        try:
            graph.apply_schema(schema.source, actor=self.actor)
        except OmniError as error:
            if look_at_graph(self.files, graph_id).manifest_version == before:
                remove_sidecar(self.files, sidecar.operation_id, self.report)
            raise refuse("schema_apply_failed", schema_address(graph_id), error.message) from error
        self._note(sidecar, graph, schema)

    def delete(self, graph_id: str, approval: ChangeApproval) -> None:
        """Delete a graph with everything in it.

        Raises:
            ClusterError: it was not deleted, or not as a whole.
        """
        address, path = graph_address(graph_id), make_graph_path(graph_id)
        self._require_approval(approval)
        try:
            if self.files.has_root(graph_id):
                note = find_work(self.files.graphs, path, self.files.settings)
                if note is not None:
                    message = (
                        f"another process is working on the graph ({note}); wait, and apply again"
                    )
                    raise refuse("graph_delete_export_in_progress", address, message)
            before = look_at_graph(self.files, graph_id).manifest_version
            sidecar = self._announce(SidecarKind.GRAPH_DELETE, graph_id, before, None, approval)
            remove_graph(self.files.graphs, path)
        except ClusterError:
            raise
        except OmniError as error:
            raise refuse("graph_delete_failed", address, error.message) from error
        self.draft.bury_graph(graph_id, approval.approval_id, self.actor)
        self._consume(approval, sidecar)
        self.made.append(sidecar.operation_id)

    def _announce(
        self,
        kind: SidecarKind,
        graph_id: str,
        observed: int | None,
        digest: str | None,
        approval: ChangeApproval | None,
    ) -> RecoverySidecar:
        sidecar = RecoverySidecar(
            operation_id=self.ids.next(),
            started_at=read_clock(),
            actor=self.actor,
            kind=kind,
            graph_id=graph_id,
            graph_uri=self.files.graph_uri(graph_id),
            observed_manifest_version=observed,
            desired_schema_digest=digest,
            state_cas_base=self.state_cas,
            approval_id=None if approval is None else approval.approval_id,
        )
        write_sidecar(self.files, sidecar)
        return sidecar

    def _note(self, sidecar: RecoverySidecar, graph: Graph, schema: DesiredResource) -> None:
        """Say in the sidecar and in the draft what a graph has become."""
        seen, graph_id = describe_graph(graph), sidecar.graph_id
        known = msgspec.structs.replace(sidecar, expected_manifest_version=seen.manifest_version)
        write_sidecar(self.files, known)
        live = seen.schema_digest or schema.digest
        self.draft.record_schema(graph_id, schema.digest, schema.record.source, live)
        address = graph_address(graph_id)
        self.draft.observations[address] = seen.describe(self.files, graph_id, schema.digest)
        self.made.append(sidecar.operation_id)

    def _require_approval(self, approval: ChangeApproval) -> None:
        """Raise unless the approval is still there and unused, right before it is used."""
        found = read_approval(self.files, approval.approval_id, self.report)
        if found != approval:
            message = (
                f"the approval {approval.approval_id} is gone, or was used or changed meanwhile"
            )
            raise refuse("apply_approval_invariant_violation", approval.resource, message)

    def _consume(self, approval: ChangeApproval | None, sidecar: RecoverySidecar) -> None:
        if approval is not None:
            self.draft.approvals[approval.approval_id] = ApprovalRecord(
                resource=approval.resource,
                operation=approval.operation,
                approved_by=approval.approved_by,
                consumed_at=read_clock(),
                consumed_by_operation=sidecar.operation_id,
            )

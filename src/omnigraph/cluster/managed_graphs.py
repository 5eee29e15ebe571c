"""Graphs that a cluster manages: observe, create, migrate and delete them, and recover.

A change is announced in a sidecar before it begins. A graph is never rolled back: an
interrupted change is recorded as made, or its intent is withdrawn. What cannot be decided keeps
its sidecar, and the graph is left unchanged until it can.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.control_records import (
    ChangeApproval,
    RecoverySidecar,
    SidecarKind,
    StateLock,
    read_approval,
    read_sidecars,
    remove_sidecar,
    write_sidecar,
)
from omnigraph.cluster.desired_state import DesiredResource, DesiredState
from omnigraph.cluster.resources import digest_file, graph_address, make_graph_path, schema_address
from omnigraph.cluster.state_ledger import (
    ApprovalRecord,
    GraphObservation,
    LedgerDraft,
    RecoveryRecord,
    ResourceRecord,
    StatusWord,
    read_clock,
)
from omnigraph.errors import ClusterError, OmniError, StorageError
from omnigraph.graph.graph import Graph
from omnigraph.graph.graph import init as init_graph
from omnigraph.graph.graph import open as open_graph
from omnigraph.identity import UlidSource
from omnigraph.storage.graph_lifecycle import find_work, is_unfinished_creation, remove_graph


@dataclass(frozen=True, slots=True)
class ObservedGraph:
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


def observe_graph(files: ClusterFiles, graph_id: str, *, settles: bool = False) -> ObservedGraph:
    """What is there; with `settles`, writes that were interrupted are finished or undone first."""
    try:
        if not files.has_root(graph_id):
            return ObservedGraph(exists=False)
        uri = files.graph_uri(graph_id)
        with open_graph(uri, read_only=not settles, settings=files.settings) as graph:
            return describe_graph(graph)
    except OmniError as error:
        return ObservedGraph(exists=True, error=error.message)


def describe_graph(graph: Graph) -> ObservedGraph:
    """An open graph as its root would be found."""
    version = graph.snapshot().graph_manifest_version
    return ObservedGraph(True, version, digest_file(graph.schema.encode()))


@dataclass
class GraphOperations:
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
            if not observe_graph(self.files, graph_id).exists:
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
            if observe_graph(self.files, graph_id).manifest_version == before:
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
            before = observe_graph(self.files, graph_id).manifest_version
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


ACTUAL_PENDING = "actual_applied_state_pending"
CREATE_INCOMPLETE = "graph_create_incomplete"


@dataclass
class SweepResult:
    """What a sweep came to."""

    settled: list[str] = field(default_factory=list)
    """Operations whose sidecar goes once the ledger is written."""
    pending: set[str] = field(default_factory=set)
    """Graphs whose change is not settled."""


def sweep(
    files: ClusterFiles,
    draft: LedgerDraft,
    desired: DesiredState,
    report: ClusterReport,
    lock: StateLock | None,
) -> SweepResult:
    """Settle every interrupted change that can be settled, in the draft of the ledger.

    Without a lock, what looks interrupted may be the work of somebody else at this moment; then
    nothing is removed.
    """
    swept = SweepResult()
    for sidecar in read_sidecars(files, report).values():
        sweeper = _Sweeper(files, draft, desired, report, sidecar, is_alone=lock is not None)
        sweeper.settle(swept)
    return swept


@dataclass(frozen=True, slots=True)
class _Sweeper:
    files: ClusterFiles
    draft: LedgerDraft
    desired: DesiredState
    report: ClusterReport
    sidecar: RecoverySidecar
    is_alone: bool

    @property
    def _address(self) -> str:
        return graph_address(self.sidecar.graph_id)

    def settle(self, swept: SweepResult) -> None:
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
        seen = observe_graph(self.files, self.sidecar.graph_id, settles=True)
        if not seen.exists:
            return True
        if seen.is_open:
            return self._compare(seen)
        return self._clear_unfinished(seen)

    def _settle_schema(self) -> bool:
        seen = observe_graph(self.files, self.sidecar.graph_id, settles=True)
        if not seen.is_open:
            message = f"the graph cannot be opened: {seen.error or 'it is not there'}"
            self.report.add("cluster_recovery_pending", self._address, message)
            return False
        return self._compare(seen)

    def _compare(self, seen: ObservedGraph) -> bool:
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

    def _roll_forward(self, seen: ObservedGraph, live: str) -> None:
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

    def _clear_unfinished(self, seen: ObservedGraph) -> bool:
        """Remove what a creation left that never came to a graph: nobody can have used it."""
        path = make_graph_path(self.sidecar.graph_id)
        try:
            is_left = is_unfinished_creation(self.files.graphs, path, self.files.settings)
            if is_left and self.is_alone:
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
            if not is_there and self.is_alone:
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

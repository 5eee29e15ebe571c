"""Graphs that a cluster manages: observe, create, migrate and delete them, and recover.

A change is announced by an intent before its first effect. A graph is never rolled back: an
interrupted change is recorded as made, or its intent is withdrawn. A change that cannot be resolved
keeps its intent, and the graph is left unchanged until it can.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import msgspec

from omnigraph.cluster.cluster_diagnostics import ClusterReport, refuse, refusing
from omnigraph.cluster.cluster_files import ClusterFiles
from omnigraph.cluster.cluster_session import LockedCluster
from omnigraph.cluster.control_records import (
    ChangeApproval,
    GraphIntent,
    IntentKind,
    find_approval,
    read_intents,
    remove_intents,
    write_intent,
)
from omnigraph.cluster.desired_state import DesiredResource, DesiredState
from omnigraph.cluster.resources import digest_file, graph_address, make_graph_path, schema_address
from omnigraph.cluster.state_ledger import (
    GraphObservation,
    ReadLedger,
    RecoveryRecord,
    ResourceRecord,
    StateLedger,
    StatusWord,
    read_clock,
    write_ledger,
)
from omnigraph.errors import ClusterError, OmniError, Severity
from omnigraph.graph.graph import Graph
from omnigraph.graph.graph import init as init_graph
from omnigraph.graph.graph import open as open_graph
from omnigraph.identity import UlidSource
from omnigraph.storage.graph_lifecycle import (
    find_active_writer,
    is_unfinished_creation,
    remove_graph,
)

UNATTRIBUTED = "actual_applied_state_pending"
CREATE_INCOMPLETE = "graph_create_incomplete"
"""Conditions of graphs whose interrupted change recovery could not resolve."""

_ids = UlidSource()


@dataclass(frozen=True, slots=True)
class ObservedGraph:
    """The observed state of a graph root."""

    exists: bool
    """Whether there is anything at all."""
    manifest_version: int | None = None
    schema_digest: str | None = None
    error: str | None = None
    """The error of opening it."""

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
        """Return the observation for the ledger; the record tells where only comments differ."""
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


def observe_graph(files: ClusterFiles, graph_id: str, *, recovers: bool = False) -> ObservedGraph:
    """Observe a graph root; with `recovers`, interrupted writes are finished or undone first."""
    try:
        if not files.has_root(graph_id):
            return ObservedGraph(exists=False)
        uri = files.graph_uri(graph_id)
        with open_graph(uri, read_only=not recovers, settings=files.settings) as graph:
            return _observe_open(graph)
    except OmniError as error:
        return ObservedGraph(exists=True, error=error.message)


def _observe_open(graph: Graph) -> ObservedGraph:
    version = graph.snapshot().graph_manifest_version
    return ObservedGraph(True, version, digest_file(graph.schema.encode()))


@dataclass
class GraphChanges:
    """Changes of graphs by one command, recorded in its copy of the ledger."""

    files: ClusterFiles
    desired: DesiredState
    report: ClusterReport
    ledger: StateLedger
    base: ReadLedger | None
    """The ledger as it was read."""
    is_locked: bool
    actor: str | None = None
    finished: list[str] = field(default_factory=list)
    """Operations whose intents are removed once the ledger is written."""
    pending: set[str] = field(default_factory=set)
    """Graphs whose interrupted change could not be resolved."""

    @classmethod
    def of(
        cls, cluster: LockedCluster, base: ReadLedger | None, actor: str | None = None
    ) -> GraphChanges:
        """Begin to change a cluster, and resolve its interrupted changes."""
        ledger = StateLedger() if base is None else base.ledger.copy()
        is_locked = cluster.lock is not None
        changes = cls(
            cluster.files, cluster.desired, cluster.report, ledger, base, is_locked, actor
        )
        changes.recover()
        return changes

    @property
    def is_changed(self) -> bool:
        """Whether the ledger differs from the one that was read."""
        return self.base is None or self.ledger.refresh_digests() != self.base.ledger

    def write(self) -> ReadLedger:
        """Write the ledger, and remove the intents of the changes that it records.

        Raises:
            ClusterError: another operator wrote the ledger meanwhile, or it cannot be written.
        """
        written = write_ledger(self.files, self.ledger.refresh_digests(), self.base)
        self.remove_intents()
        return written

    def remove_intents(self) -> None:
        remove_intents(self.files, self.finished, self.report)

    # --- changes ---

    def create(
        self, graph_id: str, schema: DesiredResource, approval: ChangeApproval | None
    ) -> None:
        """Create a graph with its schema.

        Raises:
            ClusterError: it was not created, or the outcome is unknown.
        """
        schema.require_unchanged()
        if approval is not None:
            self._require_approval(approval)
        code, address = "graph_create_failed", graph_address(graph_id)
        uri, settings = self.files.graph_uri(graph_id), self.files.settings
        with refusing(code, address):
            if self.files.has_root(graph_id):
                message = f"something is at {uri}, which the ledger does not have"
                raise refuse(code, address, message)
            intent = self._announce(
                IntentKind.GRAPH_CREATE, graph_id, digest=schema.digest, approval=approval
            )
            try:
                with init_graph(uri, schema.source, actor=self.actor, settings=settings) as graph:
                    self._finish(intent, graph, schema)
            except ClusterError:
                raise
            except OmniError:
                if not observe_graph(self.files, graph_id).exists:
                    remove_intents(self.files, [intent.operation_id], self.report)
                raise
        self._consume(approval, intent)

    def apply_schema(self, graph_id: str, schema: DesiredResource) -> None:
        """Apply a schema to a graph.

        Raises:
            ClusterError: it was not applied, or the outcome is unknown.
        """
        schema.require_unchanged()
        with refusing("schema_apply_failed", schema_address(graph_id)):
            self.files.require_root(graph_id)
            uri, settings = self.files.graph_uri(graph_id), self.files.settings
            with open_graph(uri, actor=self.actor, settings=settings) as graph:
                self._apply_schema(graph, graph_id, schema)

    def _apply_schema(self, graph: Graph, graph_id: str, schema: DesiredResource) -> None:
        before = _observe_open(graph)
        if not graph.apply_schema(schema.source, dry_run=True).steps:
            # At most comments differ: the graph keeps its text.
            self._record_schema(graph_id, schema.digest, schema.record.source, before)
            return
        intent = self._announce(
            IntentKind.SCHEMA_APPLY, graph_id, before.manifest_version, schema.digest
        )
        try:
            graph.apply_schema(schema.source, actor=self.actor)
        except OmniError:
            after = observe_graph(self.files, graph_id)
            if after.manifest_version == before.manifest_version:
                remove_intents(self.files, [intent.operation_id], self.report)
            raise
        self._finish(intent, graph, schema)

    def delete(self, graph_id: str, approval: ChangeApproval) -> None:
        """Delete a graph with everything in it.

        Raises:
            ClusterError: it was not deleted, or not completely.
        """
        address, path = graph_address(graph_id), make_graph_path(graph_id)
        self._require_approval(approval)
        with refusing("graph_delete_failed", address):
            if self.files.has_root(graph_id):
                note = find_active_writer(self.files.graphs, path, self.files.settings)
                if note is not None:
                    message = (
                        f"another process is working on the graph ({note}); wait, and apply again"
                    )
                    raise refuse("graph_delete_export_in_progress", address, message)
            before = observe_graph(self.files, graph_id).manifest_version
            intent = self._announce(IntentKind.GRAPH_DELETE, graph_id, before, approval=approval)
            remove_graph(self.files.graphs, path)
        self.ledger.record_deletion(graph_id, approval.approval_id, self.actor)
        self._consume(approval, intent)
        self.finished.append(intent.operation_id)

    def _announce(
        self,
        kind: IntentKind,
        graph_id: str,
        version: int | None = None,
        digest: str | None = None,
        approval: ChangeApproval | None = None,
    ) -> GraphIntent:
        intent = GraphIntent(
            operation_id=_ids.next(),
            started_at=read_clock(),
            actor=self.actor,
            kind=kind,
            graph_id=graph_id,
            graph_uri=self.files.graph_uri(graph_id),
            observed_manifest_version=version,
            desired_schema_digest=digest,
            state_cas_base=None if self.base is None else self.base.cas,
            approval_id=None if approval is None else approval.approval_id,
        )
        write_intent(self.files, intent)
        return intent

    def _finish(self, intent: GraphIntent, graph: Graph, schema: DesiredResource) -> None:
        """Record the version and the schema that a graph has after its change."""
        after = _observe_open(graph)
        version = after.manifest_version
        write_intent(self.files, msgspec.structs.replace(intent, expected_manifest_version=version))
        self._record_schema(intent.graph_id, schema.digest, schema.record.source, after)
        self.finished.append(intent.operation_id)

    def _record_schema(
        self, graph_id: str, digest: str, source: str | None, observed: ObservedGraph
    ) -> None:
        live = observed.schema_digest or digest
        self.ledger.record_schema(graph_id, digest, source, live)
        observation = observed.describe(self.files, graph_id, live)
        self.ledger.observations[graph_address(graph_id)] = observation

    def _require_approval(self, approval: ChangeApproval) -> None:
        """Raise unless the approval is still stored and unused, right before its use."""
        if find_approval(self.files, approval.approval_id, self.report) != approval:
            message = (
                f"the approval {approval.approval_id} is gone, or was used or changed meanwhile"
            )
            raise refuse("apply_approval_invariant_violation", approval.resource, message)

    def _consume(self, approval: ChangeApproval | None, intent: GraphIntent) -> None:
        if approval is not None:
            record = approval.record_use(intent.operation_id)
            self.ledger.approval_records[approval.approval_id] = record

    # --- recovery ---

    def recover(self) -> None:
        """Resolve the interrupted changes that can be resolved.

        Without a lock, a change that looks interrupted may be in progress elsewhere; then nothing
        is removed.
        """
        for intent in read_intents(self.files, self.report):
            if self._is_resolved(intent):
                self.finished.append(intent.operation_id)
            else:
                self.pending.add(intent.graph_id)

    def _is_resolved(self, intent: GraphIntent) -> bool:
        if intent.kind is IntentKind.GRAPH_DELETE:
            return self._resolve_deletion(intent)
        observed = observe_graph(self.files, intent.graph_id, recovers=True)
        if observed.is_open:
            return self._resolve_schema(intent, observed)
        if intent.kind is IntentKind.GRAPH_CREATE:
            return not observed.exists or self._remove_unfinished(intent, observed)
        message = f"the graph cannot be opened: {observed.error or 'it is not there'}"
        self.report.add("cluster_recovery_pending", graph_address(intent.graph_id), message)
        return False

    def _resolve_schema(self, intent: GraphIntent, observed: ObservedGraph) -> bool:
        """Resolve a creation or a migration by the schema of the graph."""
        graph_id, live = intent.graph_id, observed.schema_digest
        recorded = self.ledger.resources.get(schema_address(graph_id))
        if recorded is not None and live == recorded.held_digest:
            return True
        wanted = self.desired.resources.get(schema_address(graph_id))
        desired_digest = None if wanted is None else wanted.digest
        if live is None or live not in (intent.desired_schema_digest, desired_digest):
            message = (
                "the graph has a schema that neither the ledger nor the interrupted change knows; "
                "put that schema into the configuration and apply again"
            )
            self._report_unresolved(
                intent, "cluster_recovery_unattributed", StatusWord.DRIFTED, UNATTRIBUTED, message
            )
            return False
        source = None if wanted is None else wanted.record.source
        self._record_schema(graph_id, live, source, observed)
        self._roll_forward(intent)
        return True

    def _remove_unfinished(self, intent: GraphIntent, observed: ObservedGraph) -> bool:
        """Remove the files of a creation that never became a graph: nobody can have used them."""
        path, reason = make_graph_path(intent.graph_id), observed.error
        try:
            is_left = is_unfinished_creation(self.files.graphs, path, self.files.settings)
            if is_left and self.is_locked:
                remove_graph(self.files.graphs, path)
                return True
        except OmniError as error:
            reason = error.message
        message = (
            f"the interrupted creation left a root that cannot be opened: {reason}; "
            f"remove {self.files.graph_uri(intent.graph_id)} and apply again"
        )
        self._report_unresolved(
            intent, "graph_create_incomplete", StatusWord.ERROR, CREATE_INCOMPLETE, message
        )
        return False

    def _resolve_deletion(self, intent: GraphIntent) -> bool:
        graph_id, address = intent.graph_id, graph_address(intent.graph_id)
        is_left = None
        with (
            self.report.collect(Severity.WARNING),
            refusing("cluster_recovery_pending", address),
        ):
            has_root = self.files.has_root(graph_id)
            if not has_root and self.is_locked:
                # Empty folders may be left.
                remove_graph(self.files.graphs, make_graph_path(graph_id))
            is_left = has_root
        if is_left is None:
            return False
        if is_left:
            message = "the interrupted deletion left a part of the graph; it is planned again"
            self.report.add("graph_delete_incomplete", address, message)
        elif address in self.ledger.resources:
            self.ledger.record_deletion(graph_id, intent.approval_id, intent.actor)
            self._roll_forward(intent)
        return True

    def _roll_forward(self, intent: GraphIntent) -> None:
        """Record an interrupted change as made."""
        if intent.approval_id is not None:
            self._consume(find_approval(self.files, intent.approval_id, self.report), intent)
        self.ledger.recovery_records[intent.operation_id] = RecoveryRecord(
            kind=str(intent.kind),
            graph_id=intent.graph_id,
            outcome="rolled_forward",
            actor=intent.actor,
            started_at=intent.started_at,
            recovered_at=read_clock(),
        )
        word = "deletion" if intent.kind is IntentKind.GRAPH_DELETE else intent.kind
        message = f"the interrupted {word} had been made; it is recorded now"
        address = graph_address(intent.graph_id)
        self.report.add("cluster_recovery_rolled_forward", address, message)

    def _report_unresolved(
        self, intent: GraphIntent, code: str, status: StatusWord, condition: str, message: str
    ) -> None:
        address = graph_address(intent.graph_id)
        self.ledger.set_status(address, status, condition, message)
        self.report.add(code, address, message)

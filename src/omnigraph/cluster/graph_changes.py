"""Graphs that a cluster manages: observe, create, migrate and delete them, and recover.

A change is announced by an intent before its first effect. A graph is never rolled back: an
interrupted change is recorded as made, or its intent is withdrawn. A change that cannot be resolved
keeps its intent, and the graph is left unchanged until it can.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import msgspec

from omnigraph.cluster.cluster_diagnostics import refuse, refusing
from omnigraph.cluster.cluster_files import (
    ClusterFiles,
    digest_file,
    graph_address,
    make_graph_path,
    schema_address,
)
from omnigraph.cluster.cluster_session import ClusterSession
from omnigraph.cluster.control_records import (
    INTENTS,
    GraphIntent,
    GraphObservation,
    IntentKind,
    StatusWord,
    new_id,
    read_clock,
)
from omnigraph.cluster.desired_state import DesiredFile
from omnigraph.errors import BadRequest, OmniError, Severity
from omnigraph.graph.graph import Graph
from omnigraph.graph.graph import init as init_graph
from omnigraph.graph.graph import open as open_graph
from omnigraph.storage.graph_lifecycle import (
    exclude_writers,
    is_unfinished_creation,
    remove_graph,
)

UNATTRIBUTED = "actual_applied_state_pending"
CREATE_INCOMPLETE = "graph_create_incomplete"
UNRESOLVED = frozenset({UNATTRIBUTED, CREATE_INCOMPLETE})
"""Conditions of graphs whose interrupted change recovery could not resolve."""


def recover_changes(cluster: ClusterSession) -> None:
    """Resolve the interrupted changes that can be resolved.

    Without a lock, a change that looks interrupted may be in progress elsewhere; then nothing is
    removed.
    """
    for intent in INTENTS.list_usable(cluster.files, cluster.report):
        if ManagedGraph(cluster, intent.graph_id).resolve(intent):
            cluster.finished.append(intent)
        else:
            cluster.pending.add(intent.graph_id)


@dataclass(frozen=True, slots=True)
class ManagedGraph:
    """One graph, as a command observes, changes or recovers it."""

    cluster: ClusterSession
    id: str

    @property
    def address(self) -> str:
        return graph_address(self.id)

    @property
    def files(self) -> ClusterFiles:
        return self.cluster.files

    @property
    def uri(self) -> str:
        return self.files.graph_uri(self.id)

    @property
    def _path(self) -> str:
        return make_graph_path(self.id)

    def observe(self, *, recovers: bool = False) -> GraphObservation:
        """Observe the root; with `recovers`, interrupted writes are finished or undone first."""
        settings = self.files.settings
        try:
            if not self.files.has_root(self.id):
                return self._describe(exists=False)
            with open_graph(self.uri, read_only=not recovers, settings=settings) as graph:
                return self._describe(graph)
        except OmniError as error:
            return self._describe(error=error.message)

    def _describe(
        self, graph: Graph | None = None, *, exists: bool = True, error: str | None = None
    ) -> GraphObservation:
        """Make the observation of an open graph, or of a root that is not one."""
        version = None if graph is None else graph.snapshot().graph_manifest_version
        return GraphObservation(
            address=self.address,
            graph_uri=self.uri,
            observed_at=read_clock(),
            exists=exists,
            graph_manifest_version=version,
            schema_digest=None if graph is None else digest_file(graph.schema.encode()),
            error=error,
        )

    def block(
        self, code: str, message: str, condition: str, word: StatusWord = StatusWord.ERROR
    ) -> None:
        """Report a problem of the graph, and record it as its status."""
        self.cluster.report.add(code, self.address, message)
        self.cluster.ledger.set_status([self.address], word, condition, message)

    # --- changes, each of which raises a `ClusterError` if it fails ---

    def create(self) -> None:
        """Create the graph with its schema."""
        actor, settings, schema = self.cluster.actor, self.files.settings, self._take_schema()
        with refusing("graph_create_failed", self.address):
            if self.files.has_root(self.id):
                raise BadRequest(f"something is at {self.uri}, which the ledger does not have")
            before = self._describe(exists=False)
            with (
                self._announced(IntentKind.GRAPH_CREATE, before, schema) as intent,
                init_graph(self.uri, schema.source, actor=actor, settings=settings) as graph,
            ):
                self._finish(intent, graph, schema)

    def apply_schema(self) -> None:
        """Apply the desired schema to the graph."""
        actor, settings, schema = self.cluster.actor, self.files.settings, self._take_schema()
        with refusing("schema_apply_failed", schema_address(self.id)):
            self.files.require_root(self.id)
            with open_graph(self.uri, actor=actor, settings=settings) as graph:
                before = self._describe(graph)
                if not graph.apply_schema(schema.source, dry_run=True).steps:
                    # At most comments differ: the graph keeps its text.
                    self.cluster.ledger.record_graph(before, schema.name, schema.digest)
                    return
                with self._announced(IntentKind.SCHEMA_APPLY, before, schema) as intent:
                    graph.apply_schema(schema.source, actor=actor)
                    self._finish(intent, graph, schema)

    def delete(self) -> None:
        """Delete the graph with everything in it."""
        files = self.files
        assert self.address in self.cluster.approvals, "a deletion without an approval is blocked"
        with (
            refusing("graph_delete_failed", self.address),
            exclude_writers(files.graphs, self._path, files.settings) as note,
        ):
            if note is not None:
                message = f"another process is working on the graph ({note}); wait, and apply again"
                raise refuse("graph_delete_export_in_progress", self.address, message)
            with self._announced(IntentKind.GRAPH_DELETE, self.observe()) as intent:
                remove_graph(files.graphs, self._path)
                self._record(intent)

    def _take_schema(self) -> DesiredFile:
        """Return the desired schema, whose file must be as it was planned."""
        address = schema_address(self.id)
        schema = self.cluster.desired.files[address]
        schema.require_unchanged(address)
        return schema

    @contextmanager
    def _announced(
        self, kind: IntentKind, before: GraphObservation, schema: DesiredFile | None = None
    ) -> Iterator[GraphIntent]:
        """Write the intent of a change; remove it if the change fails and the graph is as before.

        The approval of a gated change must still be stored and unused.
        """
        cluster, approval_id = self.cluster, None
        approval = cluster.approvals.get(self.address)
        if approval is not None:
            approval_id = approval.approval_id
            if cluster.find_approval(approval_id) != approval:
                message = f"the approval {approval_id} was removed, used or changed concurrently"
                raise refuse("apply_approval_invariant_violation", self.address, message)
        intent = GraphIntent(
            operation_id=new_id(),
            started_at=read_clock(),
            actor=cluster.actor,
            kind=kind,
            graph_id=self.id,
            graph_uri=self.uri,
            observed_manifest_version=before.graph_manifest_version,
            desired_schema_digest=None if schema is None else schema.digest,
            state_cas_base=None if cluster.base is None else cluster.base.digest,
            approval_id=approval_id,
        )
        INTENTS.put(self.files.control, intent)
        try:
            yield intent
        except OmniError:
            # A deletion that fails may have removed some tables already.
            if kind is not IntentKind.GRAPH_DELETE and self.observe().is_same_version(before):
                cluster.remove_intents(intent)
            raise
        cluster.finished.append(intent)

    def _finish(self, intent: GraphIntent, graph: Graph, schema: DesiredFile) -> None:
        """Record the version and the schema that the graph has after its change."""
        after = self._describe(graph)
        version = after.graph_manifest_version
        intent = msgspec.structs.replace(intent, expected_manifest_version=version)
        INTENTS.put(self.files.control, intent)
        self._record(intent, after, schema)

    def _record(
        self,
        intent: GraphIntent,
        after: GraphObservation | None = None,
        schema: DesiredFile | None = None,
    ) -> None:
        """Record a change in the ledger: the graph with its schema, or its deletion."""
        cluster, ledger, approval = self.cluster, self.cluster.ledger, None
        if after is None:
            ledger.record_deletion(self.id, intent.approval_id, intent.actor)
        else:
            ledger.record_graph(after, None if schema is None else schema.name)
        if intent.approval_id is not None:
            known = cluster.approvals.get(self.address)
            approval = known or cluster.find_approval(intent.approval_id)
        if approval is not None:
            consumed = approval.consume(intent.operation_id)
            ledger.approval_records[approval.approval_id] = consumed

    # --- recovery ---

    def resolve(self, intent: GraphIntent) -> bool:
        """Resolve an interrupted change, if it can be resolved."""
        if intent.kind is IntentKind.GRAPH_DELETE:
            return self._resolve_deletion(intent)
        observed = self.observe(recovers=True)
        if observed.is_open:
            return self._resolve_schema(intent, observed)
        if intent.kind is IntentKind.GRAPH_CREATE:
            return not observed.exists or self._remove_unfinished(observed)
        message = f"the graph cannot be opened: {observed.error or 'it is not there'}"
        self.cluster.report.add("cluster_recovery_pending", self.address, message)
        return False

    def _resolve_schema(self, intent: GraphIntent, observed: GraphObservation) -> bool:
        """Resolve a creation or a migration by the schema of the graph."""
        address, live = schema_address(self.id), observed.schema_digest
        recorded = self.cluster.ledger.resources.get(address)
        if recorded is not None and live == recorded.held_digest:
            return True
        desired = self.cluster.desired.files.get(address)
        if live in (intent.desired_schema_digest, None if desired is None else desired.digest):
            self._roll_forward(intent, observed, desired)
            return True
        message = (
            "the graph has a schema that neither the ledger nor the interrupted change knows; "
            "put that schema into the configuration and apply again"
        )
        self.block("cluster_recovery_unattributed", message, UNATTRIBUTED, StatusWord.DRIFTED)
        return False

    def _remove_unfinished(self, observed: GraphObservation) -> bool:
        """Remove the files of a creation that never became a graph, and so were never read."""
        files, reason = self.files, observed.error
        try:
            is_residue = is_unfinished_creation(files.graphs, self._path, files.settings)
            if is_residue and self.cluster.acquired is not None:
                remove_graph(files.graphs, self._path)
                return True
        except OmniError as error:
            reason = error.message
        message = (
            f"the interrupted creation left a root that cannot be opened: {reason}; "
            f"remove {self.uri} and apply again"
        )
        self.block("graph_create_incomplete", message, CREATE_INCOMPLETE)
        return False

    def _resolve_deletion(self, intent: GraphIntent) -> bool:
        cluster, report = self.cluster, self.cluster.report
        with report.collect(Severity.WARNING), refusing("cluster_recovery_pending", self.address):
            if self.files.has_root(self.id):
                message = "the interrupted deletion left a part of the graph; it is planned again"
                report.add("graph_delete_incomplete", self.address, message)
                return True
            if cluster.acquired is not None:
                # Empty folders may be left.
                remove_graph(self.files.graphs, self._path)
            if self.address in cluster.ledger.resources:
                self._roll_forward(intent)
            return True
        return False

    def _roll_forward(
        self,
        intent: GraphIntent,
        observed: GraphObservation | None = None,
        schema: DesiredFile | None = None,
    ) -> None:
        """Record an interrupted change as made."""
        self._record(intent, observed, schema)
        recovered = msgspec.structs.replace(intent, recovered_at=read_clock())
        self.cluster.ledger.recovery_records[intent.operation_id] = recovered
        word = "deletion" if observed is None else intent.kind
        message = f"the interrupted {word} had been made; it is recorded now"
        self.cluster.report.add("cluster_recovery_rolled_forward", self.address, message)
